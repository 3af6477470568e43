from __future__ import annotations

import io
import struct
import weakref
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import archives, torch_files

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.reading import zip as reading
from vitrify.reading.zip import Zip, ends_like_zip, opened

MEMBERS = {"first.txt": b"1" * 100, "folder/second.bin": bytes(range(256)), "third": b"x"}
HONEST = {
    "stored": lambda: torch_files.zipped(MEMBERS),
    "deflated": lambda: torch_files.zipped(MEMBERS, zipfile.ZIP_DEFLATED),
    "streamed": archives.streamed,
    "zip64": archives.wide,
    "torch": lambda: torch_files.saved("checkpoint"),
    "torchscript": torch_files.scripted,
    "empty": lambda: torch_files.zipped({}),
}


def look(data):
    return Zip(memoryview(data), where="a.zip")


def rules(data):
    try:
        return {finding.rule for finding in look(data).findings()}
    except MalformedError:
        return {"malformed"}


def header(data, name, *, local):
    """Return where a member's central or local header begins."""
    mark, size = (b"PK\x03\x04", 30) if local else (b"PK\x01\x02", 46)
    at = -1
    while (at := data.find(mark, at + 1)) >= 0:
        if data[at + size : at + size + len(name)] == name.encode():
            return at
    raise LookupError(name)


def changed(data, name, offset, value, *, local=False, layout="<H"):
    made = bytearray(data)
    struct.pack_into(layout, made, header(data, name, local=local) + offset, value)
    return bytes(made)


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST)
def test_an_honest_file_is_read_as_zipfile_reads_it_and_has_no_findings(make):
    data = make()
    ours = Zip(memoryview(data), where="a.zip", strict=True)
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert list(ours.members) == theirs.namelist()
        assert all(ours.read(name) == theirs.read(name) for name in theirs.namelist())
    assert ours.findings() == ()


def test_a_stored_member_is_a_view_of_the_file_and_not_a_copy():
    data = memoryview(torch_files.zipped({"a": bytes(1000)}))
    archive = Zip(data, where="a.zip")
    assert archive.view_raw("a").obj is data.obj
    assert archive.view_raw("a").nbytes == 1000
    assert archive.head("a", 10) == bytes(10)


def test_the_directory_is_read_once_while_the_bytes_are_at_hand_and_the_budget_is_everyones_own(monkeypatch):
    monkeypatch.setattr(reading, "MIN_TOTAL", 50_000)
    view = memoryview(torch_files.zipped({"a": bytes(40_000)}, zipfile.ZIP_DEFLATED))
    first, second = opened(view, where="first"), opened(view, where="second")
    assert first.members is second.members
    first.read("a")
    second.read("a")
    with pytest.raises(LimitExceededError, match="second"):
        second.read("a")
    seen = weakref.ref(view)
    del first, second, view
    assert seen() is None, "what is kept of a file does not keep the file"


ENTRY = torch_files.zipped(MEMBERS)
SECRET = torch_files.zipped({"evil.pkl": b"cos\nsystem\n."})


def edited_names(old, new, *, local=True, central=True):
    """Rename a member in one of the two places, or in both."""
    data = bytearray(ENTRY)
    for kind, wanted in ((True, local), (False, central)):
        if wanted:
            at = header(ENTRY, old, local=kind) + (30 if kind else 46)
            data[at : at + len(old)] = new
    return bytes(data)


def second_end():
    end = ENTRY[-22:]
    return ENTRY[:-22] + end[:20] + struct.pack("<H", len(end)) + end


def gap():
    start = ENTRY.index(b"PK\x01\x02")
    end = bytearray(ENTRY[-22:])
    struct.pack_into("<I", end, 16, start + 10)
    return ENTRY[:start] + b"hidden ..." + ENTRY[start:-22] + bytes(end)


def overlapping():
    """Let the second member be one that lies within the first."""
    inner = torch_files.zipped({"third": b"x"})
    data = bytearray(torch_files.zipped({"first": inner, "third": b"x"}))
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 42, data.index(inner))
    return bytes(data)


def linked():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return stream.getvalue()


def duplicated():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.pkl", b"first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.pkl", b"second")
    return stream.getvalue()


def repeated_folder():
    return torch_files.zipped({"model": b"a file", "model/data.pkl": b"and a folder"})


