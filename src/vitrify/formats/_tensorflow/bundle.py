"""A TensorFlow checkpoint: an index of named tensors, and data files in which they lie one after another.

Source: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats import _facts
from vitrify.formats._protos.tensorflow import BYTES, SCHEMA, type_name
from vitrify.formats._tensorflow.graph import shape
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.sstable import entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

MAX_TENSORS = 100_000
MAX_SHARDS = 100_000
INDEX = ".index"

_MAX_RANK = 64
_MAX_ELEMENTS = 2**62


class Bundle:
    """One checkpoint among some files."""

    def __init__(self, files: Files, index: str) -> None:
        """Take the files and the name of the index."""
        self._files = files
        self._index = index
        self._prefix = index.removesuffix(INDEX)
        self.shards = 1

    def tensors(self) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
        """Yield each tensor's name, entry and shape; the header is read on the way.

        Raises:
            MalformedError: The index, or an entry of it, is not what it should be.
            LimitExceededError: It is larger than an honest checkpoint's.
        """
        for count, (key, value) in enumerate(entries(self._files.map(self._index), where=self._index)):
            if not key:
                self.shards = SCHEMA.parse(value, "BundleHeader", where=self._index).root.num_shards
                if not 0 < self.shards <= MAX_SHARDS:
                    refuse(self._index, f"{self.shards} data files")
                continue
            if count > MAX_TENSORS:
                exceed(self._index, f"more than {MAX_TENSORS} tensors")
            name = key.decode("utf-8", "backslashreplace")
            document = SCHEMA.parse(value, "BundleEntry", where=f"{self._index}: tensor {name!r}")
            sizes = shape(document, document.root.shape) or []
            plain = tuple(size for size in sizes if isinstance(size, int))
            if len(plain) < len(sizes) or len(plain) > _MAX_RANK or math.prod(plain) > _MAX_ELEMENTS:
                refuse(document.where, f"is said to be of shape {sizes}")
            yield name, document.root, plain

    def describe(self) -> dict[str, Any]:
        """Return the tensors and their totals; of one in slices, the slices are listed."""
        listed = [
            _facts.tensor(name, type_name(entry.dtype), sizes, entry.size)
            for name, entry, sizes in self.tensors()
            if not entry.slices and name != _OBJECTS
        ]
        return _facts.weights(listed)

    def hazards(self) -> Iterator[Finding]:
        """Yield tensors that do not lie where they are said to, and data files that are not here."""
        missing: set[str] = set()
        for name, entry, sizes in self.tensors():
            if entry.slices:
                continue
            place = f"{self._index}: tensor {name!r}"
            file = f"{self._prefix}.data-{entry.shard_id:05d}-of-{self.shards:05d}"
            kind = type_name(entry.dtype)
            needed = math.prod(sizes) * BYTES.get(kind, 0)
            if file not in self._files.names():
                if file not in missing:
                    missing.add(file)
                    yield Finding(
                        place=place,
                        rule="checkpoint-data-missing",
                        subject=file,
                        message=f"lies in {file!r}, which is not here: the checkpoint cannot be looked at as a whole",
                        remedy="name the directory that holds both",
                        verdict="not checked",
                    )
                continue
            whole = len(self._files.map(file))
            if not 0 <= entry.offset <= entry.offset + entry.size <= whole or (kind in BYTES and entry.size != needed):
                yield Finding(
                    place=place,
                    rule="checkpoint-range",
                    subject=name,
                    message=f"is said to be bytes {entry.offset} to {entry.offset + entry.size} of {whole}, for"
                    f" {needed} bytes of data: a reader that trusts it would read past the end",
                )


_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The graph of Python objects, kept as a tensor of one text."""
