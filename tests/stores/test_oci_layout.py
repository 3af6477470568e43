"""The layout on disk: the conformance suite, a state machine, and what only this store promises."""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError, StoreError, UsageError
from vitrify.core.manifest import INDEX_TYPE, MANIFEST_TYPE, Descriptor
from vitrify.stores import OciLayout, collect, default_root, default_store, export, import_, open_store
from vitrify.testing.stores import StoreConformance, StoreMachine, build, contents, save


class TestOciLayout(StoreConformance):
    @pytest.fixture
    def factory(self, tmp_path):
        def opened(label):
            store = OciLayout(tmp_path / label)
            return store, store.names

        return opened


class _Machine(StoreMachine):
    def __init__(self):
        super().__init__()
        self._stack = ExitStack()
        self._root = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._unnamed = set()

    def open(self):
        store = OciLayout(self._root / "store")
        return store, store.names

    @rule()
    def collect(self):
        kept = {entry.content for entry in self.store.index.read().manifests}
        assert kept >= set(self.named.values())
        done = collect(self.store)
        assert {Digest.parse(text) for text in done.removed}.isdisjoint(kept)
        self.artifacts = {digest: files for digest, files in self.artifacts.items() if digest in kept}
        assert collect(self.store).removed == ()

    @rule()
    def carry(self):
        for number, digest in enumerate(self.artifacts):
            path = self._root / "carried.tar"
            export(self.store, digest, path)
            other = OciLayout(self._root / f"other-{number}")
            assert import_(other, path) == digest
            assert contents(other, digest) == self.artifacts[digest]

    def teardown(self):
        self._stack.close()


TestMachine = _Machine.TestCase
TestMachine.settings = settings(max_examples=15, stateful_step_count=12)


def test_an_absent_store_reads_as_empty_and_is_not_made(tmp_path):
    store = OciLayout(tmp_path / "absent")
    assert list(store.digests()) == []
    assert store.names.all() == {}
    assert collect(store).removed == ()
    with pytest.raises(ReferenceNotFoundError):
        store.names.get("churn:latest")
    store.names.unset("churn:latest")
    store.remove(Digest.of(b""))
    assert not store.root.exists()


def test_the_default_store_follows_the_environment(tmp_path, monkeypatch):
    assert default_store().root == Path(tmp_path / "vitrify-home" / "store")
    monkeypatch.delenv("VITRIFY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_root() == tmp_path / "data" / "vitrify" / "store"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / ".local" / "share" / "vitrify" / "store"


def test_the_directory_is_an_oci_image_layout(store):
    digest = save(store, {"w": b"1"}, "churn:latest")
    assert json.loads((store.root / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((store.root / "index.json").read_bytes())
    assert index["schemaVersion"] == 2
    assert index["mediaType"] == INDEX_TYPE
    (entry,) = index["manifests"]
    assert entry["mediaType"] == MANIFEST_TYPE
    assert entry["digest"] == str(digest)
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "churn:latest"}
    assert (store.root / "blobs" / "sha256" / digest.hex).stat().st_size == entry["size"]


def test_the_index_without_entries_still_lists_them(store):
    save(store, {"w": b"1"}, "churn:latest")
    store.names.unset("churn:latest")
    assert json.loads((store.root / "index.json").read_bytes())["manifests"] == []


def test_what_other_tools_wrote_in_the_index_survives(store):
    save(store, {"w": b"1"}, "churn:latest")
    path = store.root / "index.json"
    raw = json.loads(path.read_bytes())
    raw["annotations"] = {"from": "another tool"}
    raw["manifests"][0]["platform"] = {"os": "linux", "architecture": "amd64"}
    path.write_text(json.dumps(raw))
    save(store, {"w": b"2"}, "churn:2")
    after = json.loads(path.read_bytes())
    assert after["annotations"] == raw["annotations"]
    assert raw["manifests"][0] in after["manifests"]


def test_blobs_are_read_only_and_private_files_stay_private(store):
    with store.stage() as stage:
        with stage.path("w", "weight") as path:
            path.write_bytes(b"1")
            path.chmod(0o600)
        stage.commit(build, None)
    modes = {store.place(digest).stat().st_mode & 0o777 for digest in store.digests()}
    assert 0o400 in modes
    assert all(mode & 0o222 == 0 for mode in modes)


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    store = OciLayout(tmp_path)
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        save(store, {"w": b"1"})
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "vitrify-home"] == ["thesis.tex"]


def test_open_store_takes_a_layout_only(store, tmp_path):
    digest = save(store, {"w": b"1"}, "churn:latest")
    assert contents(open_store(store.root), digest) == {"w": b"1"}
    with pytest.raises(ReferenceNotFoundError, match="oci-layout"):
        open_store(tmp_path / "absent")


@pytest.mark.parametrize("name", ["", ":", "a b", "a/", "-a", "a..b", "a" * 600, "naïve", "a\n"])
def test_a_name_that_other_tools_refuse_is_refused(store, name):
    digest = save(store, {"w": b"1"}, "churn:latest")
    before = store.index.read()
    with pytest.raises(UsageError):
        store.names.set(name, store.names.get("churn:latest"))
    with pytest.raises(UsageError):
        save(store, {"w": b"2"}, name)
    assert store.index.read() == before
    assert store.names.get("churn:latest").content == digest


def test_an_artifact_without_a_name_can_be_named_and_forgotten(store):
    digest = save(store, {"w": b"1"})
    entry = store.index.read().manifests[0]
    store.names.set("churn:latest", entry)
    assert len(store.index.read().manifests) == 1
    store.forget(digest)
    assert store.names.all() == {}
    assert len(collect(store).removed) == 3


def test_a_manifest_of_what_was_not_staged_is_refused(store):
    absent = Descriptor(media_type="a/b", digest=str(Digest.of(b"absent")), size=6)
    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"1")
        with pytest.raises(UsageError, match=Digest.of(b"absent").hex):
            stage.commit(lambda files: build((*files, absent)), "churn:latest")
    assert store.names.all() == {}
    assert list(store.digests()) == []


