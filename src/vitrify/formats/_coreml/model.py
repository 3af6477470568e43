"""A Core ML model, walked: the models of a pipeline, the layers of a network, the operations of a program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.formats._protos.coreml import BITS, KINDS, LAYERS, SCHEMA, TYPES, WEIGHTS
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.protobuf import peek

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DEPTH = 100
MAX_MODELS = 1000
MAX_RANK = 64
MAX_ELEMENTS = 2**62
CONSTANT = "const"

_FIELDS = frozenset({1, 2, 10}) | frozenset(KINDS.values())
_VERSIONS = range(1, 1000)


class Step(NamedTuple):
    """A layer or an operation, what it is, and where it stands."""

    place: str
    operator: str
    message: Any


class Stored(NamedTuple):
    """A weight: its name, element type, shape and bytes, and where it lies if that is another file."""

    name: str
    type: str
    shape: tuple[int, ...]
    size: int
    place: str
    file: str = ""
    offset: int = 0


class Model:
    """A model file, as it is looked at."""

    def __init__(self, view: memoryview, where: str) -> None:
        """Parse its skeleton.

        Raises:
            MalformedError: It is no Core ML model.
            LimitExceededError: It is larger or deeper than what is read from a stranger.
        """
        self.where = where
        self.document = SCHEMA.parse(view, "Model", where=where)
        self.root = self.document.root
        if not self.root.HasField("description") or not kind(self.root):
            refuse(where, "not a Core ML model (no description, or no kind of model that is known)")

    def models(self) -> Iterator[tuple[str, Any]]:
        """Yield the model and those of the pipelines in it, each with its place.

        Raises:
            LimitExceededError: Pipelines are nested deeper than in an honest model.
        """
        yield from self._models("model", self.root, MAX_DEPTH)

    def _models(self, place: str, model: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if depth == 0:
            exceed(self.where, f"pipelines nested more than {MAX_DEPTH} levels deep")
        yield place, model
        for name, inner in self.pipeline(model):
            yield from self._models(f"{place}, {name}", inner, depth - 1)

    def pipeline(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Yield the models of a pipeline by name; none where it is of another kind."""
        held = getattr(model, kind(model)) if kind(model).startswith("pipeline") else None
        if held is None:
            return
        inner = held if kind(model) == "pipeline" else held.pipeline
        for index, one in enumerate(self.document.each(inner, "models", most=MAX_MODELS)):
            yield inner.names[index] if index < len(inner.names) else f"model {index}", one

    def steps(self) -> Iterator[Step]:
        """Yield every layer and operation, wherever it stands."""
        for place, model in self.models():
            if kind(model).startswith("neuralNetwork"):
                yield from self.layers(getattr(model, kind(model)), place)
            for name, block in self.blocks(model):
                yield from self.operations(block, f"{place}, function {name!r}")

    def layers(self, network: Any, place: str, depth: int = MAX_DEPTH) -> Iterator[Step]:
        """Yield the layers of a network, and those of its branches and loops."""
        if depth == 0:
            exceed(self.where, f"networks nested more than {MAX_DEPTH} levels deep")
        for layer in self.document.each(network, "layers"):
            step = Step(place, layer_kind(layer), layer)
            yield step
            for name, inner in inner_networks(layer):
                yield from self.layers(inner, f"{place}, layer {layer.name!r}, {name}", depth - 1)

    def blocks(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Yield each function's blocks; none where the model is no program."""
        if kind(model) != "mlProgram":
            return
        for pair in self.document.each(model.mlProgram, "functions"):
            for one in self.document.each(pair.value, "block_specializations"):
                yield pair.key, one.value

    def operations(self, block: Any, place: str, depth: int = MAX_DEPTH) -> Iterator[Step]:
        """Yield the operations of a block, and those of the blocks inside them."""
        if depth == 0:
            exceed(self.where, f"blocks nested more than {MAX_DEPTH} levels deep")
        for operation in self.document.each(block, "operations"):
            yield Step(place, operation.type, operation)
            for inner in self.document.each(operation, "blocks"):
                yield from self.operations(inner, f"{place}, {operation.type}", depth - 1)

    def stored(self, step: Step) -> Iterator[Stored]:
        """Yield the weights of a layer or an operation; values that are too small to lie in a file are none.

        Raises:
            MalformedError: A weight is not what it should be.
        """
        if step.message.DESCRIPTOR.name == "Layer":
            yield from self._weights(step)
            return
        names = [named.name for named in self.document.each(step.message, "outputs")]
        for pair in self.document.each(step.message, "attributes"):
            if pair.value.HasField("blobFileValue"):
                yield self._blob(step, names[0] if names else pair.key, pair.value)
        for pair in self.document.each(step.message, "inputs"):
            for binding in self.document.each(pair.value, "arguments"):
                if binding.value.HasField("blobFileValue"):
                    yield self._blob(step, f"{names[0] if names else step.operator}.{pair.key}", binding.value)

    def _weights(self, step: Step) -> Iterator[Stored]:
        fields = WEIGHTS.get(step.operator)
        found = peek(self.document.whole(getattr(step.message, step.operator))) if fields else None
        for name, number in (fields or {}).items():
            if not isinstance(view := (found or {}).get(number), memoryview):
                continue
            weights = SCHEMA.parse(view, "Weights", where=f"{self.where}: {step.place}, layer {step.message.name!r}")
            for field, bits in (("floatValue", 32), ("float16Value", 16), ("int8RawValue", 8), ("rawValue", 0)):
                size = weights.size(getattr(weights.root, field))
                bits = bits or max(1, weights.root.quantization.numberOfBits)  # noqa: PLW2901 (0 says: as quantised)
                if size:
                    kinds = {32: "float32", 16: "float16"}
                    yield Stored(
                        f"{step.message.name}.{name}",
                        kinds.get(bits, f"uint{bits}"),
                        (size * 8 // bits,),
                        size,
                        step.place,
                    )

    def _blob(self, step: Step, name: str, value: Any) -> Stored:
        place = f"{step.place}, {step.operator} {name!r}"
        element, sizes = self.type(value.type)
        plain = tuple(size for size in sizes or () if isinstance(size, int))
        if len(plain) < len(sizes or ()) or len(plain) > MAX_RANK or math.prod(plain) > MAX_ELEMENTS:
            refuse(self.where, f"{place}: is said to be of shape {sizes}")
        size = -(-math.prod(plain) * BITS.get(element, 0) // 8)
        file = value.blobFileValue
        return Stored(name, element, plain, size, place, file.fileName, file.offset)

    def type(self, message: Any) -> tuple[str, list[int | str | None] | None]:
        """Return the element type and the shape of a value of a program."""
        if message.HasField("stateType"):
            message = message.stateType.wrappedType
        if not message.HasField("tensorType"):
            return "", None
        held = message.tensorType
        if len(held.dimensions) > MAX_RANK:
            exceed(self.where, f"a shape of {len(held.dimensions)} dimensions")
        sizes = [
            one.constant.size if one.HasField("constant") else None for one in self.document.each(held, "dimensions")
        ]
        return TYPES.get(held.dataType, str(held.dataType)), sizes


def kind(model: Any) -> str:
    """Return what a model is; empty text for what is not known.

    Raises:
        MalformedError: It is two things at once: readers would differ in which they take.
    """
    return _one(model, KINDS)


def layer_kind(layer: Any) -> str:
    """Return what a layer is; empty text for what is not known.

    Raises:
        MalformedError: It is two things at once.
    """
    return _one(layer, LAYERS)


def _one(message: Any, names: Mapping[str, int]) -> str:
    found = [field.name for field, _ in message.ListFields() if field.name in names]
    if len(found) > 1:
        refuse("a Core ML model", f"a part of it is {' and '.join(found)} at once")
    return found[0] if found else ""


def inner_networks(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the networks inside a layer by name."""
    for field, names in (("branch", ("ifBranch", "elseBranch")), ("loop", ("conditionNetwork", "bodyNetwork"))):
        if layer.HasField(field):
            held = getattr(layer, field)
            yield from ((name, getattr(held, name)) for name in names if held.HasField(name))


def is_model(view: memoryview) -> bool:
    """Say whether bytes begin and end as a Core ML model does."""
    found = peek(view)
    if not found or not set(found) <= _FIELDS or not isinstance(found.get(2), memoryview):
        return False
    version = found.get(1)
    return isinstance(version, int) and version in _VERSIONS and any(number in found for number in KINDS.values())
