"""Triton's statistics and model configuration over REST.

Counts are of this process, since it started. Times of reading and writing tensors are not told apart from the model's:
they are 0 here, and in the metrics by stage.

Source: ``docs/protocol/extension_statistics.md`` and ``extension_model_configuration.md`` of
https://github.com/triton-inference-server/server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.serve.protocols import _json
from vitrify.serve.protocols._asking import versions
from vitrify.serve.protocols._described import DescribedRoute, an_array, an_object
from vitrify.serve.protocols._model_config import configuration

if TYPE_CHECKING:
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.web import Answer, Call, Endpoint, Route

_NANOSECONDS = 1e9
_MILLISECONDS = 1e3
_STATISTICS = an_object({"model_stats": an_array({"type": "object"})}, "model_stats")
_CONFIGURATION = an_object(
    {"name": {"type": "string"}, "platform": {"type": "string"}, "max_batch_size": {"type": "integer"}},
    *("name", "platform", "max_batch_size", "input", "output"),
)


def statistics_routes(engine: Engine) -> tuple[Route, ...]:
    """Return the extensions' routes."""
    told = _Told(engine)
    model, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    stats = ("/v2/models/stats", f"{model}/stats", f"{version}/stats")
    return (
        *(_route(path, told.statistics, "What the models have done.", _STATISTICS) for path in stats),
        *(
            _route(f"{path}/config", told.configuration, "How the model is served.", _CONFIGURATION)
            for path in (model, version)
        ),
    )


def _route(pattern: str, endpoint: Endpoint, summary: str, gives: dict[str, Any]) -> Route:
    label = "stats" if pattern.endswith("stats") else "config"
    return DescribedRoute(
        *("GET", pattern, endpoint, label, _json.error_answer), summary=summary, gives={_json.JSON: gives}
    )


@dataclass(frozen=True)
class _Told:
    engine: Engine

    async def statistics(self, call: Call) -> Answer:
        """Tell what one version, all of a model, or all models have done."""
        model, version = call.fields.get("model"), call.fields.get("version")
        if model and version:
            chosen: tuple[Served, ...] = (self.engine.served(model, version),)
        else:
            chosen = versions(self.engine, model)[::-1] if model else self.engine.index()
        return _json.answer({"model_stats": [statistics(self.engine, one) for one in chosen]})

    async def configuration(self, call: Call) -> Answer:
        """Tell how a model is served."""
        served = self.engine.served(call.fields["model"], call.fields.get("version", ""))
        return _json.answer(configuration(served))


def statistics(engine: Engine, served: Served) -> dict[str, Any]:
    """Return what one version has done, as ``ModelStatistics`` is in JSON."""
    figures = engine.figures(served.name, served.version)
    failed = sum(figures.failed.values())
    computed = _duration(figures.batches, figures.computed.total)
    return {
        "name": served.name,
        "version": served.version,
        "last_inference": round(figures.last * _MILLISECONDS),
        "inference_count": figures.rows,
        "execution_count": figures.batches,
        "inference_stats": {
            "success": _duration(figures.ok, figures.answered.total),
            "fail": _duration(failed, 0.0),
            "queue": _duration(figures.ok, figures.queued.total),
            "compute_input": _duration(figures.batches, 0.0),
            "compute_infer": computed,
            "compute_output": _duration(figures.batches, 0.0),
            "cache_hit": _duration(0, 0.0),
            "cache_miss": _duration(0, 0.0),
        },
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": round(seconds * _NANOSECONDS)}
