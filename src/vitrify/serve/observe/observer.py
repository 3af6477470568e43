"""The observer: all that the server has to know of what is seen.

It is told of every call that reaches Python: when it begins, what a model answered in it, when it has ended. Out of
that come figures, lines of the access log, and traces. What the native plane answers itself, it counts and logs itself,
in the same form, and tells the traces of it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from vitrify.serve.observe import heard
from vitrify.serve.observe.access import AccessLog
from vitrify.serve.observe.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.lanes import Watch
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.observe.heard import Heard
    from vitrify.serve.observe.predictions import PredictionLog
    from vitrify.serve.observe.traces import Traces
    from vitrify.serve.planes import Plane
    from vitrify.serve.rpc import RpcCall
    from vitrify.serve.settings import ServerSettings
    from vitrify.serve.values import Done, Infer, Reply
    from vitrify.serve.web import Call

AT = "VITRIFY_SERVE_PROCESS"
"""The variable in which a process of several is told which it is."""
_REMEMBERED = 50
"""Errors and changes of state that the live page shows."""
_BAD_REQUEST = 400
_LEFT = 499


class Observer:
    """Sees one process of a server. It may be told from any thread.

    Args:
        settings: What is to be seen, and where it goes.
        plane: What moves the bytes.
        say: The log: an event and its facts.
    """

    def __init__(
        self,
        settings: ServerSettings,
        plane: Plane,
        *,
        say: Callable[..., None] = lambda _event, **_facts: None,
    ) -> None:
        """Open what the settings ask for.

        Raises:
            UsageError: A file, a folder or an address cannot be used.
            MissingDependencyError: The extra ``traces`` is not installed.
        """
        self.process = os.environ.get(AT, "")
        self.access = AccessLog(settings.access_log, plane.reopen_log) if settings.access_log else None
        self.predictions = _predictions(settings, say)
        self.traces = _traces(settings)
        self.metrics = Metrics(plane.name, self.process, self._counts(plane), plane.counted)
        self.errors: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        self.changes: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        self._states: dict[tuple[str, str], str] = {}

    # What the engine tells

    def attach(self, engine: ServingEngine) -> None:
        """See the versions of an engine come and go."""

        def changed() -> None:
            versions = engine.index()
            self.metrics.loaded(versions)
            for served in versions:
                if self._states.get(key := (served.name, served.version)) != served.state:
                    self._states[key] = served.state
                    self.changes.append(
                        {
                            "time": served.since,
                            "model": served.name,
                            "version": served.version,
                            "what": served.state.lower(),
                            "reason": served.reason,
                        }
                    )

        engine.when_changed(changed)
        changed()

    def watching(self, other: Watch | None = None) -> Watch | None:
        """Return what sees every batch: the prediction log, and another one."""
        log = self.predictions
        if log is None:
            return other
        if other is None:
            return log.watch

        def both(done: Done) -> None:
            try:
                other(done)
            finally:
                log.watch(done)

        return both

    def answered(self, request: Infer, answer: Reply | BaseException) -> None:
        """Take what a model answered, in the task of the call that asked it."""
        note = heard.current()
        if note is None:
            return
        note.take(request, answer)
        if self.traces is not None:
            self.traces.answered(note, answer)

    # What the plane tells

    def begun(self, call: Call | RpcCall) -> None:
        """Take a call that begins, in the task that answers it."""
        note = heard.begin()
        if self.traces is not None:
            self.traces.begin(note, call)

    def seen(self, call: Call, route: str, status: int, seconds: float, size: int) -> None:
        """Take a call over HTTP that has ended."""
        note = heard.current() or heard.Heard()
        self.metrics.seen("rest", route, status, seconds, received=len(call.body), sent=size)
        if self.traces is not None:
            self.traces.http_end(note, call, route, status, size)
        if status >= _BAD_REQUEST and status != _LEFT:
            self._remember(note, call.id, route, status)
        self._log(note, "rest", call.client, call.id, route, status, seconds, size)

    def seen_rpc(self, call: RpcCall, id_: str, status: int, seconds: float, size: int) -> None:
        """Take a call over gRPC that has ended."""
        note = heard.current() or heard.Heard()
        route = call.path.strip("/")
        self.metrics.seen("grpc", route, status, seconds, received=len(call.message), sent=size)
        if self.traces is not None:
            self.traces.rpc_end(note, call, id_, status)
        if status > 1:
            self._remember(note, id_, route, status)
        self._log(note, "grpc", call.client, id_, route, status, seconds, size)

    def _remember(self, note: Heard, id_: str, route: str, status: int) -> None:
        self.errors.append(
            {
                "time": time.time(),
                "id": id_,
                "route": route,
                "status": status,
                "model": note.model,
                "version": note.version,
                "error": note.error,
            }
        )

    def _log(self, note: Heard, *said: Any) -> None:
        if self.access is None:
            return
        protocol, client, id_, route, status, seconds, size = said
        traced = {"trace": self.traces.id(note)} if self.traces is not None else {}
        self.access.write(
            time=time.time(),
            id=id_,
            client=client,
            protocol=protocol,
            route=route,
            model=note.model,
            version=note.version,
            digest=note.digest,
            status=status,
            rows=note.rows,
            queued_ms=_milliseconds(note.waited),
            computed_ms=_milliseconds(note.computed),
            total_ms=_milliseconds(seconds),
            bytes=size,
            **traced,
        )

    # The end

    def close(self) -> None:
        """Write and tell what is left; this blocks for some seconds at most."""
        if self.predictions is not None:
            self.predictions.close()
        if self.traces is not None:
            self.traces.close()
        if self.access is not None:
            self.access.close()

    def _counts(self, plane: Plane) -> dict[str, tuple[str, Callable[[], int]]]:
        found: dict[str, tuple[str, Callable[[], int]]] = {}
        if (access := self.access) is not None:
            what = "Lines of the access log that were not written."
            found["vitrify_access_log_dropped"] = (what, lambda: access.dropped + plane.log_dropped())
        if self.traces is not None:
            what = "Traced requests of which nothing could be told."
            found["vitrify_traces_dropped"] = (what, lambda: plane.counted().traces_dropped)
        if (log := self.predictions) is not None:
            found["vitrify_prediction_log_rows"] = ("Rows that were logged.", lambda: log.rows)
            found["vitrify_prediction_log_dropped"] = ("Rows that were to be logged and were not.", lambda: log.dropped)
            found["vitrify_prediction_log_files"] = ("Files of the prediction log.", lambda: log.files)
        return found


def _predictions(settings: ServerSettings, say: Callable[..., None]) -> PredictionLog | None:
    if not settings.prediction_log:
        return None
    from vitrify.serve.observe.predictions import PredictionLog

    return PredictionLog(settings.prediction_log, settings.prediction_sample, say=say)


def _traces(settings: ServerSettings) -> Traces | None:
    if not settings.traces:
        return None
    from vitrify.serve.observe.traces import Traces

    return Traces(settings.traces)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
