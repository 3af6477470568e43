"""ONNX Runtime on the CPU: ONNX models, and those in its own format.

The entry is :mod:`._ports`'s, with ``file``, the graph, and ``data``, the files of its external tensors, which are
mapped, not copied. What is no tensor is in :mod:`._onnx_values`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.core.signature import Signature
from vitrify.formats import _onnx_external
from vitrify.formats._onnx.model import Model, Operator
from vitrify.formats._onnx.operators import known
from vitrify.formats._ort.model import parse as parse_ort
from vitrify.formats.onnx import parse, self_contained, serialise
from vitrify.formats.ort import Ort, OrtModel
from vitrify.runtimes._onnx_values import Value, declared, require_arrays
from vitrify.runtimes._ports import Ports
from vitrify.runtimes.session import BaseSession, signature_of
from vitrify.runtimes.threads import wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field
    from vitrify.runtimes._onnx_values import Size

_DATA = "data"
_ONLY_ERRORS = 4
_UNKNOWN = "is not a registered function/op"


class OnnxRuntime:
    """The runtime of ONNX models, and of those in ONNX Runtime's own format."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open a model from verified bytes; external tensors come from the artifact's files and nowhere else."""
        if document.format == "ort":
            return self.wrap(Ort().read(files, document.entry, allow), document)
        content = self_contained(files, document.entry)
        if content is not None:
            try:
                return _session(_engine(content), document)
            except UnsupportedModelError:  # perhaps it is no model at all: parsing says what is wrong
                parse(files, document.entry)
                raise
        model = parse(files, document.entry)
        data = {name: files.map(name) for name in sorted(_onnx_external.locations(model))}
        return _session(_engine(serialise(model), data), document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model in memory."""
        if isinstance(model, OrtModel):
            return _session(_engine(model.content), document)
        if _onnx_external.size(model) <= _onnx_external.LIMIT:
            return _session(_engine(serialise(model)), document)
        stream = io.BytesIO()
        skeleton = _onnx_external.split(model, _DATA, stream)
        return _session(_engine(serialise(skeleton), {_DATA: stream.getbuffer()}), document)

    def signature(self, model: Any) -> Signature:
        """Return the inputs and outputs that the graph declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: One of them is nothing that an array can be.
        """
        inputs, outputs = _ends(model)
        require_arrays(inputs, outputs)
        batch = _batch(inputs)
        return Signature(
            inputs=tuple(value.field(batch) for value in inputs),
            outputs=tuple(value.field(batch) for value in outputs),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the graph says."""
        inputs, given = _ends(model)
        batch, values = _batch(inputs), {value.name: value for value in given}
        return tuple(values[name].seen(array, batch) for name, array in outputs.items())


class OnnxSession(BaseSession):
    """A session over ONNX Runtime's."""

    def __init__(self, engine: ort.InferenceSession, signature: Signature, entry: Mapping[str, Any]) -> None:
        """Match the names of the signature with those of the graph.

        Raises:
            MalformedError: They do not fit.
            UnsupportedModelError: An input is no tensor, an output no array can be, or a size that the signature lets
                change is fixed in the graph.
        """
        super().__init__(signature)
        self._engine = engine
        takes, gives = _of(engine.get_inputs()), _of(engine.get_outputs())
        require_arrays(takes, gives)
        self._ports = Ports(signature, entry, [value.port() for value in takes], [value.port() for value in gives])
        self._ports.require_free()
        values = {value.name: value for value in gives}
        labels = {field.name: field.classes for field in signature.outputs}
        self._wanted = [
            (port.name, None if values[port.name].kind == "tensor" else values[port.name], labels.get(name))
            for name, port in self._ports.outputs.items()
        ]
        self._names = [name for name, _, _ in self._wanted]

    def _run(self, inputs: Arrays) -> Arrays:
        results = self._engine.run(self._names, self._ports.feeds(inputs))
        given = zip(self._wanted, results, strict=True)
        return self._ports.answers(
            {
                name: np.asarray(result) if value is None else value.array(result, labels)
                for (name, value, labels), result in given
            }
        )


def _of(values: Iterable[Any]) -> list[Value]:
    """Return what a session of ONNX Runtime takes or gives; it has no word for an unknown rank, and says none."""
    return [Value(one.name, one.type, one.shape if one.type.startswith("tensor") else None) for one in values]


def _held(content: bytes) -> tuple[list[Value], list[Value]]:
    """Return what an ORT file says that it takes and gives: the types by a session, the shapes by the file."""
    engine, known = _engine(content), parse_ort(memoryview(content), where="model.ort").graph.values
    sides = (_of(engine.get_inputs()), _of(engine.get_outputs()))
    inputs, outputs = (
        [one._replace(shape=known[one.name].shape) if one.name in known else one for one in side] for side in sides
    )
    return inputs, outputs


def _ends(model: Any) -> tuple[list[Value], list[Value]]:
    """Return what a model takes and gives, as it says itself."""
    if isinstance(model, OrtModel):
        return _held(model.content)
    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    return declared(value for value in graph.input if value.name not in held), declared(graph.output, graph.node)


def _batch(inputs: list[Value]) -> Size:
    return next(iter((inputs[0].shape if inputs else None) or [None]))


def _engine(content: bytes, data: Mapping[str, Any] | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    options.use_deterministic_compute = True
    if count := wanted():
        options.intra_op_num_threads, options.inter_op_num_threads = count, 1
        for pool in ("intra_op", "inter_op"):  # a thread that spins takes the processor from other models
            options.add_session_config_entry(f"session.{pool}.allow_spinning", "0")
    if data:
        sizes = [len(part) for part in data.values()]
        options.add_external_initializers_from_files_in_memory(list(data), list(data.values()), sizes)
    try:
        return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        msg = f"ONNX Runtime {ort.__version__} cannot run this graph: {str(error).strip()}{_foreign(content, error)}"
        raise UnsupportedModelError(msg, remedy=_remedy(str(error))) from error


def _foreign(content: bytes, error: Exception) -> str:
    """Name all operators of other libraries: ONNX Runtime stops at the first that it does not know."""
    if _UNKNOWN not in str(error):
        return ""
    try:
        model = Model(memoryview(content), "the graph")
        own = {(one.domain, one.name) for one in model.functions()}
        nodes = [one for one in model.walk() if isinstance(one, Operator)]
    except (MalformedError, LimitExceededError):  # an ORT file, or worse: what ONNX Runtime says has to do
        return ""
    names = sorted(
        {
            one.type
            for one in nodes
            if not known(one.domain, one.node.op_type) and (one.node.domain, one.node.op_type) not in own
        }
    )
    return f" (operators of other libraries in it: {', '.join(names)})" if names else ""


def _remedy(reason: str) -> str:
    if "NOT_IMPLEMENTED" in reason:
        return "convert with precision float32: some operators have no double kernel"
    return "write the model in an operator set that this version knows, or without the operator that it names"


def _session(engine: ort.InferenceSession, document: Document) -> OnnxSession:
    return OnnxSession(engine, signature_of(document, "an ONNX model"), document.entry)
