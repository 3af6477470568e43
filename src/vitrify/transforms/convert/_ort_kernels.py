"""The one part of an ORT file that ONNX Runtime writes in a random order, put in order.

A file ends its list of fields with a table that says which types each operator's kernel looks at. ONNX Runtime keeps it
in a hash map and lays it out as that comes, so the same model gives other bytes. All that lies before the model in the
file is that table and the root; both are written again here, sorted, and lead to the same model behind them.

Source: ``onnxruntime/core/flatbuffers/schema/ort.fbs``; https://flatbuffers.dev/internals.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import flatbuffers

from vitrify.reading.flatbuffer import root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.reading.flatbuffer import Table

_MAGIC = b"ORTM"
_VERSION, _MODEL, _KERNELS = 0, 1, 3
_FIELDS = 4
_ALIGNMENT = 16


def in_order(content: bytes) -> bytes:
    """Return a file of ONNX Runtime with its table of kernels sorted."""
    session = root(memoryview(content), where="model.ort")
    kernels = session.maybe(_KERNELS)
    if kernels is None:
        return content
    places = {field: _target(content, session, field) for field in (_VERSION, _MODEL)}
    model = places[_MODEL]
    # A table's list of fields lies anywhere; one that was written for it lies just before it.
    first = min(*places.values(), model - _signed(content, model))
    start = first // _ALIGNMENT * _ALIGNMENT
    builder = flatbuffers.Builder(len(content))
    # The model follows what is written here, so what is before it must be as long as a multiple of the alignment.
    _write_root(builder, _write_kernels(builder, kernels))
    front = bytes(builder.Output())
    front += bytes(-len(front) % _ALIGNMENT)
    return (
        _leading(front, {field: place - start for field, place in places.items()})
        + bytes(first - start)
        + content[first:]
    )


def _target(content: bytes, table: Table, field: int) -> int:
    place = table.at + table.fields[2 + field]
    return place + int(struct.unpack_from("<I", content, place)[0])


def _signed(content: bytes, at: int) -> int:
    return int(struct.unpack_from("<i", content, at)[0])


def _leading(front: bytes, targets: dict[int, int]) -> bytes:
    """Let the root's fields lead to places behind ``front``."""
    patched, session = bytearray(front), root(memoryview(front), where="model.ort")
    for field, target in targets.items():
        place = session.at + session.fields[2 + field]
        struct.pack_into("<I", patched, place, len(front) + target - place)
    return bytes(patched)


def _write_root(builder: flatbuffers.Builder, kernels: int) -> None:
    builder.StartObject(_FIELDS)
    builder.PrependUOffsetTRelativeSlot(_KERNELS, kernels, 0)
    for field in (_MODEL, _VERSION):  # any offset will do: it is replaced
        builder.PrependUOffsetTRelativeSlot(field, kernels, 0)
    builder.Finish(builder.EndObject(), file_identifier=_MAGIC)


def _write_kernels(builder: flatbuffers.Builder, kernels: Table) -> int:
    entries = sorted(kernels.tables(0), key=lambda entry: entry.text(0).encode())
    return _object(builder, _vector(builder, [_write_operator(builder, entry) for entry in entries]))


def _write_operator(builder: flatbuffers.Builder, entry: Table) -> int:
    kinds = sorted(entry.tables(1), key=lambda kind: kind.text(0).encode())
    written = [
        _object(
            builder,
            builder.CreateString(kind.text(0)),
            _vector(builder, [_write_argument(builder, argument) for argument in kind.tables(1)]),
        )
        for kind in kinds
    ]
    return _object(builder, builder.CreateString(entry.text(0)), _vector(builder, written))


def _write_argument(builder: flatbuffers.Builder, argument: Table) -> int:
    builder.StartObject(2)
    builder.PrependUint32Slot(1, int(argument.number(1, "<I")), 0)
    builder.PrependInt8Slot(0, int(argument.number(0, "<b")), 0)
    return int(builder.EndObject())


def _object(builder: flatbuffers.Builder, *children: int) -> int:
    builder.StartObject(len(children))
    for field, child in enumerate(children):
        builder.PrependUOffsetTRelativeSlot(field, child, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    prepend: Callable[[int], None] = builder.PrependUOffsetTRelative
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        prepend(offset)
    return int(builder.EndVector())
