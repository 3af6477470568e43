"""B-trees: the old kind, which lists a group's nodes or a dataset's chunks, and the new kind, which lists records.

Source: HDF5 File Format Specification 3.0, sections III.A.1 and III.A.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.reading._hdf5.image import bytes_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading._hdf5.image import Image

GROUP, CHUNK = 0, 1
_MAX_DEPTH = 24
_HEAD = 6
_CHECKSUM = 4


def old_tree(image: Image, address: int | None, kind: int, key: int) -> Iterator[tuple[memoryview, int]]:
    """Yield the key and address of each leaf's child, left to right.

    Args:
        image: The file.
        address: Of the root node.
        kind: ``GROUP`` or ``CHUNK``.
        key: Bytes of a key.

    Raises:
        MalformedError: A node is damaged, or a child is not one level below its parent.
    """
    waiting: list[tuple[int | None, int | None]] = [(address, None)]
    while waiting:
        place, level = waiting.pop()
        cursor = image.block(place, 8 + 2 * image.address_size, b"TREE", kind)
        found, count = cursor.uint(1), cursor.uint(2)
        if found != (level if level is not None else found) or found > _MAX_DEPTH:
            image.refuse("a tree whose levels do not go down")
        start = (place or 0) + len(cursor.view)
        body = image.cursor(image.take(start, count * (key + image.address_size), "a tree's node"), "a tree's node")
        children = []
        for _ in range(count):
            image.step()
            children.append((body.take(key), body.address()))
        if found:
            waiting += [(child, found - 1) for _, child in reversed(children)]
            continue
        for name, child in children:
            if child is None:
                image.refuse("a tree with a child that is nowhere")
            yield name, child


def new_tree(image: Image, address: int | None, kinds: tuple[int, ...]) -> Iterator[memoryview]:
    """Yield each record of a new tree, in order within a node.

    Args:
        image: The file.
        address: Of its header.
        kinds: Which types of record may be in it.

    Raises:
        MalformedError: A node is damaged.
    """
    cursor = image.block(address, 22 + image.address_size + image.length_size, b"BTHD", 0)
    kind, size, record, depth = cursor.uint(1), cursor.uint(4), cursor.uint(2), cursor.uint(2)
    cursor.skip(2)
    root, count, total = cursor.address(), cursor.uint(2), cursor.length()
    image.verify(cursor.view, "a tree")
    if kind not in kinds or not record or size < _HEAD + _CHECKSUM + record or depth > _MAX_DEPTH:
        image.refuse(f"a tree of type {kind}, with nodes of {size} bytes and records of {record}")
    widths = _pointers(image, size, record, depth)
    waiting: list[tuple[int | None, int, int]] = [(root, count, depth)] if root is not None else []
    yielded = 0
    while waiting:
        place, count, level = waiting.pop()
        node = image.block(place, _node(image, count, record, widths[level]), b"BTIN" if level else b"BTLF", 0)
        if node.uint(1) != kind:
            image.refuse("a node of another tree")
        image.verify(node.view, "a tree's node")
        for _ in range(count):
            image.step()
            yield node.take(record)
        yielded += count
        for _ in range(count + 1 if level else 0):
            child, held = node.address(), node.uint(widths[level][0])
            node.skip(widths[level][1])
            waiting.append((child, held, level - 1))
    if yielded != total:
        image.refuse(f"a tree with {yielded} records that promises {total}")


def _node(image: Image, count: int, record: int, widths: tuple[int, int]) -> int:
    pointers = (count + 1) * (image.address_size + sum(widths)) if sum(widths) else 0
    return _HEAD + count * record + pointers + _CHECKSUM


def _pointers(image: Image, size: int, record: int, depth: int) -> list[tuple[int, int]]:
    """Return, for each level from the leaves up, how wide a child's two counts are."""
    room = size - _HEAD - _CHECKSUM
    most = total = room // record
    first, widths = bytes_for(most), [(0, 0)]
    for level in range(1, depth + 1):
        second = bytes_for(total) if level > 1 else 0
        widths.append((first, second))
        pointer = image.address_size + first + second
        most = (room - pointer) // (record + pointer)
        if most < 1:
            image.refuse("a tree whose nodes have no room")
        total = (most + 1) * total + most
    return widths
