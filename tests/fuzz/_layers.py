"""Changes behind what guards a file's inside: lengths, checksums and compression are made right again.

A byte that is changed in an archive mostly fails its checksum, and what lies behind that is never reached. Here a
layer is opened, something inside is changed, and the layer is closed around it as an honest tool would have done.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickletools
import struct
import warnings
import zipfile
import zlib

STRANGE = (None, True, -1, 0, 2**31, 2**64, 10**400, 1.5, 1e308, "", "x", "../../x", "\ud800", [], {}, [[]], {"": None})
"""Values where another was expected."""
LARGE = 1 << 18
"""Bytes of JSON or of opcodes that are taken apart; more would take longer than looking at them."""


def through(data, chance, change):
    """Return the bytes with something changed inside their outermost layers, or themselves where they have none."""
    for fits, rewrite in LAYERS:
        if fits(data):
            try:
                return rewrite(data, chance, lambda inner: deeper(inner, chance, change))
            except (ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, ValueError, struct.error):
                break  # it was no such thing, or is none any more
            except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, RecursionError):
                break
    return change(data)


def deeper(data, chance, change):
    """Go one layer further down, mostly."""
    return through(data, chance, change) if chance.random() < 0.7 else change(data)


def _zip(data, chance, inside):
    """Change one member, its name, or take one twice; sizes, checksums and places are right again."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    at = chance.randrange(len(members))
    info, content = members[at]
    match chance.randrange(8):
        case 0:
            members.insert(chance.randrange(len(members)), members[at])
        case 1:
            del members[at]
        case 2:
            info.filename = chance.choice((members[0][0].filename, "../x", "/x", "a/../x", "", info.filename + "/"))
        case _:
            members[at] = info, inside(content)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for one, held in members:
            copy = zipfile.ZipInfo(one.filename, one.date_time)
            copy.compress_type, copy.extra = one.compress_type, one.extra
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a name is there twice
                archive.writestr(copy, held)
    return stream.getvalue()


def _tar(data, chance, inside):
    """Change one header or one member's bytes, and make the header's sum right again."""
    data, headers, at = bytearray(data), [], 0
    while at + 512 <= len(data) and data[at + 257 : at + 262] == b"ustar":
        size = int(bytes(data[at + 124 : at + 135]).strip(b" \0") or b"0", 8)
        headers.append((at, size))
        at += 512 + -(-size // 512) * 512
    at, size = chance.choice(headers)
    if size and chance.random() < 0.6:
        content = inside(bytes(data[at + 512 : at + 512 + size]))
        data[at + 124 : at + 136] = b"%011o\0" % len(content)
        data[at + 512 : at + 512 + -(-size // 512) * 512] = content + bytes(-len(content) % 512)
    else:
        field = chance.choice(((0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)))
        start = at + field[0] + chance.randrange(field[1])
        text = chance.choice(
            (b"\0", b"/", b"../", b"7" * 11, b"\x80", b"\xff" * 12, b" ", b"x", b"g", b"L", b"S", b"1", b"2")
        )
        text = text[: at + sum(field) - start]
        data[start : start + len(text)] = text
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


def _compressed(unpack, pack):
    return lambda data, chance, inside: pack(inside(unpack(data)))


def _lz4(data, chance, inside):
    import lz4.frame

    return lz4.frame.compress(inside(lz4.frame.decompress(data)))


def _headed(data, chance, inside):
    """Change a header of JSON behind its length: that of safetensors."""
    size = int.from_bytes(data[:8], "little")
    header = inside(data[8 : 8 + size])
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def _npy(data, chance, inside):
    """Change the text of a header of NumPy's, or what comes behind it."""
    size = int.from_bytes(data[8:10], "little")
    header, rest = data[10 : 10 + size], data[10 + size :]
    if chance.random() < 0.5:
        return data[: 10 + size] + inside(rest)
    header = inside(header)
    return data[:8] + (len(header) % (1 << 16)).to_bytes(2, "little") + header + rest


def _json(data, chance, inside):
    """Change one value of JSON, anywhere in it."""
    if len(data) > LARGE:
        return inside(data)
    return json.dumps(_value(json.loads(data), chance)).encode()


def _value(value, chance):
    """Return the value with one inside it replaced, doubled, nested, or taken away."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    if keys and chance.random() < 0.9:
        key = chance.choice(keys)
        match chance.randrange(8):
            case 0:
                del value[key]
            case 1:
                value[key] = value[chance.choice(keys)]
            case 2 if isinstance(value, dict):
                value[str(chance.choice(STRANGE)) if chance.random() < 0.3 else f"{key} "] = value[key]
            case _:
                value[key] = _value(value[key], chance)
        return value
    if isinstance(value, int) and chance.random() < 0.5:
        return chance.choice((value + 1, value - 1, -value, value * 2, value << 40))
    if isinstance(value, str) and chance.random() < 0.5:
        return chance.choice((value * 2, value[:-1], value + ".", value.upper(), value * 1000))
    return chance.choice((*STRANGE, [value], {"a": value}, [value] * 3, _nested(value, chance.choice((2, 60, 400)))))


def _nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def _opcodes(data, chance, inside):
    """Leave out, double or move one opcode of a pickle, put in one of its others, or change an operand's text."""
    if len(data) > LARGE:
        return inside(data)
    starts = [place for _, _, place in pickletools.genops(data)]
    ends = [*starts[1:], starts[-1] + 1]
    codes = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(codes))
        match chance.randrange(5):
            case 0:
                del codes[at : at + chance.choice((1, 1, 2, 5))]
            case 1:
                codes.insert(at, chance.choice(codes))
            case 2:
                codes[at] = chance.choice(codes)
            case 3 if codes[at][:1] in (b"\x8c", b"C", b"U"):
                text = inside(codes[at][2:])[:255]
                codes[at] = codes[at][:1] + bytes([len(text)]) + text
            case _:
                codes[at] = codes[at][:1] + chance.randbytes(len(codes[at]) - 1)
    return b"".join(codes) + data[ends[-1] :]


def _starts(*marks):
    return lambda data: data.startswith(marks)


LAYERS = (
    (_starts(b"PK\x03\x04"), _zip),
    (lambda data: data[257:262] == b"ustar", _tar),
    (_starts(b"\x1f\x8b"), _compressed(gzip.decompress, gzip.compress)),
    (_starts(b"BZh"), _compressed(bz2.decompress, bz2.compress)),
    (_starts(b"\xfd7zXZ"), _compressed(lzma.decompress, lzma.compress)),
    (_starts(b"\x5d\0\0"), _compressed(lzma.decompress, lambda data: lzma.compress(data, lzma.FORMAT_ALONE))),
    (_starts(b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), _compressed(zlib.decompress, zlib.compress)),
    (_starts(b"\x04\x22\x4d\x18"), _lz4),
    (_starts(b"\x93NUMPY\x01"), _npy),
    (_starts(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), _opcodes),
    (lambda data: data[8:9] == b"{" and int.from_bytes(data[:8], "little") < len(data), _headed),
    (lambda data: data.lstrip()[:1] in (b"{", b"["), _json),
)
"""What begins a layer, and how something inside it is changed."""
