"""From a Keras model to a saved model: its inference call, traced by TensorFlow.

A Keras file is the same on every backend. Where Keras runs on JAX or PyTorch here, a process of its own loads it on
TensorFlow, so that the graph has TensorFlow's own operators, which lead on to TFLite and ONNX.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.core.wire import to_builtins

if TYPE_CHECKING:
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

_MAX_REASON = 600


class KerasToSavedModel:
    """The step from ``keras`` to ``saved-model``. What was traced to find problems is what is written."""

    def __init__(self) -> None:
        """Start with nothing traced."""
        self._traced: tuple[weakref.ref[Any], dict[str, Any], tempfile.TemporaryDirectory[str]] | None = None

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:  # noqa: ARG002 (the protocol's)
        """Try it: what TensorFlow cannot trace, only tracing tells."""
        if self._traced is not None:
            self._traced[2].cleanup()
            self._traced = None
        folder = tempfile.TemporaryDirectory(prefix="vitrify-")
        try:
            self._traced = weakref.ref(source.files), _exported(source, Path(folder.name)), folder
        except UnsupportedModelError as error:
            folder.cleanup()
            remedy = error.remedy or "write the layer with keras.ops, which is the same on every backend"
            return error.problems or (Finding(place="model", message=error.message, remedy=remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the saved model."""
        if self._traced is None or self._traced[0]() is not source.files:
            if problems := self.problems(source, step):
                msg = "TensorFlow cannot trace this model"
                raise UnsupportedModelError(msg, problems=problems)
            assert self._traced is not None
        _, answer, folder = self._traced
        self._traced = None
        with folder as root:
            for name, (place, kind) in sorted(answer["files"].items()):
                with sink.open(name, kind) as stream:
                    stream.write(Path(root, place).read_bytes())
        return Written(entry=answer["entry"])


def _exported(source: Subject, folder: Path) -> dict[str, Any]:
    """Write the saved model's files into a folder, in a process whose Keras runs on TensorFlow.

    Raises:
        UnsupportedModelError: TensorFlow cannot trace the model.
    """
    request = {
        "files": {name: str(source.files.path(name)) for name in source.files.names()},
        "document": to_builtins(source.document),
        "allow": sorted(source.allow.names),
        "folder": str(folder),
    }
    command = [sys.executable, "-I", "-m", "vitrify.transforms.convert._keras_process"]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    asked = json.dumps(request).encode()
    done = subprocess.run(command, input=asked, capture_output=True, check=False, env=environment)  # noqa: S603 (this interpreter)
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if done.returncode == 0 and lines else {}
    if "entry" not in answer:
        cause = answer.get("error") or done.stderr.decode(errors="replace").strip()[-_MAX_REASON:]
        msg = f"Keras on TensorFlow cannot trace this model: {cause}"
        raise UnsupportedModelError(msg, remedy=answer.get("remedy", ""))
    return answer
