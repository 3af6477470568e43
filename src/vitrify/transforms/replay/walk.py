"""The walk over an ONNX graph, the same for every framework that replays it.

Source: ONNX IR, https://onnx.ai/onnx/repo-docs/IR.html; operators, https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OPSET = 21
"""The operator set that frameworks have to know: older models are brought to it first. Newer sets keep what its
operators mean and add to it: new element types, and operators of which most are functions of the old ones."""

_MAX_REASON = 300
_MAX_CONSTANT = 1 << 24
"""Elements of a constant that is computed on the way; a larger one is left to the framework."""

_NO_FOLDING = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


@dataclass(frozen=True)
class Node:
    """One node, its attributes as Python and NumPy values; a subgraph is a :class:`Body`.

    Attributes:
        kind: The operator's name.
        domain: Its domain; empty for ONNX's own.
        name: The node's.
        outputs: Names of its outputs; empty text for one that nobody wants.
        attributes: By name.
    """

    kind: str
    domain: str
    name: str
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or what ONNX says it is where it is not there."""
        return self.attributes.get(name, default)


Operator = Callable[..., Any]
"""Takes the node and its inputs, in order (None for one that was left out); a constant one is a NumPy array, any other
a value of the framework. Returns the output, or a tuple of them; each may be a NumPy array where it is constant."""


class Ops:
    """The operators of one framework."""

    def __init__(self, framework: str) -> None:
        """Start without any; ``framework`` is for messages."""
        self.framework = framework
        self._known: dict[tuple[str, str], Operator] = {}

    def op(self, *kinds: str, domain: str = "") -> Callable[[Operator], Operator]:
        """Register a function for operators."""

        def register(function: Operator) -> Operator:
            self._known.update({(domain, kind): function for kind in kinds})
            return function

        return register

    def of(self, node: Node) -> Operator | None:
        """Return the function for a node."""
        return self._known.get((node.domain, node.kind))

    def kinds(self) -> list[tuple[str, str]]:
        """Return what is known: domain and operator."""
        return sorted(self._known)


