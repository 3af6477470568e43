"""Safetensors: named arrays or tensors (a state dict), as data.

Written and read by Vitrify itself, so that strided, tied, big-endian and zero-size tensors come back as they were
and a model is never held twice; the reference library reads these files, and its files are read here.

Source: https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.formats._safetensors.header import MAX_HEADER
from vitrify.formats._safetensors.shards import INDEX, SUFFIX, describe_tensors, read_headers
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding


class Safetensors:
    """The format of bare weights."""

    def detect(self, files: Files) -> bool:
        """Say whether the file has a safetensors header, or the directory holds such files and at most their index."""
        name = only(files)
        if name is not None:
            return _has_header(files.map(name))
        shards = [name for name in files.names() if not name.endswith(INDEX)]
        return bool(shards) and all(name.endswith(SUFFIX) and _has_header(files.map(name)) for name in shards)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors (element type, shape, bytes), the total and the metadata; no tensor is read."""
        return describe_tensors(files, entry)

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: numbers, of which each byte belongs to one tensor, or reading the header refuses them."""
        read_headers(files, entry)
        return ()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a dict of arrays or tensors; see :class:`vitrify.core.protocols.Format`."""
        from vitrify.formats._safetensors.write import write_tensors

        if not isinstance(model, dict):
            msg = f"safetensors keeps a dict of arrays or tensors, not a {type(model).__name__}"
            raise UnsupportedModelError(msg, remedy="save model.state_dict()")
        entry, notes = write_tensors(model, sink)
        return Written(entry=entry, notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return the dict: arrays are read-only views of the file, tensors are copied where they are written to."""
        from vitrify.formats._safetensors.read import read_tensors

        return read_tensors(files, entry)


def _has_header(view: memoryview) -> bool:
    """Say whether a file starts with a length and a header.

    One that is cut off, or whose length lies, is still meant to be of this format: no text has a zero byte there.
    """
    start = bytes(view[:10])
    length = int.from_bytes(start[:8], "little")
    fits = length <= MAX_HEADER and 8 + length <= view.nbytes
    return start[8:9] == b"{" and (fits or (b"\0" in start[:8] and start[8:] in {b'{"', b"{}"}))
