"""One file for one artifact: there and back, the same bytes every time, and no trick of a tar does harm."""

import gzip
import io
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError, MalformedError, ReferenceNotFoundError, UsageError, VitrifyError
from vitrify.stores import OciLayout, attach, attestations, export, fsck, import_
from vitrify.testing.stores import contents, damage, save

FILES = {"model/weights.bin": bytes(range(256)) * 5000, "empty": b"", "vitrify.json": b"{}"}


@pytest.fixture
def archive(store, statement, tmp_path):
    digest = save(store, FILES, "team/churn:1.2.0")
    attach(store, digest, statement(digest))
    path = tmp_path / "churn.tar"
    export(store, digest, path)
    return path


def test_what_was_exported_is_imported_with_its_name_and_attestations(store, other, archive):
    digest = import_(other, archive)
    assert digest == store.names.get("team/churn:1.2.0").content
    assert other.names.all() == store.names.all()
    assert contents(other, digest) == FILES
    assert attestations(other, digest) == attestations(store, digest) != ()
    assert fsck(other).passed


def test_importing_under_another_name_gives_that_name_only(other, archive):
    digest = import_(other, archive, "churn:imported")
    assert list(other.names.all()) == ["churn:imported"]
    assert contents(other, digest) == FILES


def test_importing_twice_or_over_damage_leaves_one_good_copy(store, archive):
    digest = store.names.get("team/churn:1.2.0").content
    before = set(store.digests())
    damage(store.place(Digest.of(FILES["vitrify.json"])), "empty")
    assert import_(store, archive) == digest
    assert set(store.digests()) == before
    assert fsck(store).passed


def test_the_same_artifact_gives_the_same_bytes(store, other, archive, tmp_path):
    digest = import_(other, archive)
    os.utime(archive, (0, 0))
    export(other, digest, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()


def test_the_archive_says_nothing_about_when_where_and_by_whom(archive):
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, 0, "", "", 0o644)}


def test_an_artifact_that_lost_its_name_can_still_be_exported(store, other, tmp_path):
    digest = save(store, FILES, "churn:latest")
    store.names.unset("churn:latest")
    export(store, digest, tmp_path / "nameless.tar")
    assert import_(other, tmp_path / "nameless.tar") == digest
    assert other.names.all() == {}
    assert contents(other, digest) == FILES


@pytest.mark.parametrize("how", ["flip", "truncate", "missing"])
def test_a_damaged_artifact_is_not_exported(store, tmp_path, how):
    digest = save(store, FILES, "churn:latest")
    place = store.place(Digest.of(FILES["model/weights.bin"]))
    place.unlink() if how == "missing" else damage(place, how)
    (tmp_path / "churn.tar").write_bytes(b"the old export")
    with pytest.raises(CorruptError, match=r"model/weights\.bin"):
        export(store, digest, tmp_path / "churn.tar")
    assert (tmp_path / "churn.tar").read_bytes() == b"the old export"
    assert [path.name for path in tmp_path.glob("*churn*")] == ["churn.tar"]


