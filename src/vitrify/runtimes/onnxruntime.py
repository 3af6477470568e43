"""ONNX Runtime on the CPU.

What the entry says, as converters write it:

* ``file``: the graph; ``data``: the files of its external tensors, which are mapped, not copied;
* ``inputs``: signature input to graph input, one to one; an input that is not there is ignored by the model.
  Without it, equal names or positions;
* ``outputs``: signature output to graph output;
* ``casts``: signature output to the element type that is given back, where the graph's own is another (labels that
  were bool or text in the source);
* ``missing_text``: the texts that stand for None (``none``) and NaN (``nan``) in the graph, or one text for both;
  without it, missing text is refused.

A vector of rows is fed as a matrix of one column where the graph asks for that, and the other way round. Values are
cast to the graph's types only where none changes; but integers round where the graph takes floats, as the source's
own cast rounds them: the converter chose that type, and parity has proven it. Missing integers become NaN there.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from vitrify import containers
from vitrify.core.errors import MalformedError, SignatureError, UnsupportedModelError, UsageError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import element_type, parse, serialise, shape
from vitrify.runtimes.session import BaseSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session

    Array = np.ndarray[Any, Any]

_DATA = "data"
_ONLY_ERRORS = 4
_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    "tensor(string)": "object",
} | {f"tensor({name})": name for name in (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


class OnnxRuntime:
    """The runtime of ONNX models."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:  # noqa: ARG002 (the protocol's)
        """Open a model from verified bytes; external tensors come from the artifact's files and nowhere else."""
        model = parse(files, document.entry)
        data = {name: files.map(name) for name in sorted(_onnx_external.locations(model))}
        return _session(model, data, document)

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a model in memory."""
        if _onnx_external.size(model) <= _onnx_external.LIMIT:
            return _session(model, {}, document)
        stream = io.BytesIO()
        skeleton = _onnx_external.split(model, _DATA, stream)
        return _session(skeleton, {_DATA: stream.getbuffer()}, document)

    def signature(self, model: Any) -> Signature:
        """Return the inputs and outputs that the graph declares; a first dimension that may change is the batch.

        Raises:
            UnsupportedModelError: One of them is no tensor of a type that NumPy has.
        """
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in held]
        batch = (shape(inputs[0]) or [None])[0] if inputs else None
        return Signature(
            inputs=tuple(_declared(value, batch) for value in inputs),
            outputs=tuple(_declared(value, batch) for value in model.graph.output),
            container="dict",
        )

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the format has written the names."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return the output fields; which dimensions may change is what the graph says."""
        first = model.graph.input[0] if model.graph.input else None
        batch = (shape(first) or [None])[0] if first else None
        declared = {value.name: shape(value) for value in model.graph.output}
        return tuple(
            field.replace(shape=_sizes(field, declared.get(field.name), batch))
            for field in containers.output_fields(outputs, None)
        )


class OnnxSession(BaseSession):
    """A session over ONNX Runtime's."""

    def __init__(self, engine: ort.InferenceSession, signature: Signature, entry: Mapping[str, Any]) -> None:
        """Match the names of the signature with those of the graph.

        Raises:
            MalformedError: They do not fit.
            UnsupportedModelError: An input or output is a sequence, a map or of a type that NumPy does not have.
        """
        super().__init__(signature)
        self._engine = engine
        self._missing_text = entry.get("missing_text")
        self._casts = dict(entry.get("casts", {}))
        graph_inputs = {value.name: value for value in engine.get_inputs()}
        graph_outputs = {value.name: value for value in engine.get_outputs()}
        for value in (*graph_inputs.values(), *graph_outputs.values()):
            if value.type not in _TYPES:
                msg = f"{value.name!r} is a {value.type}, expected a tensor of numbers or text"
                raise UnsupportedModelError(
                    msg, remedy="convert without ZipMap, and cast bfloat16 to float inside the graph"
                )
        fields = [field.name for field in signature.inputs]
        names = entry.get("inputs") or dict(
            zip(fields, fields if set(fields) == set(graph_inputs) else graph_inputs, strict=False)
        )
        self._inputs = _matched(names, graph_inputs, fields, "inputs")
        outputs = entry.get("outputs") or {name: name for name in graph_outputs}
        self._outputs = _matched(outputs, graph_outputs, [field.name for field in signature.outputs], "outputs")

    def _run(self, inputs: Arrays) -> Arrays:
        feeds = {}
        for name, value in self._inputs.items():
            fed = _fed(inputs[name], _TYPES[value.type], name=name, missing_text=self._missing_text)
            feeds[value.name] = _with_rank(fed, value.shape)
        results = self._engine.run([value.name for value in self._outputs.values()], feeds)
        return {name: self._given(name, array) for name, array in zip(self._outputs, results, strict=True)}

    def _given(self, name: str, array: Array) -> Array:
        if cast := self._casts.get(name):
            array = array.astype(object if cast in {"string", "object", "bytes"} else np.dtype(cast))
        field = next((field for field in self.signature.outputs if field.name == name), None)
        if field and len(field.shape) == array.ndim - 1 and array.shape[-1] == 1:
            return array[..., 0]
        return array