def test_what_was_staged_and_is_not_in_the_manifest_is_not_committed(store):
    with store.stage() as stage:
        for name in ("w", "scratch"):
            with stage.open(name, "weight") as stream:
                stream.write(name.encode())
        digest = stage.commit(lambda files: build(tuple(file for file in files if file.filepath == "w")), None)
    assert contents(store, digest) == {"w": b"w"}
    assert Digest.of(b"scratch") not in set(store.digests())


def test_a_manifest_larger_than_registries_take_is_refused(store):
    def huge(files):
        manifest, config = build(files)
        return manifest.replace(annotations={"note": "x" * (5 << 20)}), config

    with store.stage() as stage, pytest.raises(MalformedError, match="registries"):
        stage.commit(huge, None)


def test_a_path_block_must_write_exactly_its_file(store):
    with store.stage() as stage:
        with pytest.raises(UsageError, match="regular file"), stage.path("w", "weight"):
            pass
        with pytest.raises(UsageError, match="regular file"), stage.path("w", "weight") as path:
            path.mkdir()
        with pytest.raises(UsageError, match="regular file"), stage.path("w", "weight") as path:
            path.symlink_to("/etc/hostname")


def test_a_path_keeps_the_ending_that_libraries_look_at(store):
    with store.stage() as stage, stage.path("parts/model.ubj", "weight") as path:
        assert path.name == "model.ubj"
        path.write_bytes(b"")


def test_a_stream_cannot_be_written_past_its_hash(store):
    with store.stage() as stage, stage.open("w", "weight") as stream:
        assert not stream.seekable()
        with pytest.raises(OSError, match="fileno"):
            stream.fileno()


def test_a_stream_that_was_closed_in_its_block_is_whole(store):
    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"all of it")
            stream.close()
        digest = stage.commit(build, None)
    assert contents(store, digest) == {"w": b"all of it"}


def test_a_good_copy_takes_the_place_of_a_bad_one(store):
    digest = save(store, {"w": b"1"}, "churn:latest")
    for blob in list(store.digests()):
        store.place(blob).unlink()
        store.place(blob).write_bytes(b"damaged")
    assert save(store, {"w": b"1"}, "churn:latest") == digest
    assert contents(store, digest) == {"w": b"1"}


@pytest.mark.parametrize("obstacle", ["", "blobs", "blobs/sha256", ".vitrify", "oci-layout", "index.json"])
def test_a_store_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path, obstacle):
    root = tmp_path / "store"
    path = root / obstacle
    path.parent.mkdir(parents=True, exist_ok=True)
    if obstacle in {"oci-layout", "index.json"}:
        (root / "blobs").mkdir()
        path.mkdir()
    else:
        path.write_bytes(b"a file where a directory must be")
    with pytest.raises((StoreError, UsageError)) as caught:
        save(OciLayout(root), {"w": b"1"}, "churn:latest")
    assert str(tmp_path) in str(caught.value)
    assert caught.value.remedy
