"""The records of a TAR file: a block that says what follows, and how its name may be told in three ways.

Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar, "Basic Tar Format".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
MAX_MEMBERS = 1_000_000
MAX_TOLD = 1024 * 1024
"""Bytes of a long name, or of all that pax says about one member."""

FILES = frozenset(b"\x0007")
HARD, SYMBOLIC, FOLDER = b"125"
_EMPTY = frozenset(b"123456")
"""Links, devices, folders and pipes."""
_LONG_NAME, _LONG_LINK = b"LK"
_PAX = frozenset(b"xX")
_GLOBAL = b"g"[0]
_MAX_OCTAL = 8**11
_MAX_DIGITS = 20
_ZEROS = bytes(BLOCK)
_WIDE = b"\x80\xff"
"""How GNU's numbers begin that have no room as octal ones, and those below zero."""
_RENAMING = ("path", "linkpath", "size")
_NUMBERS = {"mode": (100, 108), "owner": (108, 116), "group": (116, 124), "time": (136, 148), "device": (329, 345)}
"""Where the numbers are that nothing here needs, but other readers stop at where they are none."""


class Header(NamedTuple):
    """One member as it is told: ``offset`` is where its content begins, ``oddities`` what honest writers do not do."""

    name: str
    kind: int
    size: int
    offset: int
    link: str
    sparse: bool
    oddities: tuple[str, ...]


class _Told:
    """What the blocks before a member say about it."""

    def __init__(self) -> None:
        self.pax: dict[str, str] = {}
        self.name: str | None = None
        self.link: str | None = None
        self.oddities: list[str] = []


def is_header(view: memoryview) -> bool:
    """Say whether a TAR file begins here: its first block's checksum is right."""
    block = bytes(view[:BLOCK])
    return len(block) == BLOCK and block != _ZEROS and _checksum_fits(block)