def test_exporting_what_is_not_there_is_an_error(store, tmp_path):
    with pytest.raises(ReferenceNotFoundError):
        export(store, Digest.of(b"absent"), tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


def test_importing_what_is_not_there_is_an_error(store, tmp_path):
    with pytest.raises(ReferenceNotFoundError, match=r"absent\.tar"):
        import_(store, tmp_path / "absent.tar")


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_an_error_or_changes_nothing(store, archive, tmp_path_factory, position, bit):
    data = bytearray(archive.read_bytes())
    data[int(position * len(data))] ^= 1 << bit
    folder = tmp_path_factory.mktemp("flipped")
    (folder / "bad.tar").write_bytes(data)
    into = OciLayout(folder / "store")
    try:
        digest = import_(into, folder / "bad.tar")
    except VitrifyError as error:
        assert "bad.tar" in str(error)  # noqa: PT017 (either outcome is right)
        assert list(into.digests()) == []
    else:
        assert contents(into, digest) == FILES


@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_archive_is_an_error(store, archive, tmp_path_factory, part):
    data = archive.read_bytes()
    folder = tmp_path_factory.mktemp("short")
    (folder / "short.tar").write_bytes(data[: int(part * (len(data) - 12_000))])
    into = OciLayout(folder / "store")
    with pytest.raises(VitrifyError, match=r"short\.tar"):
        import_(into, folder / "short.tar")
    assert list(into.digests()) == []


def plain(name, data=b"x", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, data


def add(tar, name, data):
    member, data = plain(name, data)
    tar.addfile(member, io.BytesIO(data))


HOSTILE = {
    "absolute": [plain("/etc/cron.d/x")],
    "climbing": [plain("../../x")],
    "climbing inside": [plain("blobs/../../x")],
    "backslash": [plain("blobs\\..\\x")],
    "symbolic link": [plain("blobs/sha256/link", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
    "link over a member": [plain("index.json", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
    "hard link": [plain("link", b"", type=tarfile.LNKTYPE, linkname="index.json")],
    "device": [plain("null", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "pipe": [plain("pipe", b"", type=tarfile.FIFOTYPE)],
    "sparse": [plain("hole", b"", type=tarfile.GNUTYPE_SPARSE)],
    "twice": [plain("oci-layout", b"{}")],
    "twice in disguise": [plain("./oci-layout", b"{}")],
    "pax sparse": [plain("hole", b"x", pax_headers={"GNU.sparse.size": "99999999999", "GNU.sparse.map": "0,1"})],
    "pax size": [plain("big", b"x", pax_headers={"size": "99999999999"})],
    "pax path": [plain("innocent", b"x", pax_headers={"path": "../../x"})],
    "huge pax header": [plain("x", b"x", pax_headers={"comment": "y" * 1_000_000})],
    "long name": [plain("d/" * 50_000 + "x")],
    "unknown type": [plain("x", b"", type=b"Z")],
}


@pytest.mark.parametrize("trick", list(HOSTILE))
@pytest.mark.parametrize("first", [True, False])
def test_a_hostile_member_is_an_error_and_nothing_is_taken(other, archive, tmp_path, trick, first):
    with tarfile.open(archive) as tar:
        good = [(member, tar.extractfile(member).read()) for member in tar]
    members = [*HOSTILE[trick], *good] if first else [*good, *HOSTILE[trick]]
    path = tmp_path / "hostile.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(MalformedError, match=r"hostile\.tar"):
        import_(other, path)
    assert list(other.digests()) == []
    assert not (tmp_path.parent / "x").exists()


def test_a_size_that_lies_is_an_error(other, tmp_path):
    member, _ = plain("oci-layout", b"")
    member.size = 1 << 40
    (tmp_path / "lies.tar").write_bytes(member.tobuf() + b"\0" * 2048)
    with pytest.raises(MalformedError, match=r"lies\.tar"):
        import_(other, tmp_path / "lies.tar")


def test_too_many_members_are_an_error(other, tmp_path, monkeypatch):
    monkeypatch.setattr("vitrify.stores._tar._MAX_MEMBERS", 10)
    with tarfile.open(tmp_path / "many.tar", "w") as tar:
        for number in range(20):
            tar.addfile(tarfile.TarInfo(f"f{number}"))
    with pytest.raises(MalformedError, match="more than 10 members"):
        import_(other, tmp_path / "many.tar")


def test_a_compressed_archive_is_an_error_that_says_so(other, archive):
    packed = archive.with_suffix(".tar.gz")
    packed.write_bytes(gzip.compress(archive.read_bytes()))
    with pytest.raises(MalformedError) as caught:
        import_(other, packed)
    assert "decompress" in caught.value.remedy


def test_a_tar_of_something_else_is_an_error(other, tmp_path):
    with tarfile.open(tmp_path / "else.tar", "w") as tar:
        add(tar, "README", b"hello")
    with pytest.raises(MalformedError, match="oci-layout"):
        import_(other, tmp_path / "else.tar")


def rewritten(archive, path, **changes):
    """Write an archive again with some members' content changed, or left out where it is None."""
    with tarfile.open(archive) as tar, tarfile.open(path, "w") as out:
        for member in tar:
            data = changes.get(member.name, tar.extractfile(member).read())
            if data is not None:
                add(out, member.name, data)


def test_content_that_is_not_what_its_digest_says_is_named(other, archive, tmp_path):
    digest = Digest.of(FILES["vitrify.json"])
    rewritten(archive, tmp_path / "bad.tar", **{f"blobs/sha256/{digest.hex}": b"{ }"})
    with pytest.raises(CorruptError, match=r"vitrify\.json") as caught:
        import_(other, tmp_path / "bad.tar")
    assert Digest.of(b"{ }").hex in str(caught.value)
    assert list(other.digests()) == []


def test_content_that_is_missing_is_named(other, archive, tmp_path):
    digest = Digest.of(FILES["vitrify.json"])
    rewritten(archive, tmp_path / "bad.tar", **{f"blobs/sha256/{digest.hex}": None})
    with pytest.raises(CorruptError, match=r"vitrify\.json"):
        import_(other, tmp_path / "bad.tar")
    assert list(other.digests()) == []


def test_only_what_the_index_leads_to_is_taken(other, archive, tmp_path):
    stowaway = b"malware"
    with tarfile.open(archive) as tar, tarfile.open(tmp_path / "more.tar", "w") as out:
        for member in tar:
            out.addfile(member, tar.extractfile(member))
        add(out, f"blobs/sha256/{Digest.of(stowaway).hex}", stowaway)
        add(out, "manifest.json", b"[]")
    digest = import_(other, tmp_path / "more.tar")
    assert contents(other, digest) == FILES
    assert Digest.of(stowaway) not in set(other.digests())


def test_two_artifacts_in_one_archive_are_an_error_that_names_them(store, other, archive, tmp_path):
    save(store, {"w": b"2"}, "second:latest")
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        tar.add(store.root, ".")
    with pytest.raises(UsageError, match="second:latest"):
        import_(other, tmp_path / "two.tar")
    assert list(other.digests()) == []


def test_a_name_in_an_archive_that_is_no_name_is_refused(other, archive, tmp_path):
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json").read()
    rewritten(
        archive, tmp_path / "bad.tar", **{"index.json": index.replace(b"team/churn:1.2.0", b"../../churn: \\u001b")}
    )
    with pytest.raises(UsageError):
        import_(other, tmp_path / "bad.tar")
    assert list(other.digests()) == []