class Replay:
    """A model that can be walked through again and again, on the values of one framework."""

    def __init__(self, model: onnx.ModelProto, ops: Ops) -> None:
        """Make the model ready.

        Raises:
            UnsupportedModelError: It cannot be brought to the operator set, or has operators that the framework lacks;
                all are listed.
        """
        self.model = expanded(prepared(model), ops)
        self._ops = ops
        self._body = Body(self.model.graph, ops, {})
        if problems := missing(self.model, ops):
            msg = f"{len(problems)} operator(s) of this graph cannot be replayed on {ops.framework}"
            raise UnsupportedModelError(msg, problems=problems)

    @property
    def inputs(self) -> tuple[onnx.ValueInfoProto, ...]:
        """What the graph takes, without its constants."""
        held = {tensor.name for tensor in self.model.graph.initializer}
        return tuple(value for value in self.model.graph.input if value.name not in held)

    @property
    def constants(self) -> dict[str, np.ndarray[Any, Any]]:
        """The initialisers by name: the weights."""
        return dict(self._body.constants)

    def __call__(self, feeds: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """Return the outputs in order.

        Args:
            feeds: The framework's values by the graph's input names.
            weights: Values of the framework that stand for initialisers, by name; the others stay NumPy's.
        """
        return self._body.run({**feeds, **(weights or {})})


class Body:
    """A graph, the model's own or one inside a node; ``outer`` is what it sees of the graph around it."""

    def __init__(self, graph: onnx.GraphProto, ops: Ops, outer: Mapping[str, Any]) -> None:
        """Read the graph's constants and attributes once."""
        self.inputs = tuple(value.name for value in graph.input)
        self.outputs = tuple(value.name for value in graph.output)
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self._graph, self._ops, self._outer = graph, ops, outer

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Run it as a branch or a loop's body: one value an input, in order."""
        return self.run(dict(zip(self.inputs, values, strict=True)))

    def reads(self) -> frozenset[str]:
        """Return the names that it takes from the graph around it."""
        return frozenset(_free(self._graph))

    def run(self, feeds: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the outputs in order."""
        values: dict[str, Any] = {**self._outer, **self.constants, **feeds}
        for proto in self._graph.node:
            node = Node(
                proto.op_type,
                "" if proto.domain == "ai.onnx" else proto.domain,
                proto.name,
                tuple(proto.output),
                {attribute.name: self._attribute(attribute, values) for attribute in proto.attribute},
            )
            given = [values[name] if name else None for name in proto.input]
            answers = self._answers(node, proto, given)
            values.update((name, answer) for name, answer in zip(proto.output, answers, strict=False) if name)
        return tuple(values[name] for name in self.outputs)

    def _answers(self, node: Node, proto: onnx.NodeProto, given: list[Any]) -> tuple[Any, ...]:
        bodies = any(isinstance(value, Body) for value in node.attributes.values())
        if not bodies and node.kind not in _NO_FOLDING and all(_constant(value) for value in given):
            folded = _folded(proto, given)
            if folded is not None:
                return folded
        function = self._ops.of(node)
        if function is None:
            msg = f"{node.kind} ({node.name or 'without a name'}) cannot be replayed on {self._ops.framework}"
            raise UnsupportedModelError(msg, remedy="choose another target, or another operator in the source")
        answer = function(node, *given)
        return answer if isinstance(answer, tuple) else (answer,)

    def _attribute(self, attribute: onnx.AttributeProto, values: Mapping[str, Any]) -> Any:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            return numpy_helper.to_array(value)
        if isinstance(value, onnx.GraphProto):
            return Body(value, self._ops, values)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            return [text.decode() for text in value]
        return value


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its functions inlined, in the operator set or a newer one.

    Raises:
        UnsupportedModelError: It cannot be brought there.
    """
    from onnx import inliner, version_converter

    ready = inliner.inline_local_functions(model) if model.functions else model
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in ready.opset_import}
    if versions.get("", OPSET) >= OPSET:
        return ready
    try:
        return version_converter.convert_version(ready, OPSET)
    except Exception as error:
        msg = f"opset {versions['']} cannot be brought to {OPSET}: {str(error)[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy=f"write the ONNX model in opset {OPSET}") from error


def expanded(model: onnx.ModelProto, ops: Ops) -> onnx.ModelProto:
    """Return a prepared model whose operators that a framework lacks are the functions by which ONNX defines them."""
    from onnx import defs, inliner

    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    tried: set[tuple[str, str]] = set()
    while True:
        lacking = {
            (domain, kind)
            for domain, kind in _lacking(model, ops)
            if (domain, kind) not in tried and domain in versions and _is_function(defs, kind, domain, versions[domain])
        }
        if not lacking:
            return model
        tried |= lacking
        model = _with_defaults(model, lacking, versions)
        try:
            model = inliner.inline_selected_functions(model, sorted(lacking), inline_schema_functions=True)
        except Exception:  # noqa: BLE001 (a function that depends on types which nobody knows stays an operator)
            return model


def _with_defaults(model: onnx.ModelProto, kinds: set[tuple[str, str]], versions: Mapping[str, int]) -> onnx.ModelProto:
    """Write out the attributes that were left out: the functions of ONNX's own operators read them."""
    from onnx import defs

    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    for node in _nodes(filled.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) in kinds:
            given = {attribute.name for attribute in node.attribute}
            schema = defs.get_schema(node.op_type, versions[domain], domain)
            node.attribute.extend(
                attribute.default_value
                for name, attribute in sorted(schema.attributes.items())
                if name not in given and attribute.default_value.name
            )
    return filled


def _is_function(defs: Any, kind: str, domain: str, version: int) -> bool:
    try:
        schema = defs.get_schema(kind, version, domain)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def missing(model: onnx.ModelProto, ops: Ops) -> tuple[Finding, ...]:
    """List the operators of a prepared model that a framework has no function for."""
    return tuple(
        Finding(
            place=f"{domain}::{kind}" if domain else kind,
            message=f"{count} node(s), and it cannot be replayed on {ops.framework}",
            remedy="choose another target, or another operator in the source",
        )
        for (domain, kind), count in sorted(_lacking(model, ops).items())
    )


def _lacking(model: onnx.ModelProto, ops: Ops) -> Counter[tuple[str, str]]:
    kinds = (("" if node.domain == "ai.onnx" else node.domain, node.op_type) for node in _nodes(model.graph))
    return Counter(
        (domain, kind)
        for domain, kind in kinds
        if ops.of(Node(kind, domain, "", (), {})) is None and (domain, kind) != ("", "Constant")
    )


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _nodes(inner)


def _free(graph: onnx.GraphProto) -> set[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                read |= _free(inner)
    return read - own - {""}


def _constant(value: Any) -> bool:
    return value is None or isinstance(value, (np.ndarray, np.generic))


def _folded(proto: onnx.NodeProto, given: Iterable[Any]) -> tuple[Any, ...] | None:
    """Return what a node gives for constants, by ONNX's reference; None where that cannot tell."""
    from onnx.reference import ReferenceEvaluator

    values = [None if value is None else np.asarray(value) for value in given]
    if sum(value.size for value in values if value is not None) > _MAX_CONSTANT:
        return None
    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(proto, opsets={"": OPSET, "ai.onnx.ml": 5})
            feeds = {name: value for name, value in zip(proto.input, values, strict=True) if name}
            answers = evaluator.run(None, feeds)
    except Exception:  # noqa: BLE001 (then the framework computes it)
        return None
    plain = tuple(np.asarray(answer) if np.isscalar(answer) else answer for answer in answers)
    return plain if all(isinstance(answer, np.ndarray) for answer in plain) else None
