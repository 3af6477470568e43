"""What a Core ML model says about itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.formats import _facts
from vitrify.formats._coreml.model import kind
from vitrify.formats._protos.coreml import ARRAYS, BITS, COLOURS
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._coreml.model import Model

MAX_LISTED = 100_000
MAX_PORTS = 10_000
MAX_RANK = 64

_FEW_BITS = 8
_QUANTISED = ("quantize", "constexpr_lut", "constexpr_affine", "constexpr_blockwise")


def describe(model: Model) -> dict[str, Any]:
    """Return the facts, as :mod:`vitrify.formats` names them.

    Raises:
        MalformedError: A part of the model is not what it should be.
        LimitExceededError: It has more parts than an honest model.
    """
    operators: Counter[str] = Counter()
    tensors: list[dict[str, Any]] = []
    for step in model.steps():
        operators[step.operator or "unknown"] += 1
        for one in model.stored(step):
            facts = _facts.tensor(one.name, one.type, one.shape, one.size)
            tensors.append(facts | ({"file": one.file, "offset": one.offset} if one.file else {}))
        if len(tensors) > MAX_LISTED or len(operators) > MAX_LISTED:
            exceed(model.where, f"more than {MAX_LISTED} weights or kinds of operators")
    meta = model.root.description.metadata
    metadata = {pair.key: pair.value for pair in model.document.each(meta, "userDefined")}
    small = sorted({one["type"] for one in tensors if BITS.get(one["type"], 1) <= _FEW_BITS})
    named = sorted(name for name in operators if any(part in name for part in _QUANTISED))
    custom = sorted(_customs(model))
    tools = metadata.get("com.github.apple.coremltools.version", "")
    facts = {
        "producer": f"coremltools {tools}" if tools else "",
        "versions": {"specification": model.root.specificationVersion, **_opsets(model)},
        "kind": kind(model.root),
        "inputs": list(ports(model, "input")),
        "outputs": list(ports(model, "output")),
        **_facts.weights(tensors),
        "operators": dict(sorted(operators.items())),
        "quantisation": {"operators": named, "types": small} if named or small else {},
        "license": meta.license,
        "metadata": metadata,
        "needs": ["Core ML", *(f"the class {name!r}, linked into the app" for name in custom)],
    }
    optional = {
        "author": meta.author,
        "description": meta.shortDescription,
        "version": meta.versionString,
        "classes": _classes(model),
        "models": [kind(inner) for _, inner in model.models()][1:],
        "updatable": model.root.isUpdatable,
        "source": metadata.get("com.github.apple.coremltools.source", ""),
    }
    return {key: value for key, value in facts.items() if value != ""} | {
        key: value for key, value in optional.items() if value
    }


def _customs(model: Model) -> Iterator[str]:
    for _, inner in model.models():
        if kind(inner) == "customModel":
            yield inner.customModel.className
    for step in model.steps():
        if step.operator == "custom":
            yield step.message.custom.className


def _opsets(model: Model) -> dict[str, int | str]:
    if kind(model.root) != "mlProgram":
        return {}
    functions = {pair.key: pair.value.opset for pair in model.document.each(model.root.mlProgram, "functions")}
    return {"program": model.root.mlProgram.version, **{f"opset of {name}": opset for name, opset in functions.items()}}


def _classes(model: Model) -> list[str | int]:
    held = getattr(model.root, kind(model.root))
    for field in ("stringClassLabels", "int64ClassLabels"):
        if kind(model.root).endswith("Classifier") and hasattr(held, field) and held.HasField(field):
            return list(getattr(held, field).vector[:MAX_LISTED])
    return []


def ports(model: Model, field: str) -> Iterator[dict[str, Any]]:
    """Yield the inputs or outputs."""
    for feature in model.document.each(model.root.description, field, most=MAX_PORTS):
        yield _facts.port(feature.name, *feature_type(feature.type))


def feature_type(message: Any) -> tuple[str, list[int | str | None] | None]:
    """Return the type and the shape of an input or output."""
    if message.HasField("stateType") or message.HasField("multiArrayType"):
        array = message.stateType.arrayType if message.HasField("stateType") else message.multiArrayType
        return ARRAYS.get(array.dataType, str(array.dataType)), list(array.shape[:MAX_RANK]) or None  # none is scalar
    if message.HasField("imageType"):
        image = message.imageType
        return f"image {COLOURS.get(image.colorSpace, image.colorSpace)}", [image.height, image.width]
    names = ("int64", "double", "string", "dictionary", "sequence")
    return next((name for name in names if message.HasField(f"{name}Type")), ""), None
