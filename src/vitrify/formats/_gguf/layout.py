"""How the tensors of a GGUF file lie: what overlaps, and the bytes that no tensor answers for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._gguf.read import Header, Tensor


class Gap(NamedTuple):
    """Bytes of the file, from ``start`` (inclusive) to ``end`` (exclusive), that belong to nothing."""

    start: int
    end: int


def overlaps(header: Header) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of tensors that share bytes."""
    widest: Tensor | None = None
    for tensor in sorted(header.tensors, key=lambda one: one.start):
        if widest is not None and tensor.size and tensor.start < _end(widest):
            yield widest, tensor
        if widest is None or _end(tensor) > _end(widest):
            widest = tensor


def gaps(header: Header, data: memoryview) -> Iterator[Gap]:
    """Yield what lies between and behind the tensors and is more than the zeros that align the next of them.

    After a tensor of an unknown type nothing is known up to the next one, and nothing is said.
    """
    position: int | None = header.end
    listed = sorted(header.tensors, key=lambda one: one.start)
    ends = [
        (header.data + one.start, None if one.size is None else header.data + one.start + one.size) for one in listed
    ]
    for start, end in [*ends, (len(data), len(data))]:
        if position is not None and start > position and not _is_padding(data[position:start], header.alignment):
            yield Gap(position, start)
        position = None if position is None or end is None else max(position, end)
        if position is None and end is not None:
            position = end


def _end(tensor: Tensor) -> int:
    return tensor.start + (tensor.size or 0)


def _is_padding(piece: memoryview, alignment: int) -> bool:
    return len(piece) < alignment and not any(piece)