HOSTILE = {
    "an encryption flag (61)": (lambda: changed(ENTRY, "third", 8, 1), "zip-encrypted"),
    "an encryption flag in one header only (61)": (lambda: changed(ENTRY, "third", 6, 1, local=True), "zip-ambiguous"),
    "another local name (62)": (lambda: edited_names("third", b"other", central=False), "zip-ambiguous"),
    "another local method": (lambda: changed(ENTRY, "third", 8, 8, local=True), "zip-ambiguous"),
    "another local checksum": (lambda: changed(ENTRY, "third", 14, 7, local=True, layout="<I"), "zip-ambiguous"),
    "another local size": (lambda: changed(ENTRY, "third", 22, 7, local=True, layout="<I"), "zip-ambiguous"),
    "a name twice (65)": (duplicated, "zip-duplicate"),
    "a pickle before it (66)": (lambda: b"\x80\x02K\x01." + ENTRY, "zip-ambiguous"),
    "a pickle before the first member": (
        lambda: torch_files.zipped(MEMBERS).replace(ENTRY, b"\x80\x02." + ENTRY, 1),
        "zip-ambiguous",
    ),
    "a second end (68)": (second_end, "malformed"),
    "bytes after the end": (lambda: ENTRY + b"\x80\x02K\x01.", "zip-ambiguous"),
    "bytes before the directory": (gap, "zip-hidden-bytes"),
    "a zip as its comment": (
        lambda: ENTRY[:-2] + struct.pack("<H", len(SECRET) - 22) + SECRET[:-22],
        "zip-hidden-bytes",
    ),
    "a pickle as its comment": (lambda: ENTRY[:-2] + b"\x0d\x00cos\nsystem\n(.", "zip-hidden-bytes"),
    "members that overlap": (overlapping, "zip-overlap"),
    "a link (88)": (linked, "zip-link"),
    "an unknown method": (lambda: changed(changed(ENTRY, "third", 10, 99), "third", 8, 99, local=True), "zip-method"),
    "a file that is a folder by its attributes": (
        lambda: changed(ENTRY, "third", 38, 0x10, layout="<I"),
        "zip-ambiguous",
    ),
    "a version that nobody reads": (lambda: changed(ENTRY, "third", 6, 200), "zip-ambiguous"),
    "a patch": (lambda: changed(changed(ENTRY, "third", 8, 32), "third", 6, 32, local=True), "zip-ambiguous"),
    "an absolute name (118)": (lambda: edited_names("third", b"/hird"), "zip-name"),
    "a name with NUL (118)": (lambda: edited_names("third", b"th\0rd"), "zip-name"),
    "a drive (118)": (lambda: edited_names("third", b"c:ird"), "zip-name"),
    "a stream (118)": (lambda: edited_names("third", b"th:rd"), "zip-name"),
    "a backslash (118)": (lambda: edited_names("third", b"th\\rd"), "zip-name"),
    "a way out (86)": (lambda: edited_names("third", b"../rd"), "zip-name"),
    "a very long name (115)": (lambda: torch_files.zipped({"d/" * 3000: b""}), "zip-name"),
    "names that differ in case (117)": (lambda: torch_files.zipped({"a.bin": b"1", "A.bin": b"2"}), "zip-name"),
    "names that differ in Unicode's forms (117)": (
        lambda: torch_files.zipped({"\u00e9": b"1", "e\u0301": b"2"}),
        "zip-name",
    ),
    "a file that is a folder": (repeated_folder, "zip-duplicate"),
    "a bomb": (lambda: torch_files.zipped({"bomb": bytes(80_000_000)}, zipfile.ZIP_DEFLATED), "zip-bomb"),
}


@pytest.mark.parametrize(("make", "rule"), HOSTILE.values(), ids=HOSTILE)
def test_what_no_honest_writer_makes_is_found_and_not_loaded(make, rule):
    data = make()
    assert rule in rules(data)
    with pytest.raises(MalformedError):
        Zip(memoryview(data), where="a.zip", strict=True)


@pytest.mark.parametrize("name", ["dense/kernel:0.npy", "a b.txt", "ünï.txt", "..hidden", "a..b", "folder/"])
def test_an_unusual_name_that_honest_writers_give_is_no_finding(name):
    assert rules(torch_files.zipped({name: b""})) == set()


