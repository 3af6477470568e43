"""Attributes: small named values of an object.

Source: HDF5 File Format Specification 3.0, sections IV.A.2.m and .v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.reading._hdf5 import header, storage, types, values
from vitrify.reading._hdf5.heaps import FractalHeap
from vitrify.reading._hdf5.image import text
from vitrify.reading._hdf5.trees import new_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading._hdf5.header import Message
    from vitrify.reading._hdf5.heaps import GlobalHeap
    from vitrify.reading._hdf5.image import Image

_BY_NAME = 8
_FIRST, _THIRD = 1, 3
_TYPE_SHARED, _SPACE_SHARED = 1, 2
_HEAP_ID = 8


@dataclass(frozen=True)
class Attribute:
    """One value.

    Attributes:
        name: Its name.
        type: What an element is.
        shape: Its sizes, none for one value; None where there is no value.
    """

    name: str
    type: types.Type
    shape: tuple[int, ...] | None
    _data: memoryview = field(repr=False)
    _image: Image = field(repr=False)
    _heap: GlobalHeap = field(repr=False)

    @property
    def stored(self) -> int:
        """Bytes that it takes in the file, without those that it points to."""
        return len(self._data)

    def value(self) -> Any:
        """Return it: text, a number, bytes, or lists of them; None where there is none.

        Raises:
            MalformedError: It is cut off, or points to nowhere.
            LimitExceededError: It is larger than the file has reason to hold.
        """
        return values.read(self._image, self._heap, self.type, self.shape, self._data)


def read(image: Image, heap: GlobalHeap, messages: list[Message]) -> dict[str, Attribute]:
    """Return the attributes by name, sorted.

    Raises:
        MalformedError: They are damaged, or a name stands twice.
    """
    found: dict[str, Attribute] = {}
    for body in _bodies(image, messages):
        attribute = _attribute(image, heap, body)
        if attribute.name in found:
            image.refuse(f"the attribute {attribute.name!r} stands twice in one object")
        image.keep()
        found[attribute.name] = attribute
    return dict(sorted(found.items()))


def _bodies(image: Image, messages: list[Message]) -> Iterator[memoryview]:
    for message in messages:
        if message.kind == header.ATTRIBUTE:
            yield header.resolve(image, message)
        elif message.kind == header.ATTRIBUTE_INFO:
            yield from _dense(image, message.body)


def _dense(image: Image, body: memoryview) -> Iterator[memoryview]:
    cursor = image.cursor(body, "a list of attributes")
    cursor.skip(1)
    cursor.skip(2 if cursor.uint(1) & 1 else 0)
    heap, tree = cursor.address(), cursor.address()
    if heap is None:
        return
    bodies = FractalHeap(image, heap)
    for record in new_tree(image, tree, (_BY_NAME,)):
        if record[_HEAP_ID] & 2:  # the message's flags: shared
            image.exceed("an attribute in the table of shared messages, which is not read here")
        yield bodies.object(record[:_HEAP_ID])


def _attribute(image: Image, heap: GlobalHeap, body: memoryview) -> Attribute:
    image.step()
    cursor = image.cursor(body, "an attribute")
    version, flags = cursor.uint(1), cursor.uint(1)
    if not _FIRST <= version <= _THIRD:
        image.refuse(f"an attribute of version {version}")
    sizes = [cursor.uint(2) for _ in range(3)]
    cursor.skip(1 if version == _THIRD else 0)
    shared = flags if version > _FIRST else 0
    parts = []
    for size in sizes:
        parts.append(cursor.take(size))
        cursor.skip(-size % 8 if version == _FIRST else 0)
    image.step(sizes[0] // 16)
    kind = types.read(image, header.Message(header.DATATYPE, parts[1], bool(shared & _TYPE_SHARED)))
    space = header.Message(header.DATASPACE, parts[2], bool(shared & _SPACE_SHARED))
    shape = storage.read_shape(image, space)
    size = 0 if shape is None else math.prod(shape) * kind.size
    if size > cursor.left:
        image.refuse(f"an attribute of {size} bytes in the {cursor.left} that are left")
    return Attribute(text(bytes(parts[0])), kind, shape, cursor.take(size), image, heap)
