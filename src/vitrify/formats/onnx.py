"""ONNX graphs, with their initialisers in a file of their own above 2 GiB.

A stranger's file is looked at through its skeleton (:mod:`vitrify.reading.protobuf`), which needs no ``onnx`` and holds
no tensor's data; only what has become an artifact is read whole, by the library.

Entry: ``file`` (the graph), ``data`` (the files of external tensors), ``opset``, ``ir``, and how the signature's names
and the graph's belong together: ``inputs`` and ``outputs``, signature name to graph name. Converters add ``casts``
and ``missing_text``; see :mod:`vitrify.runtimes._ports`.

Specification: https://onnx.ai/onnx/repo-docs/IR.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.formats import _graph_names, _onnx_external
from vitrify.formats._onnx.model import Model, is_model
from vitrify.reading.files import only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding

FILE = "model.onnx"
DATA = "model.onnx.data"
_UNKNOWN = frozenset({"", "?"})


class Onnx:
    """The format of ONNX models."""

    def detect(self, files: Files) -> bool:
        """Say whether the file is an ONNX model, or the directory's own files are exactly one (and its data)."""
        names = [name for name in files.names() if only(files) or _is_graph(name)]
        return sum(is_model(files.map(name)) for name in names) == 1

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, producer, inputs, outputs, operators, tensors wherever they lie, functions and metadata."""
        from vitrify.formats._onnx.describe import describe

        return describe(_model(files, entry))

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what :mod:`vitrify.formats._onnx.hazards` lists: operators and tensors from outside, circles, bombs."""
        from vitrify.formats._onnx.hazards import hazards

        return hazards(_model(files, entry), files, _file(files, entry))

    def beside(self, files: Files, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the files below the model's folder that its tensors are said to lie in."""
        from vitrify.formats._onnx.external import locations

        return locations(_model(files, entry))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph; branches, bodies and functions are inside their nodes."""
        from vitrify.formats._onnx.draw import Drawing

        return Drawing(_model(files, entry)).graph()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a model, or the model in a file with its external data.

        Raises:
            UnsupportedModelError: The external data is not loaded, or the graph alone is larger than protobuf allows.
        """
        import onnx

        proto = onnx.load(model) if isinstance(model, (str, Path)) else model
        if absent := sorted(_onnx_external.locations(proto)):
            msg = f"tensors of this model lie in files that were not loaded: {', '.join(absent)}"
            raise UnsupportedModelError(msg, remedy="load it with onnx.load(path), which reads them")
        entry: dict[str, Any] = {"file": FILE, **_versions(proto)}
        if example is not None:
            entry |= _names(proto, example)
        if _onnx_external.size(proto) > _onnx_external.LIMIT:
            with sink.open(DATA, "weight") as stream:
                proto = _onnx_external.split(proto, DATA, stream)
            entry["data"] = [DATA]
        with sink.open(FILE, "weight") as stream:
            stream.write(serialise(proto))
        return Written(entry=entry)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> onnx.ModelProto:  # noqa: ARG002 (the protocol's)
        """Return the model with all its tensors.

        Raises:
            MalformedError: It is no ONNX model, or its external data is not where it says.
        """
        model = parse(files, entry)
        _onnx_external.embed(model, files.map, where=_file(files, entry))
        return model


def parse(files: Files, entry: Mapping[str, Any]) -> onnx.ModelProto:
    """Return the model without its external tensors, all of which are known to lie in files of the artifact.

    Raises:
        MalformedError: It is no ONNX model, or points outside the artifact.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    name = _file(files, entry)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(files.read(name))
    except DecodeError as error:
        msg = f"{name}: not an ONNX model ({error})"
        raise MalformedError(msg) from error
    if not model.HasField("graph") or not model.opset_import:
        msg = f"{name}: not an ONNX model (no graph or no opset)"
        raise MalformedError(msg)
    if outside := sorted(_onnx_external.locations(model) - set(files.names())):
        msg = f"{name}: tensors are said to lie in {outside}, which this artifact does not have"
        remedy = "keep its data files beside it and take the folder, or save what onnx.load(path) gives: it reads them"
        raise MalformedError(msg, remedy=remedy)
    return model


def self_contained(files: Files, entry: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of a model that surely has no tensor outside of them; None where only parsing can tell.

    An external tensor says ``location``, in these letters. A server that opens a model this way need not import the
    library of ONNX, nor hold the model twice.
    """
    content = files.read(_file(files, entry))
    return None if b"location" in content else content


def serialise(model: onnx.ModelProto) -> bytes:
    """Return the model's bytes, the same for the same model.

    Raises:
        UnsupportedModelError: It is larger than protobuf allows.
    """
    from google.protobuf.message import EncodeError

    try:
        return bytes(model.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        msg = f"the graph is too large for one protobuf message even without its initialisers ({error})"
        raise UnsupportedModelError(msg, remedy="turn large Constant nodes into initialisers") from error


def element_type(value: onnx.ValueInfoProto) -> str:
    """Return the type as ONNX writes it, ``float`` or ``sequence``."""
    import onnx

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind).removesuffix("_type")
    number = value.type.tensor_type.elem_type
    known = number in onnx.TensorProto.DataType.values()
    return str(onnx.TensorProto.DataType.Name(number)).lower() if known else str(number)


def shape(value: onnx.ValueInfoProto) -> list[int | str | None] | None:
    """Return the dimensions: a number, the name of one that may change, None for one without either.

    Exporters write an unknown size as -1 or "?", too; two such sizes need not be equal.
    """
    if not value.type.tensor_type.HasField("shape"):
        return None
    sizes = []
    for dimension in value.type.tensor_type.shape.dim:
        kind = dimension.WhichOneof("value")
        size = getattr(dimension, kind) if kind else None
        sizes.append(None if size in _UNKNOWN or (isinstance(size, int) and size < 0) else size)
    return sizes


def _model(files: Files, entry: Mapping[str, Any]) -> Model:
    name = _file(files, entry)
    return Model(files.map(name), name)


def _is_graph(name: str) -> bool:
    return name.endswith(".onnx") and "/" not in name


def _file(files: Files, entry: Mapping[str, Any]) -> str:
    if "file" in entry:
        return str(entry["file"])
    names = [name for name in files.names() if _is_graph(name)]
    if len(names) != 1:
        msg = f"expected one .onnx file, found {names}"
        raise MalformedError(msg)
    return names[0]


def _versions(model: onnx.ModelProto) -> dict[str, int]:
    opset = next((opset.version for opset in model.opset_import if opset.domain in {"", "ai.onnx"}), 0)
    return {"opset": opset, "ir": model.ir_version}


def _names(model: onnx.ModelProto, example: Example) -> dict[str, dict[str, str]]:
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in held]
    return _graph_names.match(inputs, [value.name for value in model.graph.output], example)