def _session(model: onnx.ModelProto, data: Mapping[str, Any], document: Document) -> OnnxSession:
    if document.signature is None:
        msg = "an ONNX model without a signature cannot be called with named arrays"
        raise UsageError(msg, remedy="save it with an example")
    options = ort.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    options.use_deterministic_compute = True
    if data:
        sizes = [len(part) for part in data.values()]
        options.add_external_initializers_from_files_in_memory(list(data), list(data.values()), sizes)
    try:
        engine = ort.InferenceSession(serialise(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        msg = f"ONNX Runtime {ort.__version__} cannot run this graph: {error}"
        raise UnsupportedModelError(
            msg, remedy="convert with precision='float32': some operators have no double kernel"
        ) from error
    return OnnxSession(engine, document.signature, document.entry)


def _matched(names: Mapping[str, str], values: Mapping[str, Any], fields: list[str], what: str) -> dict[str, Any]:
    """Return the graph's value for each name of the signature."""
    unknown = [name for name in names.values() if name not in values]
    if what == "inputs":  # the graph may do without one that the signature has, but not the other way round
        unfit = {*(names.keys() - set(fields)), *(values.keys() - set(names.values()))}
    else:
        unfit = set(fields) - names.keys()
    if unknown or unfit:
        msg = f"the {what} {list(values)} of the graph do not fit the signature's {fields} (entry: {dict(names)})"
        raise MalformedError(msg, remedy="save or convert the model again")
    return {name: values[graph_name] for name, graph_name in names.items()}


def _fed(array: Array, wanted: str, *, name: str, missing_text: str | dict[str, str] | None) -> Array:
    """Return an array in the graph's element type.

    Raises:
        SignatureError: A value would change, or is missing where the graph has no place for that.
    """
    if wanted == "object":
        return _text(array, name=name, missing_text=missing_text)
    target = np.dtype(wanted)
    if array.dtype.kind not in "biuf":
        msg = f"{name}: {array.dtype} given, and the graph takes {wanted}"
        raise SignatureError(msg, remedy="convert the column before predicting")
    if np.ma.is_masked(array):
        if target.kind != "f":
            msg = f"{name}: missing values, and the graph takes {wanted}, which has none"
            raise SignatureError(msg, remedy="fill them before predicting, or save with an example that has some")
        present = _lossless(np.ma.getdata(array).copy(), target, name, np.ma.getmaskarray(array))
        present[np.ma.getmaskarray(array)] = np.nan
        return present
    return _lossless(np.ma.getdata(array), target, name, None)


def _lossless(array: Array, target: np.dtype[Any], name: str, ignored: Array | None) -> Array:
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(target)
        if target.kind == "f" and array.dtype.kind in "biu":
            return cast
        back = cast.astype(array.dtype)
    # The sign is compared as well: -1 becomes a large unsigned number, which becomes -1 again.
    same = ((back == array) | ((back != back) & (array != array))) & ((cast < 0) == (array < 0))  # noqa: PLR0124 (NaN)
    if ignored is not None:
        same |= ignored
    if not same.all():
        worst = array[~same].flat[0]
        msg = f"{name}: {worst!r} is {cast[~same].flat[0]!r} as {target}, which the graph takes"
        raise SignatureError(msg, remedy=f"give values that {target} holds exactly, or save with such an example")
    return cast


def _text(array: Array, *, name: str, missing_text: str | dict[str, str] | None) -> Array:
    """Return text without missing values.

    Raises:
        SignatureError: Something is no text, or is missing and the model has no text for that.
    """
    values = np.ma.filled(array.astype(object), None)
    missing = np.fromiter((value is None or value != value for value in values.flat), bool, values.size)  # noqa: PLR0124 (NaN)
    missing = missing.reshape(values.shape)
    if missing.any():
        if missing_text is None:
            msg = f"{name}: {missing.sum()} missing value(s), and text in this graph cannot be missing"
            raise SignatureError(msg, remedy="fill them before predicting, or use the model in its own format")
        marks = missing_text if isinstance(missing_text, dict) else {"none": missing_text, "nan": missing_text}
        none = np.fromiter((value is None for value in values.flat), bool, values.size).reshape(values.shape)
        values = np.where(missing, np.where(none, marks["none"], marks["nan"]).astype(object), values)
    if wrong := [value for value in values.flat if not isinstance(value, str)]:
        msg = f"{name}: {wrong[0]!r} given, and the graph takes text"
        raise SignatureError(msg, remedy="convert the column to text")
    return values


def _with_rank(array: Array, wanted: list[Any]) -> Array:
    """Make a vector a matrix of one column, or the other way round, where the graph asks for that."""
    if len(wanted) == array.ndim + 1 and wanted[-1] == 1:
        return array[..., np.newaxis]
    if 0 < len(wanted) == array.ndim - 1 and array.shape[-1] == 1:
        return array[..., 0]
    return array


def _declared(value: onnx.ValueInfoProto, batch: int | str | None) -> Field:
    dtype = {"object": "string"}.get(found := _TYPES.get(f"tensor({element_type(value)})", ""), found)
    if not dtype:
        msg = f"{value.name!r} is a {element_type(value)}, expected a tensor of numbers or text"
        raise UnsupportedModelError(msg, remedy="convert without ZipMap, and cast bfloat16 to float inside the graph")
    sizes = shape(value)
    unknown = Field(name=value.name, dtype=dtype, shape=(BATCH,) * len(sizes or [BATCH]))
    return unknown.replace(shape=_sizes(unknown, sizes, batch))


def _sizes(field: Field, declared: list[int | str | None] | None, batch: int | str | None) -> tuple[int | str, ...]:
    """Return an output's shape as the graph declares it; the graph's own name of the batch becomes ours."""
    if declared is None or len(declared) != len(field.shape):
        declared = [None, *field.shape[1:]] if field.shape else []
    sizes: list[int | str] = []
    for axis, size in enumerate(declared):
        if isinstance(size, int):
            sizes.append(size)
        elif not isinstance(batch, int) and (size == batch if size else axis == 0):
            sizes.append(BATCH)
        else:
            sizes.append(size or f"{field.name}_{axis}")
    return tuple(sizes)
