"""ZIP files, written as a stream that is the same for the same members.

Source: PKWARE APPNOTE 6.3.9, sections 4.3.7 (local header), 4.3.9 (data descriptor), 4.3.12 (central directory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

Buffer = bytes | bytearray | memoryview

_UNIX = 3


class Packer:
    """Writes members one after the other, never going back, so that the stream can be hashed on the way.

    Used in a ``with`` block: its end writes the central directory, an exception in it writes nothing more.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Write to ``stream``, which stays open."""
        import zipfile  # a fifth of what importing a format may take, and only writing needs it

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
        from zipfile import ZipInfo

        info = ZipInfo(name)
        info.create_system = _UNIX
        parts = [memoryview(chunk) for chunk in chunks]
        info.file_size = sum(part.nbytes for part in parts)
        with self._zip.open(info, "w") as member:
            for part in parts:
                member.write(part)


class _Forward:
    """A stream that cannot seek: zipfile then writes the same bytes whatever stands behind it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.write: Callable[[Buffer], int] = stream.write
        self.flush = stream.flush
        self.close = stream.close
