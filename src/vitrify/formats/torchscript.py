"""TorchScript: a model as a program of PyTorch's own language, with its objects and tensors, in a ZIP file.

``code/`` is text that PyTorch compiles for its interpreter, ``data.pkl`` and ``constants.pkl`` are pickles that only
its own reader opens, ``bytecode.pkl`` (mobile) is a program as data. None of them knows Python; what can reach out of
the model are operators: of files, of other machines, of libraries other than PyTorch.

Specification: https://github.com/pytorch/pytorch/blob/main/torch/csrc/jit/docs/serialization.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading.files import only
from vitrify.reading.zip import ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._torch.script import Script


class TorchScript:
    """The format of ``torch.jit.save``."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a ZIP with an object and constants beside it."""
        name = only(files)
        if name is None or not ends_like_zip(files.map(name)):
            return False
        from vitrify.formats._torch.layouts import is_script

        try:
            return is_script(opened(files.map(name), where=name))
        except LimitExceededError:
            return True
        except MalformedError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the classes with their methods' signatures, the operators with their counts, and the tensors."""
        from vitrify.formats._torch import script_summary

        return script_summary.of(_open(files, entry))

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what the container hides, what its pickles name, and the operators that reach out of the model."""
        yield from _open(files, entry).hazards()

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the members that PyTorch's own reader does not ask for: extra files of whoever wrote it."""
        script = _open(files, entry)
        yield from parts_of(script.archive, script.strangers(), where=script.where)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph of ``forward``, modules and functions folded."""
        return _open(files, entry).graph()


def _open(files: Files, entry: Mapping[str, Any]) -> Script:
    from vitrify.formats._torch.script import Script

    view, where = one_file(files, entry)
    return Script(opened(view, where=where), where=where)
