"""TensorRT engines (plans): kernels that were compiled for one kind of GPU. What is in them only TensorRT reads.

NVIDIA documents no format. What is known of the header: the tag ``ftrt``, the number of the header's form, that of the
serialisation, and in bytes 24 to 27 the version of TensorRT (https://github.com/NVIDIA/TensorRT/issues/3073).
Ultralytics writes the length and the JSON of its own metadata before the plan.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.core.errors import MalformedError
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

MAGIC = b"ftrt"
_HEADER = struct.Struct("<4sIIIQ4B")
_NEWEST_MAJOR = 30
_LONGEST = 1 << 20
"""Bytes of metadata before the plan, at most."""


class _Plan(NamedTuple):
    form: int
    serialisation: int
    version: str
    metadata: dict[str, Any]
    size: int


class TensorRt:
    """The format of TensorRT engines: recognised, and no more."""

    def detect(self, files: Files) -> bool:
        """Say whether it begins with the tag of a plan, or has it behind the metadata that stands before it."""
        start = head(files, 8)
        if start.startswith(MAGIC):
            return True
        name = only(files)
        if name is None or start[2:4] not in {b"\0\0", b"\1\0", b"\2\0"} or start[4:5] != b"{":
            return False
        place = 4 + int.from_bytes(start[:4], "little")
        return bytes(files.map(name)[place : place + 4]) == MAGIC

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the version of TensorRT, and the metadata of whoever made the plan.

        Raises:
            MalformedError: It is no plan, or cut off before its header ends.
        """
        plan = _plan(files, entry)[1]
        return {
            "producer": f"TensorRT {plan.version}".strip(),
            "versions": {"tensorrt": plan.version, "header": plan.form, "serialization": plan.serialisation},
            "bytes": plan.size,
            "metadata": plan.metadata,
            "code": True,
            "needs": ["that version of TensorRT", "the kind of GPU that it was built on"],
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield that its code was not looked at.

        Raises:
            MalformedError: It is no plan, or cut off before its header ends.
        """
        from vitrify.core.report import Finding

        name, plan = _plan(files, entry)
        message = f"{plan.size} bytes of kernels for a GPU and of what TensorRT does with them: they cannot be read"
        remedy = "build the engine yourself, from the model that it was built from"
        yield Finding(place=name, message=message, rule="native-code", verdict="not checked", remedy=remedy)


def _plan(files: Files, entry: Mapping[str, Any]) -> tuple[str, _Plan]:
    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one TensorRT engine")
    view = files.map(name)
    metadata: dict[str, Any] = {}
    if bytes(view[:4]) != MAGIC:
        metadata, view = _behind(view, name)
    if bytes(view[:4]) != MAGIC or len(view) < _HEADER.size:
        refuse(name, f"is no TensorRT engine, or cut off: {_HEADER.size} bytes that begin with 'ftrt' are expected")
    _, form, serialisation, _, _, *numbers = _HEADER.unpack_from(view)
    known = form == 0 and 0 < numbers[0] < _NEWEST_MAJOR
    version = ".".join(map(str, numbers)) if known else ""
    return name, _Plan(form, serialisation, version, metadata, len(view))


def _behind(view: memoryview, name: str) -> tuple[dict[str, Any], memoryview]:
    """Return the metadata before a plan, and the plan."""
    from vitrify.reading.json import parse

    size = int.from_bytes(view[:4], "little")
    if not 0 < size <= _LONGEST or size + 4 > len(view):
        refuse(name, "is no TensorRT engine: neither the tag of one nor metadata stands at its beginning")
    try:
        found = parse(view[4 : 4 + size], where=f"{name}: metadata")
    except MalformedError:
        found = None
    return found if isinstance(found, dict) else {"unread": f"{size} bytes"}, view[4 + size :]
