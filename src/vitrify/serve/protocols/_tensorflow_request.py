"""What TensorFlow Serving is asked: ``instances`` by rows, ``inputs`` by columns, ``examples`` by features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, SignatureError
from vitrify.serve.protocols import _json
from vitrify.serve.protocols._tensorflow_json import from_values, tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port
    from vitrify.serve.protocols._json import Raw


MOST_VALUES = 10_000_000
"""Of all features in all examples, whether they are given or not."""
MOST_CONTEXT = 64 * 1024 * 1024
"""Bytes: the context counts once for each example."""


def inputs_of(body: Mapping[str, Raw], served: Served) -> tuple[bool, Arrays]:
    """Return whether a request is by rows, and its inputs.

    Raises:
        MalformedError: It is by both, or by neither.
        SignatureError: Values do not fit the signature.
    """
    if ("instances" in body) == ("inputs" in body):
        found = "both instances and inputs" if "inputs" in body else "neither instances nor inputs"
        msg = f"the body has {found}; expected one of them"
        raise MalformedError(msg)
    if "inputs" in body:
        return False, _by_columns(bytes(body["inputs"]).strip(), served)
    return True, _by_rows(bytes(body["instances"]).strip(), served)


def examples_of(body: Mapping[str, Raw], served: Served) -> Arrays:
    """Return the inputs of a classify or regress: features by name, from each example or else from the context.

    Raises:
        MalformedError: There are no examples.
        LimitExceededError: There are too many examples, or too much context for so many.
        SignatureError: A feature does not fit the input that it is named after.
    """
    if "examples" not in body:
        msg = "the body has no examples: an array of objects of features by name"
        raise MalformedError(msg)
    context_text = bytes(body["context"]) if "context" in body else b"{}"
    context = _json.plain(context_text, "context", dict[str, Any])
    examples = _json.plain(body["examples"], "examples", list[dict[str, Any]])
    if not examples:
        msg = "examples: none; expected one at least"
        raise SignatureError(msg)
    if context and len(examples) * len(context_text) > MOST_CONTEXT:
        msg = f"context: {len(context_text)} bytes for each of {len(examples)} examples, more than {MOST_CONTEXT}"
        raise LimitExceededError(msg, remedy="send fewer examples at a time")
    if len(examples) * len(served.inputs) > MOST_VALUES:
        msg = f"examples: {len(examples)} of {len(served.inputs)} features, more than {MOST_VALUES} values"
        raise LimitExceededError(msg, remedy="send fewer examples at a time")
    known = {port.name for port in served.inputs}
    for where, features in (("context", context), *((f"examples[{i}]", one) for i, one in enumerate(examples))):
        if unknown := features.keys() - known:
            msg = f"{where}: no input is called {min(unknown)[:100]!r} (there are: {_listed(known)})"
            raise SignatureError(msg)
    return {
        port.name: from_values(
            [_feature(example.get(port.name, context.get(port.name)), port) for example in examples],
            port,
            f"examples: {port.name}",
            gaps=_gaps(port, served),
        )
        for port in served.inputs
        if port.name in context or any(port.name in example for example in examples)
    }


def _feature(value: Any, port: Port) -> Any:
    """A feature is a list of values, or one; a column takes one."""
    if len(port.shape) == 1 and isinstance(value, list) and len(value) == 1:
        return value[0]
    if len(port.shape) > 1 and not isinstance(value, list) and value is not None:
        return [value]
    return value


def _by_columns(text: bytes, served: Served) -> Arrays:
    if _is_named(text):
        named = _json.members(text, "inputs")
        ports = _ports(named, "inputs", served)
        return {
            name: tensor(value, ports[name], f"inputs.{name[:100]}", gaps=_gaps(ports[name], served))
            for name, value in named.items()
        }
    port = _only(served, "inputs")
    return {port.name: tensor(text, port, "inputs", gaps=_gaps(port, served))}


def _by_rows(text: bytes, served: Served) -> Arrays:
    if not text.startswith(b"["):
        msg = "instances: expected an array, one element a row"
        raise MalformedError(msg)
    if _is_named(text[1:].lstrip()):
        return _by_name(_json.plain(text, "instances", list[dict[str, Any]]), served)
    if len(served.inputs) > 1:
        return _by_position(_json.plain(text, "instances", list[list[Any]]), served)
    port = _only(served, "instances")
    return {port.name: tensor(text, port, "instances", gaps=_gaps(port, served))}


def _by_name(instances: Sequence[Mapping[str, Any]], served: Served) -> Arrays:
    names = instances[0].keys()
    for index, instance in enumerate(instances):
        if instance.keys() != names:
            different = min(instance.keys() ^ names)
            msg = f"instances[{index}]: {different[:100]!r} is in some instances and not in others"
            raise SignatureError(msg, remedy="give every instance the same names; null where a value is missing")
    ports = _ports(names, "instances[0]", served)
    return {
        name: from_values(
            [instance[name] for instance in instances],
            ports[name],
            f"instances: {name[:100]}",
            gaps=_gaps(ports[name], served),
        )
        for name in names
    }


def _by_position(instances: Sequence[Sequence[Any]], served: Served) -> Arrays:
    ports = served.inputs
    if any(len(port.shape) != 1 for port in ports):
        msg = f"instances: arrays, but the model has {len(ports)} inputs: {_listed(port.name for port in ports)}"
        raise SignatureError(msg, remedy="give an object of inputs by name for each instance")
    for index, instance in enumerate(instances):
        if len(instance) != len(ports):
            msg = f"instances[{index}]: {len(instance)} values, expected {len(ports)}, one a column"
            raise SignatureError(msg, remedy=f"in this order: {_listed(port.name for port in ports)}")
    return {
        port.name: from_values(
            [instance[index] for instance in instances],
            port,
            f"instances: {port.name}",
            gaps=_gaps(port, served),
        )
        for index, port in enumerate(ports)
    }


def _is_named(text: bytes) -> bool:
    """Say whether JSON begins an object that is more than encoded bytes."""
    return text.startswith(b"{") and not text[1:64].lstrip().startswith(b'"b64"')


def _only(served: Served, where: str) -> Port:
    if len(served.inputs) == 1:
        return served.inputs[0]
    names = _listed(port.name for port in served.inputs)
    msg = f"{where}: a value without a name, but the model has {len(served.inputs)} inputs: {names}"
    raise SignatureError(msg, remedy="give an object of inputs by name")


def _ports(names: Iterable[str], where: str, served: Served) -> dict[str, Port]:
    ports = {port.name: port for port in served.inputs}
    for name in names:
        if name not in ports:
            msg = f"{where}: no input is called {name[:100]!r} (there are: {_listed(ports)})"
            raise SignatureError(msg)
    return ports


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:20])


def _gaps(port: Port, served: Served) -> bool:
    return port.field.nullable or served.signature.is_table
