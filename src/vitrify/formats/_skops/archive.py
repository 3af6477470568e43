"""The zip file: written as a stream that is the same for the same members, read without believing it.

Source: PKWARE APPNOTE 6.3.9, sections 4.3.7 (local header), 4.3.9 (data descriptor), 4.3.12 (central directory).
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

Buffer = bytes | bytearray | memoryview

MAX_MEMBERS = 1_000_000
MIN_TOTAL = 64 * 1024 * 1024
MAX_RATIO = 100
"""All members together unpack to at most ``MAX_RATIO`` times the file's size, or ``MIN_TOTAL`` bytes."""

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_UNIX = 3
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, OSError, NotImplementedError)


class Packer:
    """Writes members one after the other, never going back, so that the stream can be hashed on the way.

    Used in a ``with`` block: its end writes the central directory, an exception in it writes nothing more.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Write to ``stream``, which stays open."""
        self._stream = _Forward(stream)
        self._zip = zipfile.ZipFile(self._stream, mode="w")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stream.write = len  # zipfile writes when it is collected, whatever has happened
        self._zip.close()

    def add(self, name: str, chunks: Iterable[Buffer]) -> None:
        """Write one member, stored; its date is always 1980-01-01."""
        info = zipfile.ZipInfo(name)
        info.create_system = _UNIX
        parts = [memoryview(chunk) for chunk in chunks]
        info.file_size = sum(part.nbytes for part in parts)
        with self._zip.open(info, "w") as member:
            for part in parts:
                member.write(part)


class Archive:
    """A zip file in memory whose sizes were checked before anything is unpacked.

    Raises:
        MalformedError: It is no zip file, names a member twice, has overlapping members, or would unpack to
            more than its bounds allow.
    """

    def __init__(self, data: memoryview, *, where: str) -> None:
        """Read the central directory."""
        self._data = data
        self._where = where
        self._limit = max(MIN_TOTAL, MAX_RATIO * data.nbytes)
        try:
            with zipfile.ZipFile(_View(data)) as archive:
                members = archive.infolist()
        except _DAMAGE as error:
            refuse(self._where, f"not a zip file ({error})")
        self._check(members)
        self._members = {info.filename: info for info in members}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> memoryview:
        """Return one member's bytes; stored ones are not copied.

        Raises:
            MalformedError: There is none, or it is not what the directory says.
        """
        if name not in self._members:
            refuse(self._where, f"no member {name!r}")
        info = self._members[name]
        self._limit -= info.file_size
        if self._limit < 0:
            refuse(self._where, "its members are used so often that they exceed the bound on its size")
        try:
            content = self._unpack(info)
        except _DAMAGE as error:
            refuse(self._where, f"member {name!r} is damaged ({error})")
        if content.nbytes != info.file_size or zlib.crc32(content) != info.CRC:
            refuse(self._where, f"member {name!r} is not what the zip directory says")
        return content

    def _unpack(self, info: zipfile.ZipInfo) -> memoryview:
        signature, name_size, extra_size = _LOCAL_HEADER.unpack_from(self._data, info.header_offset)
        if signature != b"PK\x03\x04":
            msg = "no local header"
            raise ValueError(msg)
        start = info.header_offset + _LOCAL_HEADER.size + name_size + extra_size
        packed = self._data[start : start + info.compress_size]
        if info.compress_type == zipfile.ZIP_STORED:
            return packed
        # One byte more than was declared shows a member that would go on.
        return memoryview(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size + 1))

    def _check(self, members: list[zipfile.ZipInfo]) -> None:
        if len(members) > MAX_MEMBERS:
            refuse(self._where, f"{len(members)} members, more than {MAX_MEMBERS}")
        if len({info.filename for info in members}) != len(members):
            refuse(self._where, "two members have the same name")
        if (total := sum(info.file_size for info in members)) > self._limit:
            refuse(self._where, f"its members unpack to {total} bytes, more than {self._limit}")
        end = 0
        for info in sorted(members, key=lambda info: info.header_offset):
            if info.header_offset < end:
                refuse(self._where, f"member {info.filename!r} overlaps another")
            end = info.header_offset + _LOCAL_HEADER.size + info.compress_size
            if info.flag_bits & 1 or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                refuse(self._where, f"member {info.filename!r} is encrypted or packed in a way that is not read")
        if end > self._data.nbytes:
            refuse(self._where, "a member goes beyond the end of the file")


class _Forward:
    """A stream that cannot seek: zipfile then writes the same bytes whatever stands behind it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.write: Callable[[Buffer], int] = stream.write
        self.flush = stream.flush
        self.close = stream.close


class _View:
    """As much of a file as zipfile needs, over bytes that are not copied."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        at = offset + (0, self._at, self._data.nbytes)[whence]
        if at < 0:
            msg = "seek before the start"
            raise OSError(msg)
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        end = self._data.nbytes if size < 0 else self._at + size
        chunk = bytes(self._data[self._at : end])
        self._at += len(chunk)
        return chunk
