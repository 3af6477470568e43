"""One compressed stream: known by its first bytes, expanded within bounds, checked to its last byte.

gzip (RFC 1952), zlib (RFC 1950), bzip2, xz and the older lzma (https://tukaani.org/xz/xz-file-format.txt), LZ4 frames
(https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md), Zstandard (RFC 8878), and the ``ZF`` files of joblib
before 0.10: a length in hexadecimal and a zlib stream.

What a stream expands to goes into a temporary file that has no name and is mapped: memory stays small whatever the
size, and a bomb is stopped while it expands.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError, VitrifyError
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.once import once

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import NoReturn

MIN_EXPANDED = 64 * 1024 * 1024
MAX_RATIO = 200
MAX_EXPANDED = 16 * 1024**3
"""A stream expands to at most ``MAX_RATIO`` times its size or ``MIN_EXPANDED`` bytes, and never to more than this."""

MAX_STREAMS = 100_000
"""Streams one after the other in one file; block-wise gzip has one each 64 KiB."""

MAX_DICTIONARY = 128 * 1024 * 1024
"""Memory that an xz or lzma stream may ask for, in bytes; the strongest preset asks for 65 MiB."""

_CHUNK = 1024 * 1024
_PIECE = 64 * 1024
_ZFILE_DIGITS = 19
_ZLIB = 0x78
"""Deflate with a window of 32 KiB: what every writer of zlib streams takes."""


@dataclass(frozen=True)
class Codec:
    """One way of compressing.

    Attributes:
        name: What people call it.
        start: Makes an expander for one stream.
        feed: Gives it a piece of the stream, and yields the content in chunks.
        chained: Whether streams may follow one another in one file, as one content.
        padded: Whether zeros may follow the last stream.
        piece: Bytes given to the expander at once.
    """

    name: str
    start: Callable[[], Any]
    feed: Callable[[Any, memoryview], Iterator[bytes]]
    chained: bool = False
    padded: bool = False
    piece: int = _PIECE


def codec(view: memoryview) -> str | None:
    """Return the name of the codec whose stream begins here; None for anything else."""
    head = bytes(view[:14])
    found = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    if found == "lzma" and not _is_lzma(head):
        return None
    if found is None and len(head) > 1 and head[0] == _ZLIB and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib" if not head[1] & 0x20 else None  # a preset dictionary is nowhere to be had
    return found


def expand(view: memoryview, *, where: str, own: bool = False) -> memoryview:
    """Return the whole content, its checksums verified.

    Args:
        view: The stream, from its first byte to the end of the file.
        where: What it is, for error messages.
        own: Whether the content is the caller's to write to; else it is read-only.

    Raises:
        MalformedError: It is of no known codec, cut off, damaged, or followed by something else.
        LimitExceededError: It expands to more than its bounds allow.
        MissingDependencyError: Its codec needs a package that is not installed.
    """
    limit = min(max(MIN_EXPANDED, MAX_RATIO * view.nbytes), MAX_EXPANDED)
    import tempfile

    with tempfile.TemporaryFile(prefix="vitrify-") as stream:
        size = 0
        for chunk in _chunks(view, where):
            size += len(chunk)
            if size > limit:
                exceed(where, f"it expands to more than {limit} bytes from {view.nbytes}")
            stream.write(chunk)
        if not size:
            return memoryview(b"")
        stream.flush()
        return memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY if own else mmap.ACCESS_READ))


def expanded(view: memoryview, *, where: str) -> memoryview:
    """Return the whole content as :func:`expand` does; while the stream is at hand it is expanded once."""
    return _kept(view, where)


@once
def _kept(view: memoryview, where: str) -> memoryview:
    return expand(view, where=where)


def is_stream(view: memoryview) -> bool:
    """Say whether the first stream is what its first bytes say, as far as one piece of it shows."""
    name = codec(view)
    if name is None:
        return False
    try:
        next(_chunks(view, ""), b"")
    except MissingDependencyError:
        return True
    except VitrifyError:
        return False
    return True


def begin(view: memoryview, size: int) -> bytes:
    """Return the first bytes of the content, at most ``size``; fewer, or none, where the stream is damaged."""
    found = bytearray()
    try:
        for chunk in _chunks(view, ""):
            found += chunk[: size - len(found)]
            if len(found) >= size:
                break
    except VitrifyError:
        pass  # whoever reads it all will be told
    return bytes(found)


def _chunks(view: memoryview, where: str) -> Iterator[bytes]:
    """Yield the content in chunks that are never much larger than ``_CHUNK``."""
    name = codec(view)
    if name is None:
        refuse(where, "no compressed stream of a known kind")
    if name == "zfile":
        yield from _zfile(view, where)
        return
    kind = _CODECS[name]
    at = 0
    for _ in range(MAX_STREAMS):
        at = yield from _stream(kind, view, at, where)
        rest = view[at:]
        if not rest.nbytes or (kind.padded and _only_zeros(rest)):
            return
        if not kind.chained or codec(rest) != name:
            refuse(where, f"{rest.nbytes} bytes follow the end of the {kind.name} stream")
    exceed(where, f"more than {MAX_STREAMS} {kind.name} streams, one after the other")


def _stream(kind: Codec, view: memoryview, at: int, where: str) -> Generator[bytes, None, int]:
    """Yield one stream's content, and return where it ends."""
    expander = kind.start()
    failures = _failures(kind.name)
    while not expander.eof:
        piece = view[at : at + kind.piece]
        if not piece.nbytes:
            refuse(where, f"the {kind.name} stream is cut off")
        at += piece.nbytes
        try:
            yield from kind.feed(expander, piece)
        except failures as error:
            _blame(error, kind.name, where)
    return at - len(expander.unused_data or b"")  # lz4 says None for none


