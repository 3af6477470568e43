"""Write a state dict as safetensors shards, several at once, with no copy of the tensors.

SHA-256 is sequential within a file: shards let all cores hash and verify. Names and index follow Hugging Face:
``model.safetensors`` alone, or ``model-00001-of-00004.safetensors`` and ``model.safetensors.index.json``.

What the format cannot say stands in the first shard's metadata, under ``vitrify``, where the reference
implementation ignores it: ties, and element types such as big-endian or complex128.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from vitrify.core.digest import CHUNK
from vitrify.core.progress import track
from vitrify.formats._safetensors.header import DTYPES, Tensor, encode
from vitrify.formats._safetensors.shards import EXTRAS
from vitrify.formats._safetensors.source import Source, Sources, sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.progress import Bar
    from vitrify.core.protocols import Sink

SHARD = 128 * 1024 * 1024
"""Bytes of data in a shard, at most, unless one tensor is larger."""

_FORMAT = {"torch": "pt", "numpy": "np"}


def write_tensors(tensors: Mapping[str, Any], sink: Sink) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Write named arrays or named tensors.

    Returns:
        The entry that :func:`vitrify.formats._safetensors.read.read_tensors` needs, and notes for people.

    Raises:
        UnsupportedModelError: Something is no dense tensor of a known type; everything is listed before any work.
    """
    found = sources(tensors)
    shards = _plan(found.stored)
    names = _names(len(shards))
    metadata, extras = {"format": _FORMAT[found.kind]}, _extras(found)
    with (
        track("writing tensors", sum(source.nbytes for source in found.stored)) as bar,
        ThreadPoolExecutor(min(len(shards), os.cpu_count() or 1)) as pool,
    ):
        jobs = [
            pool.submit(_write_shard, shard, sink, name, {**metadata, **(extras if name == names[0] else {})}, bar)
            for name, shard in zip(names, shards, strict=True)
        ]
        for job in jobs:
            job.result()
    if len(shards) > 1:
        _write_index(names, shards, sink)
    return {"kind": found.kind, "shards": names}, _notes(found.overlapping)


def _extras(found: Sources) -> dict[str, str]:
    extras = {
        "dtypes": {source.name: source.logical for source in found.stored if source.logical},
        "tied": found.tied,
    }
    if not any(extras.values()):
        return {}
    return {EXTRAS: json.dumps(extras, separators=(",", ":"), ensure_ascii=False)}


def _plan(stored: tuple[Source, ...]) -> list[list[Source]]:
    """Cut the sequence into runs of about equal size, none above ``SHARD`` unless a single tensor is."""
    total = sum(source.nbytes for source in stored)
    count = max(1, -(-total // SHARD))
    aim = -(-total // count)
    shards: list[list[Source]] = [[]]
    size = 0
    for source in stored:
        if source.nbytes and shards[-1] and (size + source.nbytes > SHARD or size >= aim):
            shards.append([])
            size = 0
        shards[-1].append(source)
        size += source.nbytes
    return shards


def _names(count: int) -> list[str]:
    if count == 1:
        return ["model.safetensors"]
    return [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]


def _write_shard(shard: list[Source], sink: Sink, name: str, metadata: dict[str, str], bar: Bar) -> None:
    # Largest element type first, so that every tensor is aligned to its own; the header keeps the dict's order.
    laid_out = sorted(shard, key=lambda source: (-DTYPES[source.dtype][0], source.name))
    places: dict[str, Tensor] = {}
    position = 0
    for source in laid_out:
        places[source.name] = Tensor(source.dtype, source.shape, position, position + source.nbytes)
        position += source.nbytes
    with sink.open(name, "weight") as stream:
        stream.write(encode({source.name: places[source.name] for source in shard}, metadata))
        for source in laid_out:
            for chunk in source.chunks(CHUNK):
                stream.write(chunk)
                bar.advance(len(chunk))


def _write_index(names: list[str], shards: list[list[Source]], sink: Sink) -> None:
    sized = [(source, name) for name, shard in zip(names, shards, strict=True) for source in shard]
    index = {
        "metadata": {"total_size": sum(source.nbytes for source, _ in sized)},
        "weight_map": {source.name: name for source, name in sized},
    }
    with sink.open("model.safetensors.index.json", "weight.config") as stream:
        stream.write(json.dumps(index, indent=2, ensure_ascii=False).encode())


def _notes(overlapping: tuple[str, ...]) -> tuple[str, ...]:
    if not overlapping:
        return ()
    return (f"different views of one buffer, each stored as a tensor of its own: {', '.join(overlapping)}",)
