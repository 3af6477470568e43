"""61 to 76 by other hands: archives that say two things, and files that are two things, glued in other ways."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zlib

from corpus import Case, data
from corpus.containers import HONEST, _zip, torch_zip
from corpus.opcodes import plain
from corpus.weights import safetensors

_WEIGHTS = safetensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
_PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I4s", 0, b"IEND")
    + struct.pack(">I", zlib.crc32(b"IEND"))
)  # fmt: skip


def _entry(
    content: bytes, name: bytes = b"archive/data.pkl", *, flags: int = 0, extra: bytes = b"", at: int = 0
) -> tuple[bytes, bytes]:
    """A stored member: its header with its content, and its entry of the directory."""
    crc, size = zlib.crc32(content), len(content)
    local = (
        struct.pack("<4s5H3I2H", b"PK\3\4", 20, flags, 0, 0, 0, crc, size, size, len(name), len(extra)) + name + extra
    )
    central = struct.pack(
        "<4s6H3I5H2I", b"PK\1\2", 20, 20, flags, 0, 0, 0, crc, size, size, len(name), 0, 0, 0, 0, 0, at
    )
    return local + content, central + name


def _end(count: int, size: int, offset: int, comment: bytes = b"") -> bytes:
    return struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, size, offset, len(comment)) + comment


def _in_extra(marker: str) -> bytes:
    """A whole member hides in the extra field before another."""
    hidden = plain(marker, 2)
    extra = struct.pack("<2H", 0x9999, len(hidden)) + hidden
    local, central = _entry(HONEST, extra=extra)
    return local + central + _end(1, len(central), len(local))


def _in_gap(marker: str) -> bytes:
    local, central = _entry(HONEST)
    gap = _entry(plain(marker, 2))[0]
    return local + gap + central + _end(1, len(central), len(local) + len(gap))


def _in_comment(marker: str) -> bytes:
    local, central = _entry(HONEST)
    return local + central + _end(1, len(central), len(local), plain(marker, 2))


def _behind(marker: str) -> bytes:
    return torch_zip(HONEST) + plain(marker, 2)


def _shared(marker: str) -> bytes:
    """Two entries whose headers lie within each other."""
    inner = _entry(plain(marker, 2), b"b.pkl")[0]
    local, first = _entry(inner, b"a.txt")
    second = _entry(plain(marker, 2), b"b.pkl", at=len(local) - len(inner))[1]
    return local + first + second + _end(2, len(first + second), len(local))


def _zip64(marker: str) -> bytes:
    """The end that zip64 has leads to one directory, the short end to another."""
    good, good_entry = _entry(HONEST)
    evil, evil_entry = _entry(plain(marker, 2), at=len(good))
    body = good + evil + evil_entry + good_entry
    offset = len(good + evil)
    wide = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(evil_entry), offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(body), 1)
    return body + wide + locator + _end(1, len(good_entry), offset + len(evil_entry))


def _descriptor(marker: str) -> bytes:
    """Sizes behind the data that are not those of the directory."""
    content = plain(marker, 2)
    local, central = _entry(content, flags=8)
    told = struct.pack("<4s3I", b"PK\7\x08", zlib.crc32(HONEST), len(HONEST), len(HONEST))
    return local + told + central + _end(1, len(central), len(local) + len(told))


def _unicode_name(marker: str) -> bytes:
    """A second name in an extra field of the directory."""
    name = b"archive/readme.txt"
    second = struct.pack("<BI", 1, zlib.crc32(name)) + b"archive/data.pkl"
    extra = struct.pack("<2H", 0x7075, len(second)) + second
    local, central = _entry(plain(marker, 2), name)
    entry = central[:30] + struct.pack("<H", len(extra)) + central[32:] + extra
    return local + entry + _end(1, len(entry), len(local))


def _names(*names: str):
    """A zip with these names, some of which readers on some systems take for the same or for elsewhere."""
    return lambda marker: _zip({name: plain(marker) if at else b"x" for at, name in enumerate(names)})


def _tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **headers: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.pax_headers = kind, link, headers
    return info


def _between(marker: str) -> bytes:
    """A pickle after the end of a tar, where other readers go on."""
    return _tarred((_info("a.txt"), b"x")) + _tarred((_info("data.pkl"), plain(marker, 2)))


def _streams(marker: str) -> bytes:
    return gzip.compress(b"words\n", mtime=0) + gzip.compress(plain(marker), mtime=0)


HOSTILE = (
    Case("61b", "member in an extra field", data(_in_extra, "model.pt")),
    Case("61c", "member in a gap", data(_in_gap, "model.pt")),
    Case("61d", "pickle in a zip's comment", data(_in_comment, "model.pt")),
    Case("61e", "pickle behind a zip", data(_behind, "model.pt")),
    Case("62b", "second name in Unicode", data(_unicode_name, "model.pt")),
    Case("63b", "other sizes behind the data", data(_descriptor, "model.pt")),
    Case("65b", "members within each other", data(_shared, "model.zip")),
    Case("65c", "names that differ in case", data(_names("a/Data.pkl", "a/data.pkl"), "model.zip")),
    Case("65d", "names that differ in composition", data(_names("e\u0301.pkl", "\xe9.pkl"), "model.zip")),
    Case("65e", "names that end in a dot", data(_names("data.txt", "data.txt."), "model.zip")),
    Case("65f", "file and folder of one name", data(_names("data", "data/x.pkl"), "model.zip")),
    Case("66b", "picture before a zip", data(lambda m: _PNG + torch_zip(plain(m, 2)), "model.pt")),
    Case("66c", "weights before a zip", data(lambda m: _WEIGHTS + torch_zip(plain(m, 2)), "model.safetensors")),
    Case("66d", "array before a zip", data(lambda m: _npy() + torch_zip(plain(m, 2)), "model.npy")),
    Case("66e", "JSON before a zip", data(lambda m: b'{"a": 1}' + torch_zip(plain(m, 2)), "config.json")),
    Case("66f", "tar before a zip", data(lambda m: _tarred((_info("a"), b"x")) + torch_zip(plain(m, 2)), "model.tar")),
    Case("66g", "gzip before a zip", data(lambda m: gzip.compress(b"words", mtime=0) + torch_zip(plain(m, 2)), "m.gz")),
    Case("68b", "two directories by zip64", data(_zip64, "model.pt")),
    Case("70b", "pickle behind a tar's end", data(_between, "model.tar")),
    Case("70c", "name in an extended header", data(lambda m: _tarred((_info("a.txt", path="../../data.pkl"), plain(m))), "m.tar")),
    Case("70d", "link in a tar that leaves it", data(_tarred((_info("a", tarfile.SYMTYPE, "/etc/passwd"), b"")), "m.tar")),
    Case("70e", "pipe in a tar", data(_tarred((_info("a", tarfile.FIFOTYPE), b"")), "m.tar")),
    Case("71b", "second stream of gzip", data(_streams, "notes.gz"), limit=True),
    Case("71c", "pickle behind a stream of gzip", data(lambda m: gzip.compress(b"words", mtime=0) + plain(m), "m.gz")),
    Case("71d", "bzip2 in xz in gzip", data(lambda m: gzip.compress(lzma.compress(bz2.compress(plain(m))), mtime=0), "m")),
    Case("71e", "name in gzip's header", data(lambda m: b"\x1f\x8b\x08\x08\0\0\0\0\0\x03" + b"a\0" + gzip.compress(plain(m), mtime=0)[10:], "m.gz")),
    Case("74e", "pickle called png", data(plain, "picture.png")),
    Case("74f", "pickle called gguf", data(lambda m: plain(m, 2), "model.gguf")),
    Case("74g", "pickle called json", data(lambda m: plain(m, 0), "config.json")),
    Case("76c", "pickle after a picture", data(lambda m: _PNG + plain(m), "picture.png")),
    Case("76d", "pickle after an array", data(lambda m: _npy() + plain(m), "array.npy")),
    Case("76e", "pickle after xz", data(lambda m: lzma.compress(b"words") + plain(m), "m.xz")),
    Case("76f", "pickle after a model of trees", data(lambda m: _trees() + plain(m), "model.bin")),
    Case("118h", "drive in a zip", data(_names("a", "C:\\x.pkl"), "m.zip")),
    Case("118i", "absolute name in a zip", data(_names("a", "/etc/x.pkl"), "m.zip")),
    Case("118j", "escape in a name", data(_names("a", "\x1b[2Jx.pkl"), "m.zip")),
    Case("118k", "reserved name in a zip", data(_names("a", "nul.pkl"), "m.zip")),
    Case("118l", "name that turns the reading direction", data(_names("a", "data\u202elkp.txt"), "m.zip")),
)  # fmt: skip


def _npy() -> bytes:
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, np.arange(4.0))
    return stream.getvalue()


def _trees() -> bytes:
    """A model of XGBoost before 3.1, linear."""
    names = b"".join(struct.pack("<Q", len(name)) + name for name in (b"reg:linear", b"gblinear"))
    learner = struct.pack("<fIiiiII108x", 0.5, 3, 0, 0, 0, 1, 7)
    return b"binf" + learner + names + struct.pack("<Ii128x", 3, 1) + struct.pack("<Q4f", 4, 1, 2, 3, 4)
