"""Reading back: a changed byte anywhere is a typed error that names the place, before any parser sees it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, VitrifyError
from vitrify.core.manifest import MODEL_CONFIG_TYPE, Descriptor, Manifest
from vitrify.stores import ArtifactFiles, OciLayout, fsck, read_manifest
from vitrify.testing.stores import build, contents, damage, save

FILES = {"model/weights.bin": b"weights" * 100, "vitrify.json": b'{"schema":1}'}


@pytest.mark.parametrize("how", ["flip", "truncate", "extend", "empty"])
@pytest.mark.parametrize("name", list(FILES))
def test_a_damaged_file_is_named_with_both_digests(store, name, how):
    digest = save(store, FILES, "churn:latest")
    files = ArtifactFiles(store, read_manifest(store, digest))
    place = files.path(name)
    damage(place, how)
    for read in (files.read, files.map, files.path):
        with pytest.raises(CorruptError, match=name) as caught:
            read(name)
        assert Digest.of(FILES[name]).hex in str(caught.value)
        assert Digest.of_file(place).hex in str(caught.value)
        assert caught.value.remedy


def test_a_missing_file_is_named(store):
    digest = save(store, FILES, "churn:latest")
    files = ArtifactFiles(store, read_manifest(store, digest))
    files.path("vitrify.json").unlink()
    for read in (files.read, files.map, files.path):
        with pytest.raises(CorruptError, match=r"vitrify\.json"):
            read("vitrify.json")


def test_the_first_map_checks_all_files_together(store):
    digest = save(store, FILES, "churn:latest")
    damage(store.blob(Digest.of(FILES["vitrify.json"])), "flip")
    with pytest.raises(CorruptError, match=r"vitrify\.json"):
        ArtifactFiles(store, read_manifest(store, digest)).map("model/weights.bin")


def test_one_file_is_read_without_the_others(store):
    digest = save(store, FILES, "churn:latest")
    damage(store.blob(Digest.of(FILES["model/weights.bin"])), "flip")
    assert ArtifactFiles(store, read_manifest(store, digest)).read("vitrify.json") == FILES["vitrify.json"]


def test_what_is_read_is_hashed_even_if_the_file_was_checked_before(store, monkeypatch):
    """The bytes may change between the check and the read."""
    digest = save(store, FILES, "churn:latest")
    files = ArtifactFiles(store, read_manifest(store, digest))
    damage(files.path("vitrify.json"), "flip")
    monkeypatch.setattr(store.verified, "knows", lambda *_: True)
    with pytest.raises(CorruptError, match=r"vitrify\.json"):
        files.read("vitrify.json")


def test_a_file_that_is_not_there_is_an_error_that_lists_those_that_are(store):
    digest = save(store, FILES, "churn:latest")
    files = ArtifactFiles(store, read_manifest(store, digest))
    for read in (files.read, files.map, files.path):
        with pytest.raises(ReferenceNotFoundError, match=r"vitrify\.json"):
            read("other")


def test_a_size_that_the_blob_does_not_have_is_an_error(store):
    def lying(files):
        return build(tuple(file.replace(size=file.size + 1) for file in files))

    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"1")
        digest = stage.commit(lying, None)
    with pytest.raises(MalformedError, match="file w"):
        ArtifactFiles(store, read_manifest(store, digest)).read("w")


@pytest.mark.parametrize("how", ["flip", "truncate", "extend", "empty"])
def test_a_damaged_manifest_is_an_error_before_it_is_parsed(store, how):
    digest = save(store, FILES, "churn:latest")
    damage(store.place(digest), how)
    with pytest.raises(CorruptError, match=digest.hex):
        read_manifest(store, digest)


def test_a_manifest_without_bounds_is_not_read(store):
    data = b" " * (5 << 20)
    with store.stage() as stage:
        digest = stage.add(data)
        stage.publish([])
    with pytest.raises(MalformedError, match="more than"):
        read_manifest(store, digest)


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_in_the_index_is_an_error_or_changes_nothing_that_is_read(store, position, bit):
    digest = save(store, FILES, "churn:latest")
    path = store.root / "index.json"
    good = path.read_bytes()
    bad = bytearray(good)
    bad[int(position * len(bad))] ^= 1 << bit
    path.write_bytes(bad)
    try:
        fresh = OciLayout(store.root)
        assert contents(fresh, fresh.names.get("churn:latest").content) == FILES
        assert fresh.names.get("churn:latest").content == digest
    except VitrifyError as error:
        assert "index.json" in str(error) or "blob" in str(error)  # noqa: PT017 (either outcome is right)
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schemaVersion":1,"manifests":[]}',
        b'{"schemaVersion":2}',
        b'{"schemaVersion":2,"manifests":[{}]}',
        b'{"schemaVersion":2,"manifests":[{"mediaType":"a","size":-1,"digest":"sha256:' + b"0" * 64 + b'"}]}',
        b'{"schemaVersion":2,"manifests":[{"mediaType":"a","size":1,"digest":"sha256:../../etc/passwd"}]}',
        b'{"schemaVersion":2,"manifests":[{"mediaType":"a","size":1,"digest":"md5:00"}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_an_index_that_is_none_is_an_error_that_names_the_file_and_is_kept(store, data):
    save(store, FILES, "churn:latest")
    path = store.root / "index.json"
    path.write_bytes(data)
    for act in (store.names.all, lambda: save(store, {"w": b"new"}, "churn:latest")):
        with pytest.raises(MalformedError, match=r"index\.json"):
            act()
    assert path.read_bytes() == data
    assert fsck(store).verdict == "found"


def test_unknown_fields_of_a_manifest_survive_to_the_byte(store):
    raw = json.loads(Manifest.of_model(_config(), (), {}).to_json())
    raw["future"] = {"deep": [1, {"x": None}]}
    data = json.dumps(raw).encode()
    with store.stage() as stage:
        digest = stage.add(data)
        stage.publish([])
    assert json.loads(read_manifest(store, digest).to_json()) == raw


def test_a_map_is_read_only_and_not_a_copy(store):
    digest = save(store, FILES, "churn:latest")
    files = ArtifactFiles(store, read_manifest(store, digest))
    view = files.map("model/weights.bin")
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 0
    assert type(view.obj).__name__ == "mmap"


def _config():
    return Descriptor(media_type=MODEL_CONFIG_TYPE, digest=str(Digest.of(b"{}")), size=2)
