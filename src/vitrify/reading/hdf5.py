"""HDF5 from a stranger: groups, datasets and attributes, read from the bytes by our own code.

Nothing is opened but the bytes at hand: a link or a dataset that leads to another file is said to do so, never
followed. Lists of links and attributes are read whole; a dataset's shape, type and filters are known before, and
without, its data.

What is not read: messages in the table of shared messages, compressed lists of links, chunks found by a fixed or an
extensible array or a new tree. Where they are met, a :class:`~vitrify.core.errors.LimitExceededError` says so.

Source: https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html (HDF5 File Format Specification 3.0).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vitrify.reading._hdf5 import attributes, chunks, header, links, storage, superblock, types, values
from vitrify.reading._hdf5.attributes import Attribute
from vitrify.reading._hdf5.heaps import GlobalHeap
from vitrify.reading._hdf5.image import BYTES_A_STEP
from vitrify.reading._hdf5.links import ExternalLink, HardLink, Link, OtherLink, SoftLink
from vitrify.reading._hdf5.storage import Filter, Layout
from vitrify.reading._hdf5.types import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading._hdf5.header import Message
    from vitrify.reading._hdf5.image import Image

__all__ = [
    "Attribute",
    "Committed",
    "Dataset",
    "ExternalLink",
    "File",
    "Filter",
    "Group",
    "Layout",
    "Node",
    "OtherLink",
    "SoftLink",
    "Type",
]

MAX_DEPTH = 200
MAX_DECLARED = (1 << 63) - 1
MAX_DATA = 64 * 1024 * 1024
"""Bytes of a dataset that are put together from chunks at most, unless the caller says otherwise."""


_OF_GROUPS = {header.SYMBOL_TABLE, header.LINK_INFO, header.LINK, header.GROUP_INFO}
_OF_DATASETS = {header.DATASPACE, header.LAYOUT}


class File:
    """An HDF5 file.

    Attributes:
        size: Its bytes.
        before: What is before the superblock, which HDF5 leaves to the user.
        after: What is after the end that the superblock names.
        version: Of its superblock.
        driver: Whether the file is one of several that a driver of HDF5 puts together.
    """

    def __init__(self, view: memoryview, *, where: str) -> None:
        """Read the superblock.

        Raises:
            MalformedError: There is none, or the file is cut off.
        """
        found = superblock.read(view, where=where)
        self.where = where
        self.size = len(view)
        self.version = found.version
        self.before = view[: found.start]
        self.after = found.image.view[found.end :]
        self._image = found.image
        self._image.view = found.image.view[: found.end]
        self._heap = GlobalHeap(self._image)
        self._root = found.root
        extension = [] if found.extension is None else header.messages(self._image, found.extension)
        self.driver = found.driver or any(message.kind == header.DRIVER for message in extension)

    @cached_property
    def root(self) -> Group:
        """The group that all names start from."""
        found = self._open("/", HardLink(self._root))
        if not isinstance(found, Group):
            self._image.refuse("its root is no group")
        return found

    def walk(self) -> Iterator[tuple[str, Node | SoftLink | ExternalLink | OtherLink]]:
        """Yield every name under the root and what it leads to; a group that has several is entered once.

        Raises:
            MalformedError: Something is damaged.
            LimitExceededError: Groups are nested too deep, or name more than the file has room for.
        """
        waiting: list[tuple[str, int, Link]] = [("/", 0, HardLink(self.root.address))]
        seen = set()
        while waiting:
            path, depth, link = waiting.pop()
            node = self._open(path, link)
            if depth:
                yield path, node
            if not isinstance(node, Group) or node.address in seen:
                continue
            if depth > MAX_DEPTH:
                self._image.exceed(f"groups nested more than {MAX_DEPTH} levels deep")
            seen.add(node.address)
            for name, child in reversed(node.links.items()):
                inner = f"{path.rstrip('/')}/{name}"
                self._image.step(1 + len(inner) // BYTES_A_STEP)
                waiting.append((inner, depth + 1, child))

    def resolve(self, link: SoftLink, path: str) -> Node | None:
        """Return the object that a soft link at a path leads to; None where there is none, or only by another link."""
        group = "" if link.target.startswith("/") else path.rpartition("/")[0]
        return self.root.get(f"{group}/{link.target}")

    def _open(self, path: str, link: Link) -> Node | SoftLink | ExternalLink | OtherLink:
        if not isinstance(link, HardLink):
            return link
        messages = header.messages(self._image, link.address)
        kinds = {message.kind for message in messages}
        grouped, stored = kinds & _OF_GROUPS, kinds & _OF_DATASETS
        if (grouped and stored) or not (grouped or stored or header.DATATYPE in kinds):
            self._image.refuse(f"{path}: an object that is no group, dataset or type, or more than one of them")
        found = Group if grouped else Dataset if stored else Committed
        return found(self, path, link.address or 0, messages)


class Node:
    """An object of the file: what groups, datasets and committed types have in common."""

    def __init__(self, file: File, path: str, address: int, messages: list[Message]) -> None:
        """Keep the messages; they are read when they are asked for."""
        self.file = file
        self.path = path
        self.address = address
        self._messages = messages

    @property
    def _image(self) -> Image:
        return self.file._image  # noqa: SLF001 (one room: a node is a part of its file)

    @property
    def _heap(self) -> GlobalHeap:
        return self.file._heap  # noqa: SLF001 (see above)

    @cached_property
    def attrs(self) -> dict[str, Attribute]:
        """The attributes by name; their values are read when they are asked for."""
        return attributes.read(self._image, self._heap, self._messages)

    def _message(self, kind: int) -> Message | None:
        found = [message for message in self._messages if message.kind == kind]
        if len(found) > 1:
            self._image.refuse(f"{self.path}: its header says twice what it can be but once (message {kind})")
        return found[0] if found else None


class Committed(Node):
    """A datatype that has a name of its own."""


class Group(Node):
    """A group: names, and what they lead to."""

    @cached_property
    def links(self) -> dict[str, Link]:
        """The links by name, not followed."""
        return links.read(self._image, self._messages)

    def items(self) -> list[tuple[str, Node | SoftLink | ExternalLink | OtherLink]]:
        """Return each name and what it leads to: an object of this file is opened, any other link is not."""
        return [(name, self._child(name, link)) for name, link in self.links.items()]

    def get(self, path: str) -> Node | None:
        """Return the object at a path below this group; None where there is none, or a link that is no hard one."""
        node: object = self
        for name in (part for part in path.split("/") if part and part != "."):
            if not isinstance(node, Group) or name not in node.links:
                return None
            node = node._child(name, node.links[name])  # noqa: SLF001 (of the same class)
        return node if isinstance(node, Node) else None

    def _child(self, name: str, link: Link) -> Node | SoftLink | ExternalLink | OtherLink:
        return self.file._open(f"{self.path.rstrip('/')}/{name}", link)  # noqa: SLF001 (see Node)


class Dataset(Node):
    """A dataset: an array whose elements are somewhere in the file."""

    @cached_property
    def type(self) -> Type:
        """What an element is."""
        return types.read(self._image, self._need(header.DATATYPE, "type"))

    @cached_property
    def shape(self) -> tuple[int, ...] | None:
        """Its sizes, none for a single value; None for a dataset without any value."""
        return storage.read_shape(self._image, self._need(header.DATASPACE, "shape"))

    @cached_property
    def layout(self) -> Layout:
        """Where the elements are."""
        return storage.read_layout(self._image, self._need(header.LAYOUT, "layout"))

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """What was done to each chunk, in order."""
        message = self._message(header.FILTERS)
        return storage.read_filters(self._image, message) if message else ()

    @cached_property
    def external(self) -> tuple[str, ...]:
        """Names of the files that hold the elements instead of this one."""
        message = self._message(header.EXTERNAL)
        return storage.read_external(self._image, message) if message else ()

    @property
    def virtual_sources(self) -> tuple[str, ...]:
        """Name of the first file that a virtual dataset takes its elements from; ``.`` is this one."""
        if self.layout.kind != "virtual" or self.layout.address is None:
            return ()
        cursor = self._image.cursor(self._heap.object(self.layout.address, self.layout.number), "a virtual dataset")
        cursor.skip(1)
        return (cursor.name(),) if cursor.length() else ()

    @property
    def declared(self) -> int:
        """Bytes of all elements by shape and type; a hostile file says what it likes."""
        size = 0 if self.shape is None else math.prod(self.shape) * self.type.size
        if size > MAX_DECLARED:
            self._image.exceed(f"{self.path}: {size} bytes by its shape, more than any machine has")
        return size

    @property
    def stored(self) -> int | None:
        """Bytes that the file spends on them; None for chunks, which are not counted."""
        if self.layout.held is not None:
            return len(self.layout.held)
        if self.layout.kind == "contiguous":
            return 0 if self.layout.address is None else self.layout.size
        return None

    def view(self) -> memoryview:
        """Return the elements of a dataset that lies in one piece, without a copy.

        Raises:
            MalformedError: They do not lie in the file.
            LimitExceededError: It lies in chunks or elsewhere, or nowhere yet.
        """
        layout = self.layout
        if layout.kind in {"chunked", "virtual"} or self.external:
            self._image.exceed(f"{self.path}: its data is not in one piece in this file")
        if layout.held is None and layout.address is None and self.declared:
            self._image.exceed(f"{self.path}: its data was never written")
        data = layout.held if layout.held is not None else memoryview(b"")
        if layout.address is not None:
            data = self._image.take(layout.address, layout.size, f"the data of {self.path}")
        if self.declared > len(data):
            self._image.refuse(f"{self.path}: {len(data)} bytes of data, its shape and type say {self.declared}")
        return data[: self.declared]

    def read(self, *, most: int = MAX_DATA) -> bytes | memoryview:
        """Return the elements as bytes in C order, put together from chunks where they lie in chunks.

        Args:
            most: How many bytes there may be.

        Raises:
            MalformedError: They are damaged.
            LimitExceededError: They are more, in other files, or done to what is not undone here.
        """
        layout, size = self.layout, self.type.size
        if not self.declared:
            return b""
        if self.declared > most or size > most:
            self._image.exceed(f"{self.path}: {self.declared} bytes of data, more than {most}")
        if layout.kind == "chunked" and self.shape is not None:
            array = chunks.Array(layout, self.filters, self.shape, size, self._fill(size))
            return chunks.assemble(self._image, array, most)
        if layout.kind == "contiguous" and layout.address is None and not self.external:
            return self._fill(size) * (self.declared // size)
        return self.view()

    def values(self, *, most: int = MAX_DATA) -> Any:
        """Return the elements as text, numbers and lists of them; see :meth:`Attribute.value`."""
        return values.read(self._image, self._heap, self.type, self.shape, memoryview(self.read(most=most)))

    def _fill(self, size: int) -> bytes:
        message = self._message(header.FILL) or self._message(header.OLD_FILL)
        return storage.read_fill(self._image, message, size) if message else bytes(size)

    def _need(self, kind: int, what: str) -> Message:
        message = self._message(kind)
        if message is None:
            self._image.refuse(f"{self.path}: a dataset without a {what}")
        return message
