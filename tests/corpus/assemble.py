"""Pickles by hand, opcode by opcode (CPython, ``Lib/pickletools.py``)."""

from __future__ import annotations

import struct

STOP, MARK, TUPLE, REDUCE, BUILD, POP, DUP, NONE = b".", b"(", b"t", b"R", b"b", b"0", b"2", b"N"
EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE, TUPLE1, TUPLE2 = b"}", b"]", b")", b"\x85", b"\x86"
OBJ, NEWOBJ, STACK_GLOBAL, MEMOIZE, SETITEM, APPEND = b"o", b"\x81", b"\x93", b"\x94", b"s", b"a"
NEWTRUE = b"\x88"


def proto(number: int = 4) -> bytes:
    """PROTO."""
    return b"\x80" + bytes([number])


def text(value: str) -> bytes:
    """BINUNICODE."""
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    """BINBYTES."""
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    """BININT."""
    return b"J" + struct.pack("<i", value)


def name(module: str, attribute: str) -> bytes:
    """GLOBAL."""
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def late_name(module: str, attribute: str) -> bytes:
    """STACK_GLOBAL."""
    return text(module) + text(attribute) + STACK_GLOBAL


def call(function: bytes, *arguments: bytes) -> bytes:
    """Call what ``function`` pushes with what the arguments push."""
    return function + MARK + b"".join(arguments) + TUPLE + REDUCE


def program(*parts: bytes, protocol: int = 4) -> bytes:
    """A whole pickle."""
    return proto(protocol) + b"".join(parts) + STOP


def touch(marker: str) -> str:
    """A shell command."""
    return f"touch '{marker}'"


def source(marker: str) -> str:
    """Python source."""
    return f"open({marker!r}, 'w').close()"
