"""What an ONNX model says about itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.formats import _facts
from vitrify.formats._onnx.model import Operator, element, offset_and_length
from vitrify.formats._onnx.operators import NATIVE, known
from vitrify.formats._protos.onnx import BITS
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vitrify.formats._onnx.model import Model, Stored
    from vitrify.reading.protobuf import Document

MAX_LISTED = 100_000
MAX_PORTS = 10_000

_FEW_BITS = 8
_QUANTISED = (
    "Quantize",
    "Dequantize",
    "QLinear",
    "Integer",
    "NBits",
    "Bnb4",
    "QGemm",
    "QAttention",
    "QMoE",
    "QOrdered",
)


def describe(model: Model) -> dict[str, Any]:
    """Return the facts, as :mod:`vitrify.formats` names them.

    Raises:
        MalformedError: A part of the model is not what it should be.
        LimitExceededError: It has more parts than an honest model.
    """
    root, document = model.root, model.document
    operators: Counter[str] = Counter()
    tensors: list[dict[str, Any]] = []
    foreign: set[str] = set()
    own = {(function.domain, function.name) for function in model.functions()}
    for one in model.walk():
        if isinstance(one, Operator):
            operators[one.type] += 1
            if not known(one.domain, one.node.op_type) and (one.node.domain, one.node.op_type) not in own:
                foreign.add(one.domain or "ai.onnx")
        elif one.weight:
            tensors.append(_tensor(model, one))
        if len(tensors) > MAX_LISTED or len(operators) > MAX_LISTED:
            exceed(model.where, f"more than {MAX_LISTED} tensors or kinds of operators")
    held = {tensor.name for tensor in document.each(root.graph, "initializer")}
    metadata = {pair.key: pair.value for pair in document.each(root, "metadata_props")}
    facts = {
        "producer": f"{root.producer_name} {root.producer_version}".strip(),
        "versions": {"ir": root.ir_version, **model.opsets()},
        "inputs": [port for port in _ports(document, root.graph, "input") if port["name"] not in held],
        "outputs": list(_ports(document, root.graph, "output")),
        **_facts.weights(tensors),
        "operators": dict(sorted(operators.items())),
        "quantisation": _quantisation(operators, tensors),
        "metadata": metadata,
        "needs": [f"a library with the operators of {domain!r}" for domain in sorted(foreign)],
    }
    optional = {
        "name": root.graph.name,
        "domain": root.domain,
        "model version": root.model_version,
        "description": root.doc_string,
        "license": next((value for key, value in metadata.items() if key.lower() in {"license", "licence"}), ""),
        "functions": [f"{function.domain}.{function.name}" for function in model.functions()],
        "training": len(root.training_info) > 0,
        "native": sorted({name for name in operators if name in NATIVE}),
    }
    return facts | {key: value for key, value in optional.items() if value}


def type_name(kind: Any) -> str:
    """Return a value's element type as ONNX writes it: ``float``, ``sequence``."""
    for field in ("tensor_type", "sparse_tensor_type"):
        if kind.HasField(field):
            return element(getattr(kind, field).elem_type)
    found = [field for field in ("sequence_type", "map_type", "optional_type", "opaque_type") if kind.HasField(field)]
    return found[0].removesuffix("_type") if found else ""


def sizes(document: Document, kind: Any) -> list[int | str | None] | None:
    """Return a value's dimensions: a number, the name of one that may change, None for one without either."""
    field = "sparse_tensor_type" if kind.HasField("sparse_tensor_type") else "tensor_type"
    held = getattr(kind, field)
    if not held.HasField("shape"):
        return None
    return [_size(dimension) for dimension in document.each(held.shape, "dim")]


def _size(dimension: Any) -> int | str | None:
    if dimension.HasField("dim_value"):
        return int(dimension.dim_value)
    return str(dimension.dim_param) if dimension.HasField("dim_param") else None


def _ports(document: Document, graph: Any, field: str) -> Iterator[dict[str, Any]]:
    for value in document.each(graph, field, most=MAX_PORTS):
        yield _facts.port(value.name, type_name(value.type), sizes(document, value.type))


def _tensor(model: Model, stored: Stored) -> dict[str, Any]:
    facts = _facts.tensor(stored.name, element(stored.tensor.data_type), model.shape(stored), model.bytes(stored))
    place = model.place(stored)
    if place:
        offset, _ = offset_and_length(place) or (0, None)
        facts |= {"file": place["location"], "offset": offset}
    return facts


def _quantisation(operators: Iterable[str], tensors: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the operators that compute with or convert to few bits, and the small types that weights are kept in."""
    named = sorted(name for name in operators if any(part in name for part in _QUANTISED))
    types = sorted({one["type"] for one in tensors if 0 < BITS.get(one["type"], 0) <= _FEW_BITS} - {"bool"})
    return {"operators": named, "types": types} if named else {}
