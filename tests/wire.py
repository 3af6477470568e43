"""Protocol Buffers by hand, to write what no library would: fields in any order, of any number, of any content."""

from __future__ import annotations


def varint(number):
    """Return a number as it stands on the wire."""
    number %= 2**64
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def message(*fields):
    """Return a message of fields, each a number and a value: an integer, text, or bytes."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            content = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(content)) + content)
    return b"".join(parts)
