"""The links of a group: its names, and what each leads to.

Source: HDF5 File Format Specification 3.0, sections III.B, III.C (symbol tables), IV.A.2.c, .g (links).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.reading._hdf5 import header
from vitrify.reading._hdf5.heaps import FractalHeap, local_heap
from vitrify.reading._hdf5.image import text
from vitrify.reading._hdf5.trees import GROUP, new_tree, old_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading._hdf5.header import Message
    from vitrify.reading._hdf5.heaps import LocalHeap
    from vitrify.reading._hdf5.image import Image

_HARD, _SOFT, _EXTERNAL = 0, 1, 64
_CACHED_SOFT = 2
_BY_NAME = 5


@dataclass(frozen=True)
class HardLink:
    """A name of an object in this file."""

    address: int | None


@dataclass(frozen=True)
class SoftLink:
    """A name of another name, which may lead to nothing."""

    target: str


@dataclass(frozen=True)
class ExternalLink:
    """A name of an object in another file, which HDF5 opens when it is followed."""

    file: str
    target: str


@dataclass(frozen=True)
class OtherLink:
    """A link of a kind that somebody's own code has to follow."""

    number: int


Link = HardLink | SoftLink | ExternalLink | OtherLink


def read(image: Image, messages: list[Message]) -> dict[str, Link]:
    """Return the links by name, sorted.

    Raises:
        MalformedError: They are damaged, or a name stands twice.
    """
    found: dict[str, Link] = {}
    for name, link in _read(image, messages):
        if name in found:
            image.refuse(f"the name {name!r} stands twice in one group")
        image.keep()
        found[name] = link
    return dict(sorted(found.items()))


def _read(image: Image, messages: list[Message]) -> Iterator[tuple[str, Link]]:
    for message in messages:
        if message.kind == header.SYMBOL_TABLE:
            yield from _old(image, message.body)
        elif message.kind == header.LINK:
            yield _link(image, header.resolve(image, message))
        elif message.kind == header.LINK_INFO:
            yield from _dense(image, message.body)


def _old(image: Image, body: memoryview) -> Iterator[tuple[str, Link]]:
    cursor = image.cursor(body, "a symbol table")
    tree, heap = cursor.address(), local_heap(image, cursor.address())
    entry = image.length_size + image.address_size + 24
    for _, address in old_tree(image, tree, GROUP, image.length_size):
        head = image.block(address, 8, b"SNOD", 1)
        head.skip(1)
        size = head.uint(2) * entry
        node = image.cursor(image.take(address + 8, size, "a group's node"), "a group's node")
        while node.left:
            yield _entry(image, node.take(entry), heap)


def _entry(image: Image, view: memoryview, heap: LocalHeap) -> tuple[str, Link]:
    cursor = image.cursor(view, "a group's entry")
    name, address, cached = heap.name(cursor.length()), cursor.address(), cursor.uint(4)
    cursor.skip(4)
    if cached == _CACHED_SOFT:
        return name, SoftLink(heap.name(cursor.uint(4)))
    return name, HardLink(address)


def _dense(image: Image, body: memoryview) -> Iterator[tuple[str, Link]]:
    cursor = image.cursor(body, "a list of links")
    cursor.skip(1)
    cursor.skip(8 if cursor.uint(1) & 1 else 0)
    heap, tree = cursor.address(), cursor.address()
    if heap is None:
        return
    links = FractalHeap(image, heap)
    for record in new_tree(image, tree, (_BY_NAME,)):
        yield _link(image, links.object(record[4:]))


def _link(image: Image, body: memoryview) -> tuple[str, Link]:
    image.step()
    cursor = image.cursor(body, "a link")
    version, flags = cursor.uint(1), cursor.uint(1)
    if version != 1:
        image.refuse(f"a link of version {version}")
    kind = cursor.uint(1) if flags & 0x08 else _HARD
    cursor.skip((8 if flags & 0x04 else 0) + (1 if flags & 0x10 else 0))
    size = cursor.uint(1 << (flags & 3))
    image.step(size // 16)
    name = text(bytes(cursor.take(size)))
    if kind == _HARD:
        return name, HardLink(cursor.address())
    value = cursor.take(cursor.uint(2))
    if kind == _SOFT:
        return name, SoftLink(text(bytes(value)))
    if kind == _EXTERNAL:
        file, _, target = bytes(value[1:]).partition(b"\0")
        return name, ExternalLink(text(file), text(target))
    return name, OtherLink(kind)
