"""Datatypes: what one element of a dataset or attribute is.

Source: HDF5 File Format Specification 3.0, section IV.A.2.d.
"""

# ruff: noqa: ARG001 (the readers of all classes have one signature)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vitrify.reading._hdf5 import header

if TYPE_CHECKING:
    from vitrify.reading._hdf5.image import Cursor, Image

Kind = Literal["integer", "float", "text", "bits", "opaque", "record", "reference", "enum", "list", "array", "other"]

MAX_DEPTH = 16
MAX_MEMBERS = 4096
MAX_RANK = 32
_FLOATS = {(2, 5, 10): "float16", (4, 8, 23): "float32", (8, 11, 52): "float64", (2, 8, 7): "bfloat16"}
_SMALL_FLOATS = {(1, 4, 3): "float8_e4m3", (1, 5, 2): "float8_e5m2"}
_PADDED = 2  # versions up to this fill names up to eight bytes
_INSIDE = 1  # references above this kind may name another file


@dataclass(frozen=True)
class Type:
    """A datatype.

    Attributes:
        kind: What class it is of.
        name: How it is called in this field: ``float32``, ``text``.
        size: Bytes of one element; of a list, those of the pointer to it.
        order: ``<`` or ``>``, for numbers.
        signed: Whether an integer is.
        base: What an enum, list or array is made of.
        shape: Sizes of an array.
        members: Of a record: name, offset and type of each; of an enum: name and value.
        outside: Whether it is a reference that may name another file.
    """

    kind: Kind
    name: str
    size: int
    order: str = "<"
    signed: bool = False
    base: Type | None = None
    shape: tuple[int, ...] = ()
    members: tuple[tuple[str, int, Type | None], ...] = ()
    outside: bool = False

    @property
    def textual(self) -> bool:
        """Whether it is text, of a fixed or of its own length."""
        return self.kind == "text" or (self.kind == "list" and self.name == "text")

    def parts(self) -> list[Type]:
        """Return it and all that it is made of."""
        found = [self]
        for one in found:
            found += [one.base] if one.base else []
            found += [member for _, _, member in one.members if member]
        return found


def read(image: Image, message: header.Message) -> Type:
    """Return the datatype of a datatype message.

    Raises:
        MalformedError: It is damaged.
        LimitExceededError: It is nested deeper or has more members than any honest one.
    """
    return _read(image.cursor(header.resolve(image, message), "a datatype"), 0)


def _read(cursor: Cursor, depth: int) -> Type:
    cursor.image.step()
    if depth > MAX_DEPTH:
        cursor.image.exceed(f"a datatype nested more than {MAX_DEPTH} levels deep")
    first, bits, size = cursor.uint(1), cursor.uint(3), cursor.uint(4)
    version, kind = first >> 4, first & 0x0F
    if not 1 <= version <= 5 or kind >= len(_READERS):  # noqa: PLR2004 (the latest version)
        cursor.image.refuse(f"a datatype of class {kind}, version {version}")
    if not size:
        cursor.image.refuse("a datatype whose elements are of no size")
    return _READERS[kind](cursor, version, bits, size, depth)


def _integer(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    cursor.skip(4)
    signed = bool(bits & 8)
    return Type("integer", f"{'int' if signed else 'uint'}{8 * size}", size, _order(bits), signed)


def _float(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    cursor.skip(5)
    exponent = cursor.uint(1)
    cursor.skip(1)
    mantissa = cursor.uint(1)
    cursor.skip(4)
    key = (size, exponent, mantissa)
    name = _FLOATS.get(key) or _SMALL_FLOATS.get(key) or f"float{8 * size}_e{exponent}m{mantissa}"
    return Type("float", name, size, _order(bits), signed=True)


def _bits(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    cursor.skip(4)
    return Type("bits", f"bits{8 * size}", size, _order(bits))


def _time(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    cursor.skip(2)
    return Type("other", "time", size, _order(bits))


def _text(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    return Type("text", "text", size)


def _opaque(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    tag = cursor.text(bits & 0xFF)
    return Type("opaque", f"opaque:{tag}" if tag else "opaque", size)


def _reference(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    return Type("reference", "reference", size, outside=bits & 0x0F > _INSIDE)


def _record(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    count = bits & 0xFFFF
    if count > MAX_MEMBERS:
        cursor.image.exceed(f"a datatype with {count} members")
    members = []
    for _ in range(count):
        name = cursor.name(pad=8 if version <= _PADDED else 1)
        offset = cursor.uint(4 if version <= _PADDED else (size.bit_length() + 7) // 8)
        shape = _old_shape(cursor) if version == 1 else ()
        member = _read(cursor, depth + 1)
        if shape:
            member = Type("array", member.name, member.size * math.prod(shape), base=member, shape=shape)
        if offset + member.size > size:
            cursor.image.refuse(f"the member {name!r} of a datatype lies outside of it")
        members.append((name, offset, member))
    names = ",".join(f"{name}:{member.name}" for name, _, member in members)
    return Type("record", f"record[{names}]", size, members=tuple(members))


def _old_shape(cursor: Cursor) -> tuple[int, ...]:
    rank = cursor.uint(1)
    cursor.skip(3 + 4 + 4)
    sizes = [cursor.uint(4) for _ in range(4)]
    return _shape(cursor, sizes[:rank], rank)


def _enum(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    count = bits & 0xFFFF
    if count > MAX_MEMBERS:
        cursor.image.exceed(f"a datatype with {count} names")
    base = _read(cursor, depth + 1)
    if base.kind != "integer" or base.size != size:
        cursor.image.refuse("an enumeration of something that is no integer of its size")
    names = [cursor.name(pad=8 if version <= _PADDED else 1) for _ in range(count)]
    values = [cursor.uint(base.size) for _ in range(count)]
    truth = sorted(zip(values, names, strict=True)) == [(0, "FALSE"), (1, "TRUE")]
    members = tuple((name, value, None) for name, value in zip(names, values, strict=True))
    return Type("enum", "bool" if truth else base.name, size, base.order, base.signed, base, members=members)


def _list(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    base = _read(cursor, depth + 1)
    if size < 4 + cursor.image.address_size + 4:
        cursor.image.refuse("a datatype of variable length that has no room for its pointer")
    return Type("list", "text" if bits & 0x0F == 1 else f"list[{base.name}]", size, base=base)


def _array(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    rank = cursor.uint(1)
    cursor.skip(3 if version <= _PADDED else 0)
    if rank > MAX_RANK:
        cursor.image.refuse(f"an array datatype of {rank} dimensions")
    shape = _shape(cursor, [cursor.uint(4) for _ in range(rank)], rank)
    cursor.skip(4 * rank if version <= _PADDED else 0)
    base = _read(cursor, depth + 1)
    if base.size * math.prod(shape) != size:
        cursor.image.refuse("an array datatype whose size is not that of its elements")
    return Type("array", f"{base.name}{list(shape)}", size, base=base, shape=shape)


def _complex(cursor: Cursor, version: int, bits: int, size: int, depth: int) -> Type:
    base = _read(cursor, depth + 1)
    return Type("other", f"complex of {base.name}", size, base=base)


def _shape(cursor: Cursor, sizes: list[int], rank: int) -> tuple[int, ...]:
    if rank != len(sizes) or 0 in sizes:
        cursor.image.refuse(f"an array datatype of {rank} dimensions, of sizes {sizes}")
    return tuple(sizes)


def _order(bits: int) -> str:
    return ">" if bits & 1 else "<"


_READERS = (_integer, _float, _time, _text, _bits, _opaque, _record, _reference, _enum, _list, _array, _complex)
