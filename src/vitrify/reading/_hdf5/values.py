"""Values: from bytes and a datatype to text, numbers and lists of them."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from vitrify.reading._hdf5.image import BYTES_A_STEP

if TYPE_CHECKING:
    from vitrify.reading._hdf5.heaps import GlobalHeap
    from vitrify.reading._hdf5.image import Image
    from vitrify.reading._hdf5.types import Type

_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}


def read(image: Image, heap: GlobalHeap, kind: Type, shape: tuple[int, ...] | None, data: memoryview) -> Any:
    """Return one value, or lists of lists of values in a shape; None where there is none.

    Args:
        image: The file, which counts the work.
        heap: Where values of variable length are.
        kind: What an element is.
        shape: How many there are.
        data: Their bytes, exactly.

    Raises:
        MalformedError: A value points to nowhere.
        LimitExceededError: They refer to more than the file has reason to.
    """
    if shape is None:
        return None
    return _nest(_flat(image, heap, kind, math.prod(shape), data), shape)


def _flat(image: Image, heap: GlobalHeap, kind: Type, count: int, data: memoryview) -> list[Any]:
    image.step(1 + len(data) // BYTES_A_STEP)
    if code := _code(kind):
        found = list(struct.unpack(f"{kind.order}{count}{code}", data))
        return [bool(one) for one in found] if kind.name == "bool" else found
    size = kind.size
    return [_one(image, heap, kind, data[at : at + size]) for at in range(0, count * size, size)]


def _code(kind: Type) -> str | None:
    if kind.kind in {"integer", "enum"} and kind.size in _INTEGERS:
        code = _INTEGERS[kind.size]
        return code if kind.signed else code.upper()
    return _FLOATS.get(kind.name) if kind.kind == "float" else None


def _one(image: Image, heap: GlobalHeap, kind: Type, data: memoryview) -> Any:
    image.step()
    if kind.kind == "text":
        return bytes(data).rstrip(b"\0").decode("utf-8", "backslashreplace")
    if kind.kind in {"integer", "enum"}:
        return int.from_bytes(data, "little" if kind.order == "<" else "big", signed=kind.signed)
    if kind.kind == "array" and kind.base:
        return _nest(_flat(image, heap, kind.base, math.prod(kind.shape), data), kind.shape)
    if kind.kind == "record":
        return {
            name: _flat(image, heap, member, 1, data[offset : offset + member.size])[0]
            for name, offset, member in kind.members
            if member
        }
    if kind.kind == "list" and kind.base:
        return _list(image, heap, kind, kind.base, data)
    return bytes(data)


def _list(image: Image, heap: GlobalHeap, kind: Type, base: Type, data: memoryview) -> Any:
    cursor = image.cursor(data, "a value of variable length")
    count, address, number = cursor.uint(4), cursor.address(), cursor.uint(4)
    found = heap.object(address, number) if count else memoryview(b"")
    if count * base.size > len(found):
        image.refuse(f"a value of {count} elements in {len(found)} bytes")
    found = found[: count * base.size]
    image.step(1 + len(found) // BYTES_A_STEP)
    if kind.textual:
        return bytes(found).rstrip(b"\0").decode("utf-8", "backslashreplace")
    return _flat(image, heap, base, count, found)


def _nest(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return flat[0]
    if not flat:  # where one size is nothing, the others may be anything
        return []
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size)]
    return flat
