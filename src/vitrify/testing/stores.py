"""What every store must do, as tests that its author can run; they need pytest and Hypothesis.

>>> class TestMyStore(StoreConformance):                       # doctest: +SKIP
...     @pytest.fixture
...     def factory(self, tmp_path):
...         return lambda label: open_my_store(tmp_path / label)

``factory`` opens a store and its names; the same label is the same place, opened anew.
"""

# ruff: noqa: D102, PT012 (a test's name is its sentence; what must raise is a block that fails half-way)

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, UsageError
from vitrify.core.manifest import MANIFEST_TYPE, MODEL_CONFIG_TYPE, MODEL_TYPE, Descriptor, Manifest, ModelConfig
from vitrify.core.protocols import Names, Store
from vitrify.stores import ArtifactFiles, read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Factory = Callable[[str], tuple[Store, Names]]

_MIB = 1024 * 1024
_CONTENTS = {
    "empty": b"",
    "one byte": b"x",
    "one below a buffer": b"a" * (_MIB - 1),
    "one above a buffer": b"b" * (_MIB + 1),
    "many buffers": bytes(range(256)) * (20 * 1024),
}


def build(files: tuple[Descriptor, ...]) -> tuple[Manifest, bytes]:
    """Return the manifest and the configuration of a model of these files: what ``commit`` asks for."""
    config = ModelConfig.of({}, {}, files).to_json()
    described = Descriptor(media_type=MODEL_CONFIG_TYPE, digest=str(Digest.of(config)), size=len(config))
    return Manifest.of_model(described, files, {}), config


def save(store: Store, files: Mapping[str, bytes], name: str | None = None) -> Digest:
    """Commit files: every second one as a stream, the others through a path."""
    with store.stage() as stage:
        for index, (path, content) in enumerate(files.items()):
            if index % 2:
                with stage.path(path, "weight.config") as place:
                    place.write_bytes(content)
            else:
                with stage.open(path, "weight") as stream:
                    stream.write(content)
        return stage.commit(build, name)


def contents(store: Store, digest: Digest) -> dict[str, bytes]:
    """Return the files of an artifact, read in each of the three ways."""
    files = ArtifactFiles(store, read_manifest(store, digest))
    read = {name: files.read(name) for name in files.names()}
    assert read == {name: bytes(files.map(name)) for name in files.names()}
    assert read == {name: files.path(name).read_bytes() for name in files.names()}
    return read


def damage(path: Path, how: str) -> None:
    """Change a file behind a store's back: ``flip`` a byte, ``truncate`` it, ``extend`` it or ``empty`` it."""
    data = path.read_bytes()
    middle = len(data) // 2
    changed = {
        "flip": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "truncate": data[:-1],
        "extend": data + b"\0",
        "empty": b"",
    }[how]
    path.chmod(0o644)
    path.write_bytes(changed)