def _by_tail(expander: Any, piece: memoryview) -> Iterator[bytes]:
    """Yield what one piece expands to, as ``zlib`` gives it: what it did not look at is handed back."""
    rest: bytes | memoryview = piece
    while True:
        chunk = expander.decompress(rest, _CHUNK)
        yield chunk
        rest = expander.unconsumed_tail
        if expander.eof or not (rest or len(chunk) == _CHUNK):
            return


def _by_need(expander: Any, piece: memoryview) -> Iterator[bytes]:
    """Yield what one piece expands to, as ``bz2``, ``lzma`` and ``lz4`` give it: they say when they need more."""
    yield expander.decompress(piece, _CHUNK)
    while not (expander.needs_input or expander.eof):
        yield expander.decompress(b"", _CHUNK)


def _at_once(expander: Any, piece: memoryview) -> Iterator[bytes]:
    """Yield all that one piece expands to: there is no way to ask ``zstandard`` for a part."""
    yield expander.decompress(piece)


def _zfile(view: memoryview, where: str) -> Iterator[bytes]:
    digits = bytes(view[2 : 2 + _ZFILE_DIGITS])
    try:
        declared = int(digits, 16)
    except ValueError:
        refuse(where, f"a ZF file of {digits!r} bytes")
    start = 2 + _ZFILE_DIGITS
    if bytes(view[start : start + 1]) == b" ":  # joblib on Python 2 wrote one more
        start += 1
    size = 0
    end = start
    kind = _CODECS["zlib"]
    parts = _stream(kind, view, start, where)
    while True:
        try:
            chunk = next(parts)
        except StopIteration as stop:
            end = stop.value
            break
        size += len(chunk)
        yield chunk
    if size != declared or end != view.nbytes:
        refuse(where, f"a ZF file of {size} bytes that says {declared}, and {view.nbytes - end} bytes after it")


def _only_zeros(view: memoryview) -> bool:
    return all(not any(view[at : at + _PIECE]) for at in range(0, view.nbytes, _PIECE))


def _is_lzma(head: bytes) -> bool:
    """The old format has no magic: look at its properties, the size of its dictionary and of its content."""
    known = len(head) >= 13 and int.from_bytes(head[5:13], "little") < 2**48  # noqa: PLR2004 (256 TiB)
    unknown = head[5:13] == b"\xff" * 8
    dictionary = int.from_bytes(head[1:5], "little")
    return (known or unknown) and dictionary.bit_count() <= 2 and dictionary >= 4096  # noqa: PLR2004 (what liblzma writes)


def _zlib(window: int) -> Any:
    import zlib

    return zlib.decompressobj(window)


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY)


def _lzma() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MAX_DICTIONARY)


def _lz4() -> Any:
    return _package("lz4.frame", "lz4").LZ4FrameDecompressor()


def _zstandard() -> Any:
    package = _package("zstandard", "zstandard")
    return package.ZstdDecompressor(max_window_size=MAX_DICTIONARY).decompressobj()


def _package(module: str, package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"this file is compressed in a way that {package} reads, which is not installed"
        raise MissingDependencyError(msg, remedy=f"pip install {package}") from error


_CODECS = {
    one.name: one
    for one in (
        Codec("gzip", lambda: _zlib(31), _by_tail, chained=True, padded=True),
        Codec("zlib", lambda: _zlib(15), _by_tail),
        Codec("bzip2", _bzip2, _by_need, chained=True),
        Codec("xz", _xz, _by_need, chained=True, padded=True),
        Codec("lzma", _lzma, _by_need),
        Codec("lz4", _lz4, _by_need, chained=True),
        # A block of three bytes expands to 128 KiB: few of them are given at once.
        Codec("zstd", _zstandard, _at_once, chained=True, piece=128),
    )
}

_MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x5d\x00": "lzma",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"ZF0x": "zfile",
}


def _failures(name: str) -> tuple[type[Exception], ...]:
    """Return what a codec's library raises about damaged bytes."""
    match name:
        case "gzip" | "zlib":
            import zlib

            return (zlib.error,)
        case "xz" | "lzma":
            import lzma

            return (lzma.LZMAError,)
        case "zstd":
            return (_package("zstandard", "zstandard").ZstdError,)
        case _:
            return (OSError, ValueError, RuntimeError, EOFError)


def _blame(error: Exception, name: str, where: str) -> NoReturn:
    text = str(error)
    if "emory" in text:  # liblzma and zstd about a window or a dictionary that is larger than allowed
        exceed(where, f"the {name} stream needs more than {MAX_DICTIONARY} bytes of memory ({text})")
    refuse(where, f"the {name} stream is damaged ({text})")
