"""What is done to honest bytes: some are changed, left out, doubled, cut off, replaced by a number or by a word."""

from __future__ import annotations

EDGES = (
    0,
    1,
    4,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**60,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
"""Numbers at which something overflows, or a sign changes."""


def changed(data, chance, words=()):
    """Return bytes with one to twenty changes."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 20))):
        _once(data, chance, words)
    return bytes(data)


def _once(data, chance, words):
    size = chance.choice((1, 2, 4, 8, 40, 100))
    at = _place(len(data), chance)
    match chance.randrange(10):
        case 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        case 1:
            data[at : at + 1] = bytes([data[at] ^ 1 << chance.randrange(8)]) if data else b""
        case 2:
            data[at : at + size] = chance.randbytes(size)
        case 3:
            del data[at : at + size]
        case 4:
            data[at:at] = data[at : at + size] * chance.choice((1, 1, 2, 50, 5000))
        case 5 | 6:
            _number(data, at, chance)
        case 7:
            start = chance.randrange(len(data) or 1)
            data[at : at + size * chance.randrange(2)] = data[start : start + size]
        case 8 if words:
            word = chance.choice(words)
            data[at : at + len(word) * chance.randrange(2)] = word * chance.choice((1, 1, 1, 1, 300, 10_000))
        case _:
            del data[at if chance.random() < 0.2 else len(data) :]


def _place(size, chance):
    """Return a place: anywhere, or near the start or the end, where files keep their directories."""
    near = min(size, chance.choice((64, 512, 4096, size)))
    at = chance.randrange(near or 1)
    return at if chance.random() < 0.7 else max(0, size - 1 - at)


def _number(data, at, chance):
    """Write a number over what may be one: an edge, a place in the file, or a little more or less than there was."""
    width, order = chance.choice((1, 2, 4, 4, 8, 8)), chance.choice(("little", "little", "big"))
    at -= at % chance.choice((1, width))
    here = int.from_bytes(data[at : at + width], order)
    number = chance.choice((chance.choice(EDGES), len(data), len(data) - at, chance.randrange(len(data) or 1)))
    if chance.random() < 0.5:
        number = chance.choice((here + 1, here - 1, here * 2, here + 8, here << 8, -here))
    data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, order)


def spliced(data, other, chance):
    """Return the start of one file and the end of another, or one with a piece of the other in its middle."""
    at, start = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    size = chance.choice((8, 64, 1024, len(other)))
    rest = data[at + size * chance.randrange(2) :] if chance.random() < 0.5 else b""
    return data[:at] + other[start : start + size] + rest