def headers(view: memoryview, where: str) -> Iterator[Header]:
    """Yield the members in their order.

    Raises:
        MalformedError: It is cut off, or a block is no header.
        LimitExceededError: There are too many members, or too much is said about one.
    """
    at, count, told = 0, 0, _Told()
    while (block := bytes(view[at : at + BLOCK])) and block != _ZEROS:
        if len(block) < BLOCK or not _checksum_fits(block):
            refuse(where, f"no TAR header at {at}")
        count += 1
        if count > MAX_MEMBERS:
            exceed(where, f"more than {MAX_MEMBERS} members")
        kind, size = block[156], _number(block[124:136], where)
        told.oddities += [f"a {name} that is no number" for name in _NUMBERS if not _is_number(block, name)]
        header = None if _tells(kind) else _member(block, told, size, at + BLOCK)
        size = size if header is None else header.size
        stop = at + BLOCK + -(-size // BLOCK) * BLOCK
        if stop > view.nbytes:
            refuse(where, "cut off in the middle of a member")
        if header is None:
            _tell(told, kind, _content(view, at, size, where), where)
        else:
            told = _Told()
            yield header
        at = stop
    if told.pax or told.name is not None or told.link is not None:
        refuse(where, "a name without a member at its end")


def end(last: Header) -> int:
    """Return where the zeros begin that end a TAR file."""
    return last.offset + -(-last.size // BLOCK) * BLOCK


def _tells(kind: int) -> bool:
    return kind in _PAX or kind in {_LONG_NAME, _LONG_LINK, _GLOBAL}


def _tell(told: _Told, kind: int, content: bytes, where: str) -> None:
    """Take what a block says about the next member."""
    if kind in {_LONG_NAME, _LONG_LINK}:
        which = "name" if kind == _LONG_NAME else "link"
        if getattr(told, which) is not None:
            told.oddities.append(f"two long {which}s")
        setattr(told, which, content.split(b"\x00", 1)[0].decode("utf-8", "backslashreplace"))
        return
    found = _pax(content, where)
    if kind == _GLOBAL:
        if any(key in found for key in _RENAMING):
            told.oddities.append("a name or size for all members at once")
        return
    if told.pax:
        told.oddities.append("two pax headers")
    told.pax.update(found)


def _member(block: bytes, told: _Told, size: int, offset: int) -> Header:
    oddities = told.oddities
    kind = block[156]
    name, link = _text(block[:100]), _text(block[157:257])
    if block[257:263] == b"ustar\x00" and block[345]:
        name = f"{_text(block[345:500])}/{name}"
    for key, long in (("path", told.name), ("linkpath", told.link)):
        if long is not None and told.pax.get(key, long) != long:
            oddities.append("a GNU name and another pax name")
    name = told.pax.get("path", name if told.name is None else told.name)
    link = told.pax.get("linkpath", link if told.link is None else told.link)
    sparse = block[156] == b"S"[0] or any(key.startswith("GNU.sparse.") for key in told.pax)
    if (wide := _declared(told)) not in {None, size}:
        # Only a size that the header has no room for may be told by pax alone.
        if wide is None or wide < _MAX_OCTAL:
            oddities.append("a pax size other than its header's")
        else:
            size = wide
    if kind in FILES and name.endswith("/"):
        kind = FOLDER
    if size and kind in _EMPTY:
        oddities.append("content, which its kind has not")
    return Header(name, kind, size, offset, link, sparse, tuple(dict.fromkeys(oddities)))


def _declared(told: _Told) -> int | None:
    """Return the size that pax tells; -1 for what is no size."""
    digits = told.pax.get("size")
    if digits is None:
        return None
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < _MAX_DIGITS else -1


def _content(view: memoryview, at: int, size: int, where: str) -> bytes:
    if size > MAX_TOLD:
        exceed(where, f"{size} bytes about one member")
    return bytes(view[at + BLOCK : at + BLOCK + size])


def _pax(content: bytes, where: str) -> dict[str, str]:
    """Return the keyed values of a pax header; each is ``length key=value`` and a line end."""
    found: dict[str, str] = {}
    at = 0
    while at < len(content):
        space = content.find(b" ", at, at + 20)
        digits = content[at:space] if space > 0 else b""
        stop = at + int(digits) if digits.isdigit() else 0
        if not 0 < space < stop <= len(content) or content[stop - 1] != ord("\n"):
            if not content[at:].strip(b"\x00"):
                break
            refuse(where, "a pax header that is damaged")
        key, equals, value = content[space + 1 : stop - 1].partition(b"=")
        if not equals:
            refuse(where, "a pax header without a value")
        found[key.decode("utf-8", "backslashreplace")] = value.decode("utf-8", "backslashreplace")
        at = stop
    return found


def _text(field: bytes) -> str:
    return field.split(b"\x00", 1)[0].decode("utf-8", "backslashreplace")


def _number(field: bytes, where: str) -> int:
    """Return an octal number, or the base-256 one that GNU writes where that has no room."""
    if field[0] == _WIDE[0]:
        number = int.from_bytes(field[1:], "big")
        if number >= 2**63:
            refuse(where, "a size that no file has")
        return number
    digits = field.strip(b" \x00")
    if not digits:
        return 0
    if any(digit not in b"01234567" for digit in digits):
        refuse(where, f"a size that is no number: {digits!r}")
    return int(digits, 8)


def _is_number(block: bytes, name: str) -> bool:
    """Say whether a field, each eight bytes of it or all, holds a number as any reader takes it."""
    start, stop = _NUMBERS[name]
    fields = [block[at : at + 8] for at in range(start, stop, 8)] if name == "device" else [block[start:stop]]
    return all(field[0] in _WIDE or not field.split(b"\x00", 1)[0].strip().strip(b"01234567") for field in fields)


def _checksum_fits(block: bytes) -> bool:
    digits = block[148:156].strip(b" \x00")
    if not digits or any(digit not in b"01234567" for digit in digits):
        return False
    wanted = int(digits, 8)
    total = sum(block) - sum(block[148:156]) + 8 * 0x20
    high = 256 * sum(byte > 127 for byte in block[:148] + block[156:])  # noqa: PLR2004 (old writers took signed bytes)
    return wanted in {total, total - high}
