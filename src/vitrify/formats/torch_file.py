"""Files of ``torch.save``: state dicts, checkpoints, pickled modules; in ZIP, in the older stream, in TAR.

What is loaded is made by functions of ours, after the pickle was read as inert data and every tensor was found to lie
within its storage. Modules of ``torch.nn``'s own classes need nobody's permission, other classes need theirs by name.
Nothing is written: the weights alone are kept as safetensors, a whole module as an exported program.

Specification: https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading.files import only
from vitrify.reading.once import once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink, Written
    from vitrify.core.report import Finding
    from vitrify.formats._torch.checkpoint import Checkpoint

_NOTES = frozenset(
    {"version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id", "data.pkl"}
)


class TorchFile:
    """The format of ``torch.save``."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a ZIP with a ``data.pkl``, begins with PyTorch's number, or is its kind of TAR."""
        name = only(files)
        if name is None:
            return False
        from vitrify.formats._torch.layouts import layout

        try:
            return layout(files.map(name)) is not None
        except LimitExceededError:
            return True
        except MalformedError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors by their path in the object, what is tied, and what has to be allowed to load it."""
        from vitrify.formats._torch import summary

        return summary.of(_read(files, entry))

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what the container hides, the names that nobody has trusted, and the hooks of modules."""
        yield from _read(files, entry).findings

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the members of a ZIP file that PyTorch's own reader does not ask for."""
        from vitrify.formats._torch.layouts import layout, pickles
        from vitrify.reading.zip import opened

        view, where = one_file(files, entry)
        if layout(view) != "zip":
            return
        archive = opened(view, where=where)
        root = pickles(archive)[0].removesuffix("data.pkl")
        asked = {root + name for name in _NOTES}
        asked |= {f"{root}data/{key}" for key in _read(files, entry).dialect.storages}
        rest = [name for name in archive.members if name not in asked and not name.endswith("/")]
        yield from parts_of(archive, rest, where=where)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Refuse: what this format adds to safetensors is code.

        Raises:
            UnsupportedModelError: Always.
        """
        msg = f"a {type(model).__name__} is not written as a file of torch.save, which is a pickle"
        raise UnsupportedModelError(
            msg, remedy="save its state_dict() with format='safetensors', or the module with format='torch-export'"
        )

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the object, its tensors on the CPU, over private memory that the file's pages are mapped into.

        Raises:
            UntrustedCodeError: It needs names that are neither trusted nor allowed; all are listed, nothing was run.
            MalformedError: The file is not what PyTorch writes.
        """
        from vitrify.formats._torch import live, opening
        from vitrify.formats._torch.mapping import private

        _, where = one_file(files, entry)
        return live.load(opening.read(private(files.path(where)), where=where), allow, where=where)


def _read(files: Files, entry: Mapping[str, Any]) -> Checkpoint:
    return _looked(*one_file(files, entry))


@once
def _looked(view: memoryview, where: str) -> Checkpoint:
    from vitrify.formats._torch import opening

    return opening.read(view, where=where)
