"""The graph of a Keras model: its layers, the tensors between them, and the models inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats._keras.facts import histories, inputs, shape_of, summary
from vitrify.formats._keras.saved import MODELS, class_of, inside, layers, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def draw(config: dict[str, Any]) -> Graph:
    """Return the graph of a model's configuration; a class of somebody's own that says no layers gives one node."""
    inner = inside(config)
    if isinstance(inner, dict) and "input_layers" in inner:
        return _functional(config, inner)
    return _chain(config)


def _chain(config: dict[str, Any]) -> Graph:
    given = inputs(config)
    names = [one["name"] for one in given] or [f"{name_of(config)}_input"]
    known = {one["name"]: Tensor(type=one["type"], shape=tuple(one["shape"])) for one in given if one["shape"]}
    nodes, last = [], tuple(names)
    for layer in layers(config):
        if class_of(layer) != "InputLayer":
            nodes.append(_node(layer, name_of(layer), last, (name_of(layer),)))
            last = (name_of(layer),)
    return Graph(name=name_of(config), inputs=tuple(names), outputs=last, nodes=tuple(nodes), tensors=known)


def _functional(config: dict[str, Any], inner: dict[str, Any]) -> Graph:
    listed = list(layers(config))
    used = [one for layer in listed for one in histories(layer.get("inbound_nodes", []))]
    results = tuple(histories(inner.get("output_layers", [])))
    given: dict[tuple[str, int], set[int]] = {}
    for name, at, number in (*used, *results):
        given.setdefault((name, at), {0}).add(number)
    nodes = []
    for layer in listed:
        if class_of(layer) != "InputLayer":
            calls = layer.get("inbound_nodes")
            for at, call in enumerate(calls if isinstance(calls, list) else ()):
                wanted = tuple(_tensor(*one) for one in histories(call))
                numbers = sorted(given.get((name_of(layer), at), {0}))
                made = tuple(_tensor(name_of(layer), at, number) for number in numbers)
                nodes.append(_node(layer, name_of(layer) if at == 0 else f"{name_of(layer)}:{at}", wanted, made))
    known = {one["name"]: Tensor(type=one["type"], shape=tuple(one["shape"])) for one in inputs(config) if one["shape"]}
    for name, tensor in _shapes([layer.get("inbound_nodes") for layer in listed]):
        known.setdefault(name, tensor)
    starts = tuple(_tensor(*one) for one in histories(inner["input_layers"]))
    ends = tuple(_tensor(*one) for one in results)
    return Graph(name=name_of(config), inputs=starts, outputs=ends, nodes=tuple(nodes), tensors=known)


def _node(layer: dict[str, Any], name: str, wanted: tuple[str, ...], made: tuple[str, ...]) -> Node:
    shown = {key: str(value) for key, value in summary(layer).items()}
    graphs = {"model": draw(layer)} if class_of(layer) in MODELS else {}
    return Node(operator=class_of(layer), name=name, inputs=wanted, outputs=made, attributes=shown, graphs=graphs)


def _tensor(name: str, at: int, number: int) -> str:
    """Return the name of an output of a call of a layer; nearly always the first of the first."""
    return f"{name}:{at}:{number}" if at or number else name


def _shapes(value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors whose shape the configuration has: Keras 3 writes it wherever one is taken."""
    if isinstance(value, dict):
        inner = inside(value)
        if class_of(value) == "__keras_tensor__" and isinstance(inner, dict):
            shape, kind = shape_of(inner.get("shape")), inner.get("dtype")
            known = Tensor(type=kind if isinstance(kind, str) else "", shape=None if shape is None else tuple(shape))
            for one in histories(value):
                yield _tensor(*one), known
        else:
            for part in value.values():
                yield from _shapes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _shapes(part)
