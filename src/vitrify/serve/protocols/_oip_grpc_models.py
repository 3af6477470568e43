"""What the Open Inference Protocol tells of models: whether they are ready, what goes in and out, and their figures.

Source: Triton's ``extension_model_configuration.md`` and ``extension_statistics.md``; what this server does not know
is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._model_config import configuration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.serve.lanes import Figures, Histogram
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.protocols._messages import Unary
    from vitrify.serve.rpc import RpcCall

EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
_READY = "READY"
_NANOSECONDS = 1e9


def handlers(engine: Engine) -> dict[str, Unary]:
    """Return the handlers of the methods that only tell."""
    said = messages("inference")

    async def server_metadata(_request: Any, _call: RpcCall) -> Any:
        from importlib import metadata

        version = metadata.version("vitrify")
        return said.ServerMetadataResponse(name="vitrify", version=version, extensions=EXTENSIONS)

    async def model_ready(request: Any, _call: RpcCall) -> Any:
        try:
            served = engine.served(request.name, request.version)
        except ReferenceNotFoundError:
            return said.ModelReadyResponse(ready=False)
        return said.ModelReadyResponse(ready=served.state == _READY or served.lazy)

    async def model_metadata(request: Any, _call: RpcCall) -> Any:
        served = engine.served(request.name, request.version)
        found = said.ModelMetadataResponse(name=served.name, platform=served.platform)
        found.versions.extend([served.version] if request.version else _ready_versions(engine, served))
        for ports, tensors in ((served.inputs, found.inputs), (served.outputs, found.outputs)):
            for port in ports:
                tensors.add(name=port.name, datatype=port.datatype, shape=port.shape)
        return found

    async def model_config(request: Any, _call: RpcCall) -> Any:
        return said.ModelConfigResponse(config=_config(engine.served(request.name, request.version)))

    async def model_statistics(request: Any, _call: RpcCall) -> Any:
        found = said.ModelStatisticsResponse()
        for one in _asked(engine, request.name, request.version):
            found.model_stats.append(_statistics(one, engine.figures(one.name, one.version)))
        return found

    return {
        "ServerMetadata": server_metadata,
        "ModelReady": model_ready,
        "ModelMetadata": model_metadata,
        "ModelConfig": model_config,
        "ModelStatistics": model_statistics,
    }


def _ready_versions(engine: Engine, served: Served) -> list[str]:
    """Return the versions that answer, the one that was asked for in any case."""
    others = [one.version for one in engine.index() if one.name == served.name and one.state == _READY]
    return others if served.version in others else [*others, served.version]


def _asked(engine: Engine, name: str, version: str) -> Iterable[Served]:
    """Return a version, all versions of a model, or all that are ready."""
    if version:
        return (engine.served(name, version),)
    if name:
        engine.served(name)  # an unknown model is an error, not an empty answer
    return [one for one in engine.index() if one.name == name or (not name and one.state == _READY)]


def _config(served: Served) -> Any:
    """Return what Triton's tools want to know."""
    from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]

    return ParseDict(configuration(served), messages("inference").ModelConfig())


def _statistics(served: Served, figures: Figures) -> Any:
    found = messages("inference").ModelStatistics(
        name=served.name,
        version=served.version,
        last_inference=round(figures.last * 1000),  # milliseconds since 1970
        inference_count=figures.rows,
        execution_count=figures.batches,
    )
    stats = found.inference_stats
    stats.success.count = figures.ok
    stats.success.ns = round(figures.answered.total * _NANOSECONDS)
    stats.fail.count = sum(figures.failed.values())
    for duration, histogram in ((stats.queue, figures.queued), (stats.compute_infer, figures.computed)):
        _write(duration, histogram)
    return found


def _write(duration: Any, histogram: Histogram) -> None:
    duration.count, duration.ns = sum(histogram.counts), round(histogram.total * _NANOSECONDS)
