"""The checksum of HDF5's newer structures: Bob Jenkins' lookup3, "hashlittle" with an initial value of zero.

Source: https://burtleburtle.net/bob/c/lookup3.c (public domain), described there; section VIII of the HDF5 File Format
Specification names it.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_BLOCK = 12


def lookup3(data: memoryview) -> int:
    """Return the 32-bit checksum."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    if not data:
        return c
    full = (len(data) - 1) // _BLOCK * _BLOCK
    words = data[:full].cast("I") if _little() else _swapped(data[:full])
    for index in range(0, len(words), 3):
        a, b, c = _mix((a + words[index]) & _MASK, (b + words[index + 1]) & _MASK, (c + words[index + 2]) & _MASK)
    tail = bytes(data[full:]).ljust(_BLOCK, b"\0")
    a = (a + int.from_bytes(tail[:4], "little")) & _MASK
    b = (b + int.from_bytes(tail[4:8], "little")) & _MASK
    c = (c + int.from_bytes(tail[8:], "little")) & _MASK
    return _final(a, b, c)


def _little() -> bool:
    import sys

    return sys.byteorder == "little"


def _swapped(data: memoryview) -> memoryview:
    import array

    words = array.array("I", bytes(data))
    words.byteswap()
    return memoryview(words)


def _turn(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a, c = (a - c) & _MASK ^ _turn(c, 4), (c + b) & _MASK
    b, a = (b - a) & _MASK ^ _turn(a, 6), (a + c) & _MASK
    c, b = (c - b) & _MASK ^ _turn(b, 8), (b + a) & _MASK
    a, c = (a - c) & _MASK ^ _turn(c, 16), (c + b) & _MASK
    b, a = (b - a) & _MASK ^ _turn(a, 19), (a + c) & _MASK
    c, b = (c - b) & _MASK ^ _turn(b, 4), (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = ((c ^ b) - _turn(b, 14)) & _MASK
    a = ((a ^ c) - _turn(c, 11)) & _MASK
    b = ((b ^ a) - _turn(a, 25)) & _MASK
    c = ((c ^ b) - _turn(b, 16)) & _MASK
    a = ((a ^ c) - _turn(c, 4)) & _MASK
    b = ((b ^ a) - _turn(a, 14)) & _MASK
    return ((c ^ b) - _turn(b, 24)) & _MASK
