"""A session over an ONNX graph, whatever runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.runtimes._onnx_values import require_arrays
from vitrify.runtimes._ports import Ports
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vitrify.core.document import Document
    from vitrify.core.protocols import Arrays
    from vitrify.runtimes._onnx_values import Value

    Run = Callable[[list[str], Arrays], Sequence[Any]]


class OnnxSession(BaseSession):
    """A session that feeds a graph by its own names."""

    def __init__(self, run: Run, takes: list[Value], gives: list[Value], document: Document) -> None:
        """Match the names of the signature with those of the graph.

        Args:
            run: Gives the outputs of these names, in their order, for what the graph takes.
            takes: What the graph takes.
            gives: What it gives.
            document: Of the artifact.

        Raises:
            UsageError: The artifact has no signature.
            MalformedError: They do not fit.
            UnsupportedModelError: An input is no tensor, an output no array can be, or a size that the signature lets
                change is fixed in the graph.
        """
        signature = signature_of(document, "an ONNX model")
        super().__init__(signature)
        self._call = run
        require_arrays(takes, gives)
        ports = Ports(signature, document.entry, [one.port() for one in takes], [one.port() for one in gives])
        ports.require_free()
        self._ports = ports
        values = {value.name: value for value in gives}
        labels = {field.name: field.classes for field in signature.outputs}
        self._wanted = [
            (port.name, None if values[port.name].kind == "tensor" else values[port.name], labels.get(name))
            for name, port in ports.outputs.items()
        ]
        self._names = [name for name, _, _ in self._wanted]

    def _run(self, inputs: Arrays) -> Arrays:
        results = self._call(self._names, self._ports.feeds(inputs))
        given = zip(self._wanted, results, strict=True)
        return self._ports.answers(
            {
                name: np.asarray(result) if value is None else value.array(result, labels)
                for (name, value, labels), result in given
            }
        )
