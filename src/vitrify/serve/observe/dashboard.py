"""What the live page shows, as one value: the page asks for it each second, and draws what has changed."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.html import styled
from vitrify.serve.lanes import BOUNDS, ROW_BOUNDS
from vitrify.serve.observe.metrics import figured, version
from vitrify.serve.observe.process import process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.serve.lanes import Figures, Histogram
    from vitrify.serve.models import Served
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.observe.observer import Observer

_EVENTS = 50
_MODELS = 500
"""Versions that the page shows; what goes beyond is counted."""


def data(
    engine: ServingEngine,
    observer: Observer,
    shares: Mapping[str, Mapping[str, float]],
    events: Iterable[Mapping[str, Any]],
) -> bytes:
    """Return what the page shows, as JSON.

    Args:
        engine: Its versions.
        observer: What it has seen.
        shares: The share of its model's requests that each version has, by model.
        events: What the rollout has decided, the newest last.
    """
    found = figured(engine)
    now = process()
    told = sorted([*events, *observer.changes], key=lambda event: event["time"])[-_EVENTS:]
    requests = [
        {"protocol": protocol, "route": route, "status": status, "count": count}
        for (protocol, route, status), count in sorted(observer.metrics.requests().items())
    ]
    return msgspec.json.encode(
        {
            "time": time.time(),
            "version": version(),
            "ready": engine.ready,
            "process": {
                "at": observer.process,
                "started": now.started,
                "cpu": now.cpu,
                "memory": now.memory,
                "files": now.files,
            },
            "bounds": {"seconds": BOUNDS, "rows": ROW_BOUNDS},
            "models": [_model(served, figures, shares) for served, figures in found[:_MODELS]],
            "left_out": max(0, len(found) - _MODELS),
            "requests": requests,
            "events": told,
            "errors": list(observer.errors),
        }
    )


def _model(served: Served, figures: Figures, shares: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        "model": served.name,
        "version": served.version,
        "digest": served.digest,
        "platform": served.platform,
        "state": "LAZY" if served.lazy and served.state != "READY" else served.state,
        "reason": served.reason,
        "since": served.since,
        "size": served.size,
        "batching": {"rows": served.batching.rows, "queue": served.batching.queue},
        "share": shares.get(served.name, {}).get(served.version, 0.0),
        "ok": figures.ok,
        "failed": figures.failed,
        "waiting": figures.waiting,
        "running": figures.running,
        "stuck": figures.stuck,
        "rows": figures.rows,
        "batches": figures.batches,
        "answered": _histogram(figures.answered),
        "queued": _histogram(figures.queued),
        "computed": _histogram(figures.computed),
        "batch_rows": _histogram(figures.batch_rows),
    }


def _histogram(histogram: Histogram) -> dict[str, Any]:
    return {"counts": histogram.counts, "total": histogram.total}


def page() -> str:
    """Return the page, with its style and its script in it."""
    return styled(files("vitrify.serve.observe").joinpath("dashboard.html").read_text("utf-8"))
