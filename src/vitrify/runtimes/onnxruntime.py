"""ONNX Runtime on the CPU: ONNX models, and those in its own format.

The entry is :mod:`._ports`'s, with ``file``, the graph, and ``data``, the files of its external tensors, which are
mapped, not copied. What is no tensor is in :mod:`._onnx_values`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.formats import _onnx_external
from vitrify.formats._onnx.model import Model, Operator
from vitrify.formats._onnx.operators import known
from vitrify.formats._ort.model import parse as parse_ort
from vitrify.formats.onnx import parse, self_contained, serialise
from vitrify.formats.ort import Ort, OrtModel
from vitrify.runtimes._onnx_session import OnnxSession
from vitrify.runtimes._onnx_values import Value, describe, ends, signature_of_ends
from vitrify.runtimes.threads import wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature

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
        return signature_of_ends(*_ends(model))

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the graph says."""
        return describe(outputs, *_ends(model))


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
    return _held(model.content) if isinstance(model, OrtModel) else ends(model)


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
        raise UnsupportedModelError(msg, remedy=_remedy(str(error), content)) from error


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


def _remedy(reason: str, content: bytes) -> str:
    absent = "NOT_IMPLEMENTED" in reason
    if absent:
        remedy = "convert with precision float32: some operators have no double kernel"
    else:
        remedy = "write the model in an operator set that this version knows, or without the operator that it names"
    if (absent or _UNKNOWN in reason) and _evaluated(content):
        remedy += (
            "; the evaluator of the onnx package has all of them, and is slow: runtime onnx-reference, or --runtime"
        )
    return remedy


def _evaluated(content: bytes) -> bool:
    """Say whether :mod:`.onnx_reference` has every operator of a graph."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from vitrify.runtimes._onnx_meaning import problems

    try:
        return not problems(onnx.ModelProto.FromString(content))
    except DecodeError:  # an ORT file
        return False


def _session(engine: ort.InferenceSession, document: Document) -> OnnxSession:
    return OnnxSession(engine.run, _of(engine.get_inputs()), _of(engine.get_outputs()), document)
