"""What the server says about itself over HTTP: its figures, and a live page for people.

The page itself needs no token, because it tells nothing; what it shows is asked for with the token that its reader
gives. It loads nothing from anywhere, and its policy lets it do nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.html import page_headers
from vitrify.serve.observe import dashboard
from vitrify.serve.observe.exposition import OPENMETRICS, PROMETHEUS
from vitrify.serve.planes.dispatch import plain_error
from vitrify.serve.web import Answer, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.observe.observer import Observer
    from vitrify.serve.web import Call

    Shares = Callable[[str], Mapping[str, float]]
    Events = Callable[[], Iterable[Mapping[str, Any]]]

_FRESH = {"cache-control": "no-store"}
_OPENMETRICS = "application/openmetrics-text"


class Pages:
    """Answers.

    Args:
        engine: Its versions are shown.
        observer: What it has seen is shown.
        shares: The share of a model's requests that each of its versions has.
        events: What the rollout has decided, the newest last; each has ``time``, ``model``, ``version``, ``what`` and
            ``reason``.
    """

    def __init__(self, engine: ServingEngine, observer: Observer, shares: Shares, events: Events) -> None:
        """Read the page."""
        self._engine, self._observer, self._shares, self._events = engine, observer, shares, events
        self._page = dashboard.page()
        self._headers = page_headers(self._page)

    async def metrics(self, call: Call) -> Answer:
        """Return the figures, in the format that is asked for."""
        openmetrics = _OPENMETRICS in call.headers.get("accept", "")
        text = self._observer.metrics.text(self._engine, self._shares, openmetrics=openmetrics)
        return Answer(200, text.encode(), {"content-type": OPENMETRICS if openmetrics else PROMETHEUS, **_FRESH})

    async def dashboard(self, call: Call) -> Answer:
        """Return the page."""
        del call
        return Answer(200, self._page.encode(), dict(self._headers))

    async def data(self, call: Call) -> Answer:
        """Return what the page shows."""
        del call
        names = {served.name for served in self._engine.index()}
        shares = {name: self._shares(name) for name in names}
        shown = dashboard.data(self._engine, self._observer, shares, self._events())
        return Answer(200, shown, {"content-type": "application/json", **_FRESH})


def routes(
    engine: ServingEngine,
    observer: Observer,
    *,
    shares: Shares = lambda _model: {},
    events: Events = tuple,
) -> tuple[Route, ...]:
    """Return the routes; see :class:`Pages`."""
    pages = Pages(engine, observer, shares, events)
    return (
        Route("GET", "/metrics", pages.metrics, "metrics", plain_error),
        Route("GET", "/dashboard", pages.dashboard, "dashboard", plain_error, open=True),
        Route("GET", "/dashboard/data.json", pages.data, "dashboard data", plain_error),
    )
