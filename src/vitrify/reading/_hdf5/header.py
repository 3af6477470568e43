"""Object headers: the messages that say what an object is.

Source: HDF5 File Format Specification 3.0, section IV.A.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitrify.reading._hdf5.image import Image

DATASPACE = 0x01
LINK_INFO = 0x02
DATATYPE = 0x03
OLD_FILL = 0x04
FILL = 0x05
LINK = 0x06
EXTERNAL = 0x07
LAYOUT = 0x08
GROUP_INFO = 0x0A
FILTERS = 0x0B
ATTRIBUTE = 0x0C
CONTINUATION = 0x10
SYMBOL_TABLE = 0x11
DRIVER = 0x14
ATTRIBUTE_INFO = 0x15
_KNOWN = 0x18

_SHARED = 0x02
_MUST_UNDERSTAND = 0x88  # "fail if unknown", when written to or ever
_COMMITTED = 2
_MAX_BLOCKS = 4096
_FIRST, _SECOND, _THIRD = 1, 2, 3


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        kind: Its type.
        body: Its bytes.
        shared: Whether the body is not the thing but says where the thing is.
    """

    kind: int
    body: memoryview
    shared: bool = False


def messages(image: Image, address: int | None) -> list[Message]:
    """Return the messages of an object header, those of its continuations too.

    Raises:
        MalformedError: There is none, or it is damaged.
        LimitExceededError: It goes on and on.
    """
    head = image.take(address, 6, "an object header")
    new, flags = bytes(head[:4]) == b"OHDR", head[5]  # a new header's flags hold for its continuations
    found, blocks, seen = [], [_new(image, address) if new else _old(image, address)], set[int]()
    while blocks:
        for message in blocks.pop():
            if message.kind != CONTINUATION:
                found.append(message)
                continue
            cursor = image.cursor(message.body, "a continuation")
            place, size = cursor.address(), cursor.length()
            view = image.take(place, size, "the continuation of an object header")
            if place is None or place in seen or len(seen) >= _MAX_BLOCKS:
                image.refuse("an object header that continues in itself")
            seen.add(place)
            blocks.append(_continued(image, view, flags) if new else _parse_old(image, view))
    return found


def _old(image: Image, address: int | None) -> list[Message]:
    image.step()
    cursor = image.cursor(image.take(address, 16, "an object header"), "an object header")
    if (version := cursor.uint(1)) != _FIRST:
        image.refuse(f"no object header at {address} (version {version})")
    cursor.skip(7)
    size = cursor.uint(4)
    return _parse_old(image, image.take((address or 0) + 16, size, "an object header"))


def _parse_old(image: Image, view: memoryview) -> list[Message]:
    cursor, found = image.cursor(view, "an object header"), []
    while cursor.left >= 8:  # noqa: PLR2004 (a message's own head)
        kind, size, flags = cursor.uint(2), cursor.uint(2), cursor.uint(1)
        cursor.skip(3)
        found.append(_message(image, kind, flags, cursor.take(size)))
    return found


def _new(image: Image, address: int | None) -> list[Message]:
    cursor = image.block(address, min(34, len(image.view) - (address or 0)), b"OHDR", 2)
    flags = cursor.uint(1)
    cursor.skip((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    size = cursor.uint(1 << (flags & 3))
    view = image.take(address, cursor.at + size + 4, "an object header")
    image.verify(view, "an object header")
    return _parse_new(image, view[cursor.at : -4], flags)


def _continued(image: Image, view: memoryview, flags: int) -> list[Message]:
    if bytes(view[:4]) != b"OCHK" or len(view) < 8:  # noqa: PLR2004 (signature and checksum)
        image.refuse("no continuation of an object header where one should be")
    image.verify(view, "an object header's continuation")
    return _parse_new(image, view[4:-4], flags)


def _parse_new(image: Image, view: memoryview, flags: int) -> list[Message]:
    cursor, found, head = image.cursor(view, "an object header"), [], 6 if flags & 0x04 else 4
    while cursor.left >= head:  # fewer bytes are a gap
        kind, size, own = cursor.uint(1), cursor.uint(2), cursor.uint(1)
        cursor.skip(head - 4)
        found.append(_message(image, kind, own, cursor.take(size)))
    return found


def _message(image: Image, kind: int, flags: int, body: memoryview) -> Message:
    image.step()
    if kind > _KNOWN and flags & _MUST_UNDERSTAND:
        image.exceed(f"a message of unknown type {kind}, which has to be understood")
    return Message(kind, body, bool(flags & _SHARED))


def resolve(image: Image, message: Message) -> memoryview:
    """Return the bytes of a message, wherever they are: in place, or in another object's header.

    Raises:
        MalformedError: They are not where the message says.
        LimitExceededError: They are in the file's table of shared messages, which is not read.
    """
    if not message.shared:
        return message.body
    cursor = image.cursor(message.body, "a shared message")
    version, how = cursor.uint(1), cursor.uint(1)
    if version == _FIRST:
        cursor.skip(6 + image.length_size)
    elif version not in {_SECOND, _THIRD}:
        image.refuse(f"a shared message of version {version}")
    elif version == _THIRD and how != _COMMITTED:
        image.exceed("a message in the table of shared messages, which is not read here")
    named = [one for one in messages(image, cursor.address()) if one.kind == message.kind and not one.shared]
    if len(named) != 1:
        image.refuse("a shared message that is not where it should be")
    return named[0].body
