"""Triton's ``config.pbtxt``: what a model takes and gives, how it is batched, and whose bytes it is.

Source: https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.package._text_proto import Word, dump, map_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.core.signature import Field
    from vitrify.package._served import Tensor

_DELAY_US = 1000
TYPES = {
    "bool": "TYPE_BOOL",
    **{f"{sign}int{bits}": f"TYPE_{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"TYPE_FP{bits}" for bits in (16, 32, 64)},
    "string": "TYPE_STRING",
}
"""From the element types of graphs to Triton's."""


@dataclass(frozen=True)
class Port:
    """An input or output as Triton is told of it.

    Attributes:
        name: What clients call it.
        type: Triton's name of the element type.
        shape: With the batch; None where a size may change.
        labels: File of the class labels, in the order of the columns; empty for none.
        batch: Whether the first size is the batch's, so that rows can be added and taken away.
    """

    name: str
    type: str
    shape: tuple[int | None, ...]
    labels: str
    batch: bool


def of_field(field: Field, labels: str) -> Port:
    """Return the port of a field of a signature, for a model that Vitrify runs.

    What is no number travels as text. bfloat16 travels as float32, which holds it exactly, and is what sessions take.
    """
    kind = TYPES["float32"] if field.dtype == "bfloat16" else TYPES.get(field.dtype, TYPES["string"])
    shape = tuple(size if isinstance(size, int) else None for size in field.shape)
    return Port(field.name, kind, shape, labels, field.batched)


def of_tensor(tensor: Tensor, field: Field, labels: str) -> Port | None:
    """Return the port of a graph's tensor, for a model that a backend of Triton's runs; None where Triton lacks it.

    Args:
        tensor: In the graph.
        field: In the signature, which alone says whether a size that may change is the batch's.
        labels: File of the class labels; empty for none.
    """
    kind = TYPES.get(tensor.dtype)
    batch = field.batched and tensor.shape[:1] == (None,)
    return Port(tensor.name, kind, tensor.shape, labels, batch) if kind else None


@dataclass(frozen=True)
class Told:
    """What Triton is told of a model, all but its name and whose bytes it is.

    Attributes:
        format: The artifact's.
        backend: ``backend``, and what else chooses it: ``platform``, ``default_model_filename``.
        inputs: What goes in.
        outputs: What comes out.
        names: From the signature's names to those of the graph, where they differ.
    """

    format: str
    backend: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    names: dict[str, str]


def config(name: str, told: Told, digests: Mapping[int, str], *, rows: int, allow: Collection[str]) -> bytes:
    """Return the configuration of a model.

    Args:
        name: What the model is called.
        told: What it is.
        digests: Of the artifact behind each version.
        rows: Rows a batch at most; 1 where requests are not put together.
        allow: Exact names of code that a model which Vitrify runs may run.
    """
    batched = rows > 1 and all(port.batch for port in (*told.inputs, *told.outputs))
    says = {f"vitrify.digest.{number}": digest for number, digest in sorted(digests.items())}
    says["vitrify.format"] = told.format
    if told.names:
        says["vitrify.names"] = json.dumps(told.names, sort_keys=True)
    if told.backend["backend"] == "python":
        says["vitrify.allow"] = json.dumps(sorted(allow))
    inputs, outputs = ([_port(port, batched=batched) for port in side] for side in (told.inputs, told.outputs))
    message: dict[str, Any] = {"name": name, **told.backend, "max_batch_size": rows if batched else 0}
    message |= {"input": inputs, "output": outputs, "version_policy": {"all": {}}}
    if batched:
        message["dynamic_batching"] = {"max_queue_delay_microseconds": _DELAY_US}
    message["instance_group"] = [{"count": 1, "kind": Word("KIND_CPU")}]
    message["parameters"] = map_of({key: {"string_value": value} for key, value in says.items()})
    return dump(message)


def _port(port: Port, *, batched: bool) -> dict[str, Any]:
    """Return a port's message; Triton has no empty dimensions, so that one number a row is a vector of one there."""
    shape = port.shape[1:] if batched else port.shape
    said: dict[str, Any] = {"name": port.name, "data_type": Word(port.type)}
    said["dims"] = [-1 if size is None else size for size in shape] or [1]
    if not shape:
        said["reshape"] = {"shape": []}
    return {**said, "label_filename": port.labels} if port.labels else said
