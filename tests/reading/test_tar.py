from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import archives, torch_files

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.reading.tar import Tar, is_tar

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def member(name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def packed(*members, layout=tarfile.GNU_FORMAT):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=layout) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def rules(data):
    return {finding.rule for finding in Tar(memoryview(data), where="a.tar").findings()}


def read(archive):
    return {name: bytes(archive.read(name)) for name in archive.members}


@pytest.mark.parametrize("layout", FORMATS.values(), ids=FORMATS)
def test_an_honest_file_is_read_as_tarfile_reads_it_and_has_no_findings(layout):
    long = "d" * 90 + "/" + "n" * 90
    content = {"a.txt": b"hello", long: b"z" * 1000, "empty": b"", "ä/é": b"1"}
    data = packed(*(member(name, part, mtime=1) for name, part in content.items()), layout=layout)
    assert is_tar(memoryview(data))
    archive = Tar(memoryview(data), where="a.tar", strict=True)
    assert read(archive) == content
    assert archive.read(long).obj is memoryview(data).obj


def test_long_names_links_to_its_own_files_and_folders_are_honest():
    archive = Tar(memoryview(archives.linked()), where="a.tar", strict=True)
    assert bytes(archive.read("folder/link.txt")) == bytes(archive.read("second.txt")) == b"12345"


SYMBOLIC = {"type": tarfile.SYMTYPE}
HARD = {"type": tarfile.LNKTYPE}
FILE = member("file", b"1")


def sized_by_pax():
    return packed(member("file", b"12345", pax_headers={"size": "1"}), layout=tarfile.PAX_FORMAT)


HOSTILE = {
    "a link and a file behind it (113)": (
        lambda: packed(member("d", linkname="/tmp", **SYMBOLIC), member("d/file", b"1")),
        "tar-link",
    ),
    "a hard link out of it (114)": (lambda: packed(member("h", linkname="../../etc/passwd", **HARD)), "tar-link"),
    "an absolute link": (lambda: packed(member("s", linkname="/etc/passwd", **SYMBOLIC)), "tar-link"),
    "a chain of links (115)": (
        lambda: packed(
            member("a" * 200, linkname=".", **SYMBOLIC),
            member("s", linkname="/".join(["a" * 200] * 20) + "/..", **SYMBOLIC),
        ),
        "tar-link",
    ),
    "a link to what is not there": (lambda: packed(FILE, member("s", linkname="later", **SYMBOLIC)), "tar-link"),
    "a device (116)": (lambda: packed(member("null", type=tarfile.CHRTYPE)), "tar-device"),
    "a pipe (116)": (lambda: packed(member("pipe", type=tarfile.FIFOTYPE)), "tar-device"),
    "names that differ in case (117)": (lambda: packed(FILE, member("FILE", b"2")), "tar-duplicate"),
    "names that differ in Unicode's forms (117)": (
        lambda: packed(member("\u00e9", b"1"), member("e\u0301", b"2")),
        "tar-duplicate",
    ),
    "a name twice": (lambda: packed(FILE, FILE), "tar-duplicate"),
    "an absolute name (118)": (lambda: packed(member("/etc/passwd", b"1")), "tar-name"),
    "a way out (118)": (lambda: packed(member("a/../../b", b"1")), "tar-name"),
    "a drive (118)": (lambda: packed(member("C:/b", b"1")), "tar-name"),
    "a stream (118)": (lambda: packed(member("a:b", b"1")), "tar-name"),
    "a backslash (118)": (lambda: packed(member("..\\b", b"1")), "tar-name"),
    "a kind that nobody knows": (lambda: packed(member("a", type=b"Z")), "tar-ambiguous"),
    "holes": (lambda: packed(member("a", type=tarfile.GNUTYPE_SPARSE)), "tar-sparse"),
    "another size by pax": (sized_by_pax, "tar-ambiguous"),
    "bytes behind its end": (lambda: packed(FILE) + b"\x80\x02K\x01.", "tar-hidden-bytes"),
    "a second archive behind its end": (lambda: packed(FILE) + packed(FILE), "tar-hidden-bytes"),
    "bytes in the padding": (lambda: packed(FILE).replace(b"1\0\0\0", b"1\0\0x", 1), "tar-hidden-bytes"),
}


