"""Changes to Protocol Buffers that keep them well formed: a field deep inside changes, all lengths around it follow."""

from __future__ import annotations

from fuzz._change import EDGES

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def changed(data, chance, change):
    """Return a message with one of its fields changed, at any depth; raise ValueError where it is none."""
    fields = list(_fields(data))
    if not fields:
        return change(data)
    at = chance.randrange(len(fields))
    number, kind, value = fields[at]
    match chance.randrange(10):
        case 0:
            fields.insert(at, fields[chance.randrange(len(fields))])
        case 1:
            del fields[at]
        case 2:
            fields[at] = chance.choice((1, 2, 3, 4, 5, 7, 8, 20, number + 1)), kind, value
        case 3:
            fields[at:at] = [fields[at]] * chance.choice((2, 50, 2000))
        case 4 if kind == BYTES:
            for _ in range(chance.choice((1, 3, 90, 120))):
                value = _written([(number, BYTES, value)])
            fields[at] = number, kind, value
        case _:
            fields[at] = number, kind, _value(kind, value, chance, change)
    return _written(fields)


def _value(kind, value, chance, change):
    if kind == VARINT:
        return chance.choice((*EDGES, value + 1, value ^ 1)) % (1 << 64)
    if kind != BYTES:
        return chance.choice((bytes(len(value)), b"\xff" * len(value), chance.randbytes(len(value))))
    if chance.random() < 0.9:
        try:
            return changed(value, chance, change)
        except ValueError:  # text, or numbers
            pass
    return change(value)


def _fields(data):
    """Yield each field as its number, its wire type and its value."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _number(data, at)
        else:
            size, at = {FIXED64: (8, at), FIXED32: (4, at)}.get(kind) or _number(data, at)
            value, at = data[at : at + size], at + size
        if kind not in (VARINT, FIXED64, BYTES, FIXED32) or not number or at > len(data):
            raise ValueError
        yield number, kind, value


def _number(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _written(fields):
    out = bytearray()
    for number, kind, value in fields:
        out += _varint(number << 3 | kind)
        if kind == VARINT:
            out += _varint(value)
        else:
            out += (_varint(len(value)) if kind == BYTES else b"") + value
    return bytes(out)


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
