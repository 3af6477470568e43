"""TorchScript: a model as a program of PyTorch's own language, with its objects and tensors, in a ZIP file.

``code/`` is text that PyTorch compiles for its interpreter, ``data.pkl`` and ``constants.pkl`` are pickles that only
its own reader opens, ``bytecode.pkl`` (mobile) is a program as data. None of them knows Python; what can reach out of
the model are operators: of files, of other machines, of libraries other than PyTorch. Each such operator has to be
allowed by its name before the file is read.

Entry: ``file``.

Specification: https://github.com/pytorch/pytorch/blob/main/torch/csrc/jit/docs/serialization.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse
from vitrify.reading.zip import ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._torch.script import Script


FILE = "model.pt"
_MAX_REASON = 400


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

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:  # noqa: ARG002 (the protocol's)
        """Write a scripted or traced module, in eval mode; the module itself is left as it was.

        Raises:
            UnsupportedModelError: It is no such module, or PyTorch cannot write it.
        """
        from vitrify.formats._torch.call import evaluated, training
        from vitrify.formats._torch.script import Script
        from vitrify.formats._torch.script_write import written

        trained = training(model)
        try:
            with evaluated(model):
                data = written(model)
        except (RuntimeError, AttributeError) as error:
            msg = f"PyTorch cannot write this module: {str(error)[:_MAX_REASON]}"
            raise UnsupportedModelError(msg, remedy="script or trace it: torch.jit.script(module)") from error
        with sink.open(FILE, "weight") as stream:
            stream.write(data)
        found = Script(opened(memoryview(data), where=FILE), where=FILE).hazards()
        names = sorted({one.subject for one in found if one.subject})
        notes = ("saved in eval mode; the module was in training mode",) if trained else ()
        return Written(entry={"file": FILE}, names=tuple(names), notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the module, in eval mode.

        Raises:
            UntrustedCodeError: It calls what reaches out of the model, and ``allow`` does not name that.
            MalformedError: The file is no program, or hides something.
        """
        import io

        import torch

        from vitrify.formats._torch.quiet import quiet
        from vitrify.formats._torch.script import Script

        view, where = one_file(files, entry)
        found = list(Script(opened(view, where=where), where=where).hazards())
        allow.require([one.subject for one in found if one.subject], what=where)
        for one in found:
            if not one.subject and one.verdict == "found":
                refuse(one.place, one.message, remedy=one.remedy)
        try:
            with quiet():
                module = torch.jit.load(io.BytesIO(view), map_location="cpu")
        except RuntimeError as error:
            msg = f"{where}: PyTorch {torch.__version__} cannot read this program ({str(error)[:_MAX_REASON]})"
            raise MalformedError(msg, remedy="install the version of PyTorch that wrote it") from error
        for part in module.modules():
            if getattr(part, "training", False):
                part.training = False
        return module


def _open(files: Files, entry: Mapping[str, Any]) -> Script:
    from vitrify.formats._torch.script import Script

    view, where = one_file(files, entry)
    return Script(opened(view, where=where), where=where)