@pytest.mark.parametrize(("make", "rule"), HOSTILE.values(), ids=HOSTILE)
def test_what_would_do_harm_when_it_is_unpacked_is_found_and_not_loaded(make, rule):
    data = make()
    assert rule in rules(data)
    with pytest.raises(MalformedError):
        Tar(memoryview(data), where="a.tar", strict=True)


def test_a_sparse_member_is_not_read():
    archive = Tar(memoryview(packed(member("a", type=tarfile.GNUTYPE_SPARSE))), where="a.tar")
    assert "a" not in archive
    pax = packed(member("b", b"1", pax_headers={"GNU.sparse.major": "1"}), layout=tarfile.PAX_FORMAT)
    with pytest.raises(LimitExceededError, match="holes"):
        Tar(memoryview(pax), where="a.tar").read("b")


@pytest.mark.parametrize(
    "data", [b"", bytes(1024), b"x" * 600, packed(FILE)[:300], packed(member("a", bytes(5000)))[:2000]]
)
def test_what_is_no_tar_file_or_cut_off_is_malformed(data):
    with pytest.raises(MalformedError):
        Tar(memoryview(data), where="a.tar")


def test_a_name_without_an_end_is_a_limit():
    data = bytearray(packed(member("n" * 300)))
    data[124:136] = b"77777777777\0"
    block = bytes(data[:148]) + b" " * 8 + bytes(data[156:512])
    data[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(VitrifyError):
        Tar(memoryview(bytes(data)), where="a.tar")


@given(
    members=st.dictionaries(
        st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=150).filter(
            lambda name: name == name.casefold()
        ),
        st.binary(max_size=1500),
        min_size=1,
        max_size=5,
    ),
    layout=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_whatever_is_packed_comes_back(members, layout):
    data = packed(*(member(name, content) for name, content in members.items()), layout=layout)
    assert read(Tar(memoryview(data), where="a.tar")) == members


@given(data=st.data(), make=st.sampled_from([archives.linked, lambda: packed(FILE), torch_files.tar_era]))
def test_damage_gives_typed_errors_only_and_what_is_accepted_is_what_tarfile_reads(data, make):
    made = bytearray(make())
    for _ in range(data.draw(st.integers(1, 3))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    try:
        contents = read(Tar(memoryview(bytes(made)), where="a.tar", strict=True))
    except VitrifyError:
        return
    with tarfile.open(fileobj=io.BytesIO(bytes(made))) as theirs:
        found = {one.name.removeprefix("./"): theirs.extractfile(one) for one in theirs if not one.isdir()}
    assert set(contents) == set(found)


@pytest.mark.parametrize("place", [100, 108, 116, 136, 329, 337])
def test_a_field_that_is_no_number_is_found_where_another_reader_stops(place):
    data = bytearray(packed(member("file", b"1")))
    data[place : place + 4] = b"9xyz"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(tarfile.ReadError):
        tarfile.TarFile(fileobj=io.BytesIO(data))
    assert "tar-ambiguous" in rules(bytes(data))


@pytest.mark.parametrize("told", [b"no length and a line end\n", b"9 a=bcdef\n", b" =\n", b"0 a=b\n", b"-3 a=b\n"])
def test_a_pax_header_whose_length_leads_nowhere_is_malformed(told):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        about = tarfile.TarInfo("about")
        about.type, about.size = tarfile.XHDTYPE, len(told)
        archive.addfile(about, io.BytesIO(told))
        archive.addfile(tarfile.TarInfo("a"))
    with pytest.raises(MalformedError, match="pax header"):
        Tar(memoryview(stream.getvalue()), where="a.tar")