class StoreConformance:
    """Subclass it with a fixture ``factory``; see the module's text."""

    @pytest.fixture
    def factory(self) -> Factory:
        """Return what opens a store by a label."""
        raise NotImplementedError("a conformance suite needs the fixture `factory`")

    def test_what_was_committed_is_read_back_by_another_instance(self, factory: Factory) -> None:
        digest = save(factory("a")[0], _CONTENTS, "churn:latest")
        store, names = factory("a")
        assert names.get("churn:latest").content == digest
        assert contents(store, digest) == _CONTENTS

    def test_the_manifest_has_the_digest_that_commit_returned(self, factory: Factory) -> None:
        store, names = factory("a")
        digest = save(store, {"w": b"1"}, "churn:latest")
        data = store.blob(digest).read_bytes()
        target = names.get("churn:latest")
        assert Digest.of(data) == digest
        assert (target.media_type, target.size, target.artifact_type) == (MANIFEST_TYPE, len(data), MODEL_TYPE)

    def test_the_same_content_has_the_same_digest_in_every_store_and_order(self, factory: Factory) -> None:
        turned = dict(reversed(_CONTENTS.items()))
        first, second = (save(factory(label)[0], files) for label, files in (("a", _CONTENTS), ("b", _CONTENTS)))
        assert first == second
        assert _by_path(factory, "a", first) == _by_path(factory, "c", save(factory("c")[0], turned))

    def test_committing_again_changes_nothing(self, factory: Factory) -> None:
        store, _ = factory("a")
        first = save(store, _CONTENTS, "churn:latest")
        before = set(store.digests())
        assert save(store, _CONTENTS, "churn:latest") == first
        assert set(store.digests()) == before
        assert contents(store, first) == _CONTENTS

    def test_every_blob_is_listed_and_is_what_its_digest_says(self, factory: Factory) -> None:
        store, _ = factory("a")
        digest = save(store, _CONTENTS)
        listed = list(store.digests())
        referenced = {item.content for item in read_manifest(store, digest).referenced()}
        assert len(listed) == len(set(listed))
        assert set(listed) == {digest, *referenced}
        assert all(Digest.of_file(store.blob(blob)) == blob for blob in listed)

    def test_leaving_a_stage_without_a_commit_leaves_nothing(self, factory: Factory) -> None:
        store, names = factory("a")
        with store.stage() as stage, stage.open("w", "weight") as stream:
            stream.write(b"gone")
        assert (list(store.digests()), names.all()) == ([], {})

    def test_an_error_in_a_stage_leaves_nothing_and_is_raised(self, factory: Factory) -> None:
        store, names = factory("a")
        before = save(store, {"w": b"old"}, "churn:latest")
        listed = set(store.digests())
        with pytest.raises(ZeroDivisionError), store.stage() as stage:
            with stage.open("w", "weight") as stream:
                stream.write(b"new")
            stage.commit(lambda _: 1 // 0, "churn:latest")  # type: ignore[arg-type,return-value]  # it never returns
        assert set(store.digests()) == listed
        assert names.get("churn:latest").content == before

    def test_staged_files_are_read_before_they_are_committed(self, factory: Factory) -> None:
        store, _ = factory("a")
        with store.stage() as stage:
            for path, content in _CONTENTS.items():
                with stage.open(path, "weight") as stream:
                    stream.write(content)
            files = stage.files()
            assert files.names() == tuple(sorted(_CONTENTS))
            assert {name: files.read(name) for name in files.names()} == _CONTENTS
            assert {name: bytes(files.map(name)) for name in files.names()} == _CONTENTS
            assert all(files.path(name).read_bytes() == content for name, content in _CONTENTS.items())
        assert list(store.digests()) == []

    def test_a_file_whose_block_failed_is_not_staged_and_its_name_is_free(self, factory: Factory) -> None:
        store, _ = factory("a")
        with store.stage() as stage:
            with pytest.raises(ZeroDivisionError), stage.open("w", "weight") as stream:
                stream.write(b"half")
                raise ZeroDivisionError
            with pytest.raises(ZeroDivisionError), stage.path("w", "weight") as place:
                place.write_bytes(b"half")
                raise ZeroDivisionError
            with stage.open("w", "weight") as stream:
                stream.write(b"whole")
            digest = stage.commit(build, None)
        assert contents(store, digest) == {"w": b"whole"}

    @pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../b", "a//b", ".", "a\\b", "c:d", "nul\0"])
    def test_a_file_with_an_unsafe_name_is_refused(self, factory: Factory, name: str) -> None:
        with factory("a")[0].stage() as stage:
            with pytest.raises(MalformedError), stage.open(name, "weight"):
                pass
            with pytest.raises(MalformedError), stage.path(name, "weight"):
                pass

    @pytest.mark.parametrize("second", ["model/W", "model/w"])
    def test_two_files_of_one_name_in_any_case_are_refused(self, factory: Factory, second: str) -> None:
        with factory("a")[0].stage() as stage:
            with stage.open("model/w", "weight"):
                pass
            with pytest.raises(UsageError), stage.open(second, "weight"):
                pass

    def test_files_are_written_by_several_threads_at_once(self, factory: Factory) -> None:
        store, _ = factory("a")
        parts = {f"part-{index}": bytes([index]) * _MIB for index in range(8)}

        with store.stage() as stage, ThreadPoolExecutor(len(parts)) as pool:

            def write(name: str) -> None:
                with stage.open(name, "weight") as stream:
                    for start in range(0, _MIB, 100_000):
                        stream.write(memoryview(parts[name])[start : start + 100_000])

            list(pool.map(write, parts))
            digest = stage.commit(build, None)
        assert contents(store, digest) == parts

    def test_a_buffer_may_be_used_again_after_it_was_written(self, factory: Factory) -> None:
        store, _ = factory("a")
        buffer = bytearray(2 * _MIB)
        with store.stage() as stage:
            with stage.open("w", "weight") as stream:
                for fill in b"abc":
                    buffer[:] = bytes([fill]) * len(buffer)
                    stream.write(buffer)
            digest = stage.commit(build, None)
        assert contents(store, digest) == {"w": b"".join(bytes([fill]) * len(buffer) for fill in b"abc")}

    def test_a_name_moves_and_goes(self, factory: Factory) -> None:
        store, names = factory("a")
        first, second = save(store, {"w": b"1"}, "churn:latest"), save(store, {"w": b"2"}, "churn:latest")
        assert names.get("churn:latest").content == second != first
        names.set("team/churn:1.2.0", names.get("churn:latest"))
        assert {name: target.content for name, target in names.all().items()} == {
            "churn:latest": second,
            "team/churn:1.2.0": second,
        }
        names.unset("churn:latest")
        names.unset("churn:latest")
        assert list(names.all()) == ["team/churn:1.2.0"]
        assert contents(store, second) == {"w": b"2"}

    def test_a_name_that_nobody_has_is_an_error_that_names_it(self, factory: Factory) -> None:
        _, names = factory("a")
        with pytest.raises(ReferenceNotFoundError, match="churn:latest"):
            names.get("churn:latest")

    def test_a_name_cannot_be_given_to_what_is_not_there(self, factory: Factory) -> None:
        store, names = factory("a")
        absent = Descriptor(media_type=MANIFEST_TYPE, digest=str(Digest.of(b"absent")), size=6)
        save(store, {"w": b"1"})
        with pytest.raises(ReferenceNotFoundError):
            names.set("churn:latest", absent)

    def test_a_blob_that_is_not_there_is_an_error_that_names_it(self, factory: Factory) -> None:
        digest = Digest.of(b"absent")
        with pytest.raises(ReferenceNotFoundError, match=digest.hex):
            factory("a")[0].blob(digest)

    def test_removing_takes_one_blob_and_can_be_repeated(self, factory: Factory) -> None:
        store, _ = factory("a")
        digest = save(store, {"w": b"1", "v": b"2"})
        target = read_manifest(store, digest).file("w").content
        before = set(store.digests())
        store.remove(target)
        store.remove(target)
        assert set(store.digests()) == before - {target}

    @pytest.mark.parametrize("how", ["flip", "truncate", "extend", "empty"])
    def test_damaged_bytes_are_never_handed_out(self, factory: Factory, how: str) -> None:
        store, _ = factory("a")
        digest = save(store, {"w": b"weights" * 1000}, "churn:latest")
        for blob in list(store.digests()):
            good = store.blob(blob).read_bytes()
            damage(store.blob(blob), how)
            try:
                assert factory("a")[0].blob(blob).read_bytes() == good  # a store may have another copy
            except CorruptError as error:
                assert blob.hex in str(error)  # noqa: PT017 (either outcome is right)
        assert save(store, {"w": b"weights" * 1000}, "churn:latest") == digest
        assert contents(store, digest) == {"w": b"weights" * 1000}


_PATHS = st.sampled_from(["weights", "conf/a.json", "conf/b.json"])
_FILES = st.dictionaries(_PATHS, st.binary(max_size=64), min_size=1)
_NAMES = st.sampled_from(["churn:latest", "churn:1", "team/fraud:2.0"])


class StoreMachine(RuleBasedStateMachine):
    """A store against two dictionaries: what was committed, and which name leads to it.

    Subclass it with a method ``open`` that returns a store and its names, the same place every time.
    """

    def open(self) -> tuple[Store, Names]:
        """Open the store."""
        raise NotImplementedError("a store machine needs the method `open`")

    @initialize()
    def start(self) -> None:
        """Begin with nothing."""
        self.store, self.names = self.open()
        self.artifacts: dict[Digest, dict[str, bytes]] = {}
        self.named: dict[str, Digest] = {}

    @rule(files=_FILES, name=st.none() | _NAMES)
    def commit(self, files: dict[str, bytes], name: str | None) -> None:
        """Commit, over what was there or not."""
        digest = save(self.store, files, name)
        assert self.artifacts.setdefault(digest, files) == files
        if name:
            self.named[name] = digest

    @rule(files=_FILES)
    def abandon(self, files: dict[str, bytes]) -> None:
        """Write and do not commit."""
        with self.store.stage() as stage:
            for path, content in files.items():
                with stage.open(path, "weight") as stream:
                    stream.write(content)

    @rule(name=_NAMES, other=_NAMES)
    def copy_name(self, name: str, other: str) -> None:
        """Give a second name to what a name leads to."""
        if name in self.named:
            self.names.set(other, self.names.get(name))
            self.named[other] = self.named[name]
        else:
            with pytest.raises(ReferenceNotFoundError):
                self.names.get(name)

    @rule(name=_NAMES)
    def unset(self, name: str) -> None:
        """Take a name away."""
        self.names.unset(name)
        self.named.pop(name, None)

    @rule()
    def reopen(self) -> None:
        """Go on with another instance."""
        self.store, self.names = self.open()

    @invariant()
    def agrees(self) -> None:
        """Compare everything."""
        if hasattr(self, "named"):
            assert {name: target.content for name, target in self.names.all().items()} == self.named
            for digest, files in self.artifacts.items():
                assert contents(self.store, digest) == files


def _by_path(factory: Factory, label: str, digest: Digest) -> dict[str, str]:
    return {path: file.digest for path, file in read_manifest(factory(label)[0], digest).files.items()}