def test_a_wrong_checksum_is_refused_where_the_member_is_parsed():  # recipe 63
    data = changed(changed(ENTRY, "third", 16, 7, layout="<I"), "third", 14, 7, local=True, layout="<I")
    archive = look(data)
    assert archive.view_raw("third") == b"x"
    with pytest.raises(MalformedError, match="checksum"):
        archive.read("third")


def test_a_bomb_stops_before_it_is_unpacked():
    data = torch_files.zipped({"bomb": bytes(80_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(LimitExceededError):
        look(data).read("bomb")


def test_a_member_that_lies_about_its_size_is_refused():
    data = torch_files.zipped({"a": bytes(1000)}, zipfile.ZIP_DEFLATED)
    data = changed(changed(data, "a", 24, 10, layout="<I"), "a", 22, 10, local=True, layout="<I")
    with pytest.raises(MalformedError, match="as long as"):
        look(data).read("a")


@pytest.mark.parametrize(
    "data",
    [b"", b"PK", b"PK\x03\x04" + bytes(40), b"no zip at all" * 10, ENTRY[:-30], ENTRY[: len(ENTRY) // 2]],
)
def test_what_is_no_zip_file_is_malformed(data):
    with pytest.raises(MalformedError):
        look(data)
    assert not ends_like_zip(memoryview(data)) or data == ENTRY[:-30]


def test_a_directory_of_more_members_than_it_says_is_malformed():
    data = bytearray(ENTRY)
    struct.pack_into("<2H", data, len(data) - 14, 2, 2)
    with pytest.raises(MalformedError, match="2 at its end"):
        look(bytes(data))


def test_a_number_of_members_that_no_file_has_is_a_limit():
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2**60, 2**60, 0, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0, 0, 0)
    with pytest.raises(LimitExceededError):
        look(record + locator + end)


@given(
    members=st.dictionaries(
        st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20), st.binary(max_size=200), max_size=8
    ),
    method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_whatever_is_packed_comes_back(members, method):
    archive = look(torch_files.zipped(members, method))
    assert {name: bytes(archive.read(name)) for name in archive.members} == members


@given(data=st.data(), make=st.sampled_from(list(HONEST.values())))
def test_damage_gives_typed_errors_only_and_what_is_accepted_is_what_zipfile_reads(data, make):
    made = bytearray(make())
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(made)) | st.just(len(made)))
    try:
        ours = Zip(memoryview(bytes(made[:cut])), where="a.zip", strict=True)
        contents = {name: bytes(ours.read(name)) for name in ours.members}
    except VitrifyError:
        return
    with zipfile.ZipFile(io.BytesIO(bytes(made[:cut]))) as theirs:
        assert contents == {name: theirs.read(name) for name in theirs.namelist()}


def test_a_directory_that_is_broken_is_read_once_whoever_asks(monkeypatch):
    count, read = [], reading._zip_records.entries

    def counted(*arguments):
        count.append(1)
        return read(*arguments)

    monkeypatch.setattr(reading._zip_records, "entries", counted)
    view = memoryview(HONEST["stored"]().replace(b"PK\x01\x02", b"PK\x01\x03", 1))
    messages = []
    for _ in range(5):
        with pytest.raises(MalformedError) as told:
            opened(view, where="a.zip")
        messages.append(str(told.value))
    assert (len(count), len(set(messages))) == (1, 1)


EXTRAS = {
    "padding": (b"FB" + struct.pack("<H", 100) + b"Z" * 100, False),
    "zeros": (bytes(3), False),
    "times": (struct.pack("<2HB2I", 0x5455, 9, 3, 1, 2), False),
    "another kind": (struct.pack("<2H", 0x9999, 40) + bytes(range(40)), True),
    "a known kind that is too long": (struct.pack("<2H", 0x5455, 80) + bytes(range(80)), True),
    "a block that is cut off": (struct.pack("<2H", 0x5455, 80) + bytes(range(40)), True),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_what_hides_in_an_extra_field_is_found(name):
    extra, hides = EXTRAS[name]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("a.txt")
        info.extra = extra
        archive.writestr(info, b"text")
    assert rules(stream.getvalue()) == ({"zip-hidden-bytes"} if hides else set())
