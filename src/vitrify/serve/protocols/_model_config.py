"""How a version is served, as Triton's ``ModelConfig`` is in JSON; over gRPC the message is made of it.

An ensemble has its steps as Triton has them: each with the names of the tensors that it takes and gives, where a
tensor is called as the ensemble's own input or output, and ``STEP.OUTPUT`` between its steps. The parameter ``config``
is the same as the repository API takes it, to load it again.

Source: ``docs/protocol/extension_model_configuration.md`` of https://github.com/triton-inference-server/server, and
``protobuf/model_config.proto`` of https://github.com/triton-inference-server/common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.serve.models._graph import REQUEST
from vitrify.serve.ports import BYTES

if TYPE_CHECKING:
    from vitrify.serve.models import Served
    from vitrify.serve.models._graph import Graph, Source, Step
    from vitrify.serve.ports import Port


def configuration(served: Served) -> dict[str, Any]:
    """Return how a version is served; sizes are without the batch where requests are put together."""
    batched = served.signature.batched and served.batching.rows > 1
    told = {"version": served.version, "digest": served.digest, "reference": served.reference}
    found: dict[str, Any] = {
        "name": served.name,
        "platform": served.platform,
        "backend": served.platform.rpartition("_")[2],
        "version_policy": {"specific": {"versions": [served.number]}},
        "max_batch_size": served.batching.rows if batched else 0,
        "input": [
            _port(port, batched=batched) | ({"allow_ragged_batch": True} if port.name in served.batching.pad else {})
            for port in served.inputs
        ],
        "output": [_port(port, batched=batched) for port in served.outputs],
        "instance_group": [{"name": served.name, "kind": "KIND_CPU", "count": served.batching.instances}],
    }
    if batched:
        found["dynamic_batching"] = {
            "max_queue_delay_microseconds": served.batching.delay_us,
            "default_queue_policy": {"max_queue_size": served.batching.queue},
        }
    if served.graph is not None:
        found["ensemble_scheduling"] = {"step": _steps(served.graph)}
        told["config"] = msgspec.json.encode(served.graph.settings).decode()
    return found | {"parameters": {name: {"string_value": value} for name, value in told.items()}}


def _port(port: Port, *, batched: bool) -> dict[str, Any]:
    kind = "TYPE_STRING" if port.datatype == BYTES else f"TYPE_{port.datatype}"
    dims = port.shape[1:] if batched and port.field.batched else port.shape
    return {"name": port.name, "data_type": kind, "dims": list(dims)}


def _steps(graph: Graph) -> list[dict[str, Any]]:
    taken = {field.name for field in graph.signature.inputs}
    # Of two names for one tensor the first counts; one that an input has already would mean two tensors.
    own = {source: name for name, source in reversed(tuple(graph.outputs.items())) if name not in taken}

    def tensor(source: Source) -> str:
        return source[1] if source[0] == REQUEST else own.get(source, ".".join(source))

    def said(name: str, step: Step) -> dict[str, Any]:
        return {
            "model_name": step.model,
            "model_version": step.number,
            "input_map": {field: tensor(source) for field, source in step.sources.items()},
            "output_map": {output: tensor((name, output)) for output in step.outputs},
        }

    return [said(name, step) for name, step in graph.steps.items()]
