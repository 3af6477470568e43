"""Figures of a server: of each version by its lane, of each route by what was answered, and of the process.

What the native plane answers itself never reaches Python: the plane counts it, and it is added when it is asked for.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.lanes import BOUNDS, ROW_BOUNDS, Histogram
from vitrify.serve.models import State
from vitrify.serve.observe.exposition import Family, written
from vitrify.serve.observe.process import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.serve.lanes import Figures
    from vitrify.serve.models import Served
    from vitrify.serve.models.engine import ServingEngine

    Counts = Mapping[str, tuple[str, Callable[[], int]]]


@dataclass(frozen=True)
class CountedRoute:
    """What a plane itself has answered of one route.

    Attributes:
        protocol: ``rest`` or ``grpc``.
        route: As the dispatcher calls it.
        statuses: How many, by their status.
        seconds: How long they took.
    """

    protocol: str
    route: str
    statuses: dict[int, int]
    seconds: Histogram


@dataclass(frozen=True)
class Counted:
    """What a plane itself has answered.

    Attributes:
        routes: By route.
        received: Bytes of bodies that came.
        sent: Bytes of bodies that went.
        traces_dropped: Traced requests of which nothing could be told.
    """

    routes: tuple[CountedRoute, ...] = ()
    received: int = 0
    sent: int = 0
    traces_dropped: int = 0


class Metrics:
    """Counts what was answered, and gathers everything else when it is asked for. It may be used from any thread.

    Args:
        name: Of the plane.
        at: Which of several processes this is; empty for the only one.
        counts: Counters of others: by name, what they count, and what asks them.
        counted: Asks the plane what it has answered itself.
    """

    def __init__(
        self, name: str, at: str = "", counts: Counts | None = None, counted: Callable[[], Counted] = Counted
    ) -> None:
        """Count from zero."""
        self._plane, self._at = name, at
        self._counted = counted
        self._counts = counts or {}
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[tuple[str, str], Histogram] = {}
        self._received = self._sent = 0
        self._loads: dict[tuple[str, str], tuple[int, float]] = {}

    def seen(self, protocol: str, route: str, status: int, seconds: float, *, received: int, sent: int) -> None:
        """Count a call that has ended."""
        with self._lock:
            self._requests[protocol, route, status] += 1
            histogram = self._seconds.setdefault((protocol, route), Histogram([0] * (len(BOUNDS) + 1)))
            histogram.counts[bisect_left(BOUNDS, seconds)] += 1
            histogram.total += seconds
            self._received += received
            self._sent += sent

    def loaded(self, versions: Iterable[Served]) -> None:
        """Look which versions were loaded since the last time."""
        with self._lock:
            for served in versions:
                count, since = self._loads.get((served.name, served.version), (0, 0.0))
                if served.state == "READY" and served.since != since:
                    self._loads[served.name, served.version] = (count + 1, served.since)

    def requests(self) -> dict[tuple[str, str, int], int]:
        """Return how many calls were answered, by protocol, route and status."""
        with self._lock:
            requests = self._requests.copy()
        for one in self._counted().routes:
            requests.update({(one.protocol, one.route, status): count for status, count in one.statuses.items()})
        return dict(requests)

    def text(
        self,
        engine: ServingEngine,
        shares: Callable[[str], Mapping[str, float]] = lambda _model: {},
        *,
        openmetrics: bool = False,
    ) -> str:
        """Return everything as text.

        Args:
            engine: Its versions.
            shares: The share of a model's requests that each of its versions has.
            openmetrics: In OpenMetrics' format.
        """
        families = [*_models(figured(engine), shares), *self._loaded(), *self._calls(), *self._others()]
        families += [*process().families(), self._build()]
        return written(families, openmetrics=openmetrics, common={"process": self._at} if self._at else {})

    def _calls(self) -> list[Family]:
        requests = Family("vitrify_requests", "counter", "Calls that were answered, by their status.")
        seconds = Family("vitrify_request_seconds", "histogram", "Seconds from a call's body to the end of its answer.")
        for (protocol, route, status), count in sorted(self.requests().items()):
            requests.add(count, protocol=protocol, route=route, status=str(status))
        counted = self._counted()
        histograms = {(one.protocol, one.route): one.seconds for one in counted.routes}
        with self._lock:
            for key, own in self._seconds.items():
                histograms[key] = _sum(own, histograms[key]) if key in histograms else own
            for (protocol, route), histogram in sorted(histograms.items()):
                seconds.count(BOUNDS, histogram, protocol=protocol, route=route)
            came, went = self._received + counted.received, self._sent + counted.sent
        received = Family("vitrify_received_bytes", "counter", "Bytes of bodies that came.").add(came)
        sent = Family("vitrify_sent_bytes", "counter", "Bytes of bodies that went.").add(went)
        return [requests, seconds, received, sent]

    def _loaded(self) -> list[Family]:
        loads = Family("vitrify_model_loads", "counter", "How often a version became ready.")
        with self._lock:
            for (model, version), (count, _) in sorted(self._loads.items()):
                loads.add(count, model=model, version=version)
        return [loads]

    def _others(self) -> list[Family]:
        return [Family(name, "counter", what).add(ask()) for name, (what, ask) in self._counts.items()]

    def _build(self) -> Family:
        family = Family("vitrify_build_info", "gauge", "What serves; always 1.")
        return family.add(1, version=version(), python=".".join(map(str, sys.version_info[:3])), plane=self._plane)


def _sum(one: Histogram, other: Histogram) -> Histogram:
    return Histogram([sum(pair) for pair in zip(one.counts, other.counts, strict=True)], one.total + other.total)


def version() -> str:
    """Return the version of Vitrify."""
    from importlib import metadata  # no server needs it to start

    return metadata.version("vitrify")


def figured(engine: ServingEngine) -> list[tuple[Served, Figures]]:
    """Return every version that is there, with its figures."""
    found = []
    for served in engine.index():
        try:
            found.append((served, engine.figures(served.name, served.version)))
        except ReferenceNotFoundError:  # it went between the two
            continue
    return found


def _models(versions: list[tuple[Served, Figures]], shares: Callable[[str], Mapping[str, float]]) -> list[Family]:
    info = Family("vitrify_model_info", "gauge", "A version that is served, or was; always 1.")
    state = Family("vitrify_model_state", "gauge", "1 for the state that a version is in.")
    size = Family("vitrify_model_size_bytes", "gauge", "Bytes of a version's files.")
    share = Family("vitrify_model_share", "gauge", "The share of a model's requests that a version is given.")
    for served, _ in versions:
        named = {"model": served.name, "version": served.version}
        info.add(1, **named, digest=served.digest, platform=served.platform)
        size.add(served.size, **named)
        for one in get_args(State):
            state.add(int(one == served.state), **named, state=one)
    for model in dict.fromkeys(served.name for served, _ in versions):
        for one, fraction in shares(model).items():
            share.add(fraction, model=model, version=one)
    return [info, state, size, share, *_figures(versions)]


def _figures(versions: list[tuple[Served, Figures]]) -> list[Family]:
    requests = Family("vitrify_model_requests", "counter", "Requests that ended; those that failed by their error.")
    waiting = Family("vitrify_model_waiting", "gauge", "Requests in the queue.")
    running = Family("vitrify_model_running", "gauge", "Requests in batches that are being run.")
    stuck = Family("vitrify_model_stuck", "gauge", "1 where a batch has run for longer than it may.")
    batches = Family("vitrify_model_batches", "counter", "Batches that were run.")
    rows = Family("vitrify_model_rows", "counter", "Rows that were run.")
    last = Family("vitrify_model_last_request_seconds", "gauge", "When the last request came, since the epoch.")
    sizes = Family("vitrify_model_batch_rows", "histogram", "Rows in a batch.")
    queued = Family("vitrify_model_queue_seconds", "histogram", "Seconds that a request waited to be run.")
    computed = Family("vitrify_model_compute_seconds", "histogram", "Seconds that a batch was in the model.")
    answered = Family("vitrify_model_answer_seconds", "histogram", "Seconds from a request's admission to its answer.")
    for served, figures in versions:
        named = {"model": served.name, "version": served.version}
        requests.add(figures.ok, **named, error="")
        for error, count in sorted(figures.failed.items()):
            requests.add(count, **named, error=error)
        waiting.add(figures.waiting, **named)
        running.add(figures.running, **named)
        stuck.add(int(figures.stuck), **named)
        batches.add(figures.batches, **named)
        rows.add(figures.rows, **named)
        last.add(figures.last, **named)
        sizes.count(ROW_BOUNDS, figures.batch_rows, **named)
        queued.count(BOUNDS, figures.queued, **named)
        computed.count(BOUNDS, figures.computed, **named)
        answered.count(BOUNDS, figures.answered, **named)
    return [requests, waiting, running, stuck, batches, rows, last, sizes, queued, computed, answered]
