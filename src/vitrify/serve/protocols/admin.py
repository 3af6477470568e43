"""Administration over REST: models, routes, canaries, shadows, events. Only clients that are ``admin`` may ask.

What is changed here counts in every process of this server and, where it has a file for its state, after a restart.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import DeniedError, UsageError
from vitrify.serve.protocols import _json
from vitrify.serve.protocols._described import OBJECT, TEXT, DescribedRoute, an_array, an_object
from vitrify.serve.protocols._json import JSON
from vitrify.serve.rollout.comparing import markdown
from vitrify.serve.settings import CanarySettings, RouteSettings, from_client
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from vitrify.serve.clients import Clients
    from vitrify.serve.models import Served
    from vitrify.serve.rollout.applying import Applying
    from vitrify.serve.rollout.rollout import Rollout
    from vitrify.serve.web import Call, Route

_NUMBER = {"type": "number"}
_SHARES = {"type": "object", "additionalProperties": _NUMBER}
_MODEL = an_object({"name": TEXT, "version": TEXT, "state": TEXT, "digest": TEXT}, "name", "version", "state")
_ROUTE = an_object({"model": TEXT, "shares": _SHARES, "route": OBJECT}, "model", "shares", "route")
_EVENT = an_object({"time": _NUMBER, "model": TEXT, "what": TEXT, "reason": TEXT}, "time", "model", "what")
_LOAD = an_object({"reference": TEXT, "name": TEXT, "version": TEXT}, "reference")
_PUT = an_object({"weights": _SHARES, "shadow": an_array(OBJECT), "canary": OBJECT})
_CANARY = an_object({"version": TEXT, "steps": an_array(_NUMBER), "seconds": _NUMBER}, "version")
_PROMOTE = an_object({"version": TEXT, "reason": TEXT})
_REASON = an_object({"reason": TEXT})
_REPORT = an_object({"model": TEXT, "dropped": {"type": "integer"}, "pairs": an_array(OBJECT)}, "model", "pairs")
_MARKDOWN = "text/markdown"
_LONGEST = 500
"""Characters of a reason."""


class _Reason(msgspec.Struct, forbid_unknown_fields=True):
    """What a promotion or a rollback may say."""

    version: str = ""
    reason: str = "by hand"


def routes(rollout: Rollout, applying: Applying, clients: Clients) -> tuple[Route, ...]:
    """Return the routes.

    Args:
        rollout: Knows who answers.
        applying: Loads and unloads.
        clients: Know who may.
    """
    admin = Administration(rollout, applying)
    models = an_array(_MODEL)
    route = "/admin/routes/{model*}"
    rows: tuple[tuple[str, str, Any, str, Any, Any], ...] = (
        ("GET", "/admin/models", admin.models, "List every version that is known.", None, {JSON: models}),
        ("POST", "/admin/models", admin.load, "Load a model, or load it again.", _LOAD, {JSON: _MODEL}),
        (
            "DELETE",
            "/admin/models/{model*}/versions/{version}",
            admin.unload,
            "Let go of a version once it has answered what it has taken.",
            None,
            {},
        ),
        ("DELETE", "/admin/models/{model*}", admin.unload, "Let go of all versions of a model.", None, {}),
        ("POST", f"{route}/canary", admin.begin, "Let a version take over step by step.", _CANARY, {JSON: _ROUTE}),
        ("DELETE", f"{route}/canary", admin.roll_back, "Take the canary back.", None, {JSON: _ROUTE}),
        ("POST", f"{route}/promote", admin.promote, "Give a version all requests.", _PROMOTE, {JSON: _ROUTE}),
        ("POST", f"{route}/rollback", admin.roll_back, "Go back to the versions before.", _REASON, {JSON: _ROUTE}),
        ("GET", f"{route}/shadow", admin.shadow, "Compare shadows.", None, {JSON: _REPORT, _MARKDOWN: TEXT}),
        ("DELETE", f"{route}/shadow", admin.forget, "Begin the comparison of shadows anew.", None, {}),
        ("GET", route, admin.route, "Return who answers.", None, {JSON: _ROUTE}),
        ("PUT", route, admin.put, "Say who answers.", _PUT, {JSON: _ROUTE}),
        ("GET", "/admin/events", admin.events, "Return what was decided.", None, {JSON: an_array(_EVENT)}),
    )
    return tuple(
        DescribedRoute(
            *(method, pattern, _guarded(endpoint, clients), f"admin/{endpoint.__name__}", _json.error_answer),
            summary=summary,
            takes={} if takes is None else {JSON: takes},
            needs_body=takes in (_LOAD, _PUT, _CANARY),
            gives=gives,
        )
        for method, pattern, endpoint, summary, takes, gives in rows
    )


def _guarded(endpoint: Callable[[Call], Awaitable[Answer]], clients: Clients) -> Callable[[Call], Awaitable[Answer]]:
    async def guarded(call: Call) -> Answer:
        clients.require_admin(call.client)
        if call.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            # Where there are no clients, a page of some site could have its reader's browser ask.
            raise DeniedError("a page of another site may not change what is served")
        return await endpoint(call)

    return guarded


@dataclass(frozen=True)
class Administration:
    """What may be asked.

    Attributes:
        rollout: Knows who answers.
        applying: Loads and unloads.
    """

    rollout: Rollout
    applying: Applying

    async def models(self, _call: Call) -> Answer:
        """List every version, with its share."""
        index = self.rollout.engine.index()
        shares = {name: self.rollout.shares(name) for name in {one.name for one in index}}
        return _json.answer([_shown(one, shares[one.name].get(one.version, 0.0)) for one in index])

    async def load(self, call: Call) -> Answer:
        """Load what the body says."""
        settings = from_client(_body(call), where="the body")
        served = await self.applying.load(settings, call.client)
        return _json.answer(_shown(served, self.rollout.shares(served.name).get(served.version, 0.0)))

    async def unload(self, call: Call) -> Answer:
        """Let go of a version, or of all."""
        await self.applying.unload(call.fields["model"], call.fields.get("version", ""), call.client)
        return Answer()

    async def route(self, call: Call) -> Answer:
        """Return who answers."""
        return self._shown_route(call.fields["model"])

    async def put(self, call: Call) -> Answer:
        """Say who answers."""
        model = call.fields["model"]
        route = RouteSettings.from_builtins(_body(call), where="the body")
        self._require_known(model, route)
        await asyncio.to_thread(self.rollout.set_route, model, route, client=call.client)
        return self._shown_route(model)

    async def begin(self, call: Call) -> Answer:
        """Begin a canary."""
        model = call.fields["model"]
        canary = CanarySettings.from_builtins(_body(call), where="the body")
        await asyncio.to_thread(self.rollout.begin, model, canary, client=call.client)
        return self._shown_route(model)

    async def promote(self, call: Call) -> Answer:
        """Give the canary, or the version that the body names, all requests."""
        model, said = call.fields["model"], _reason(call)
        await asyncio.to_thread(self.rollout.promote, model, said.version, client=call.client, reason=said.reason)
        return self._shown_route(model)

    async def roll_back(self, call: Call) -> Answer:
        """Take the canary back, or undo the last promotion."""
        model, said = call.fields["model"], _reason(call)
        await asyncio.to_thread(self.rollout.roll_back, model, client=call.client, reason=said.reason)
        return self._shown_route(model)

    async def shadow(self, call: Call) -> Answer:
        """Return how the shadows compare; as Markdown where that is asked for."""
        model = call.fields["model"]
        self.rollout.route(model)
        report = await asyncio.to_thread(self.rollout.shadows.report, model)
        if _MARKDOWN in call.headers.get("accept", ""):
            return Answer(200, markdown(report).encode(), {"content-type": f"{_MARKDOWN}; charset=utf-8"})
        return _json.answer(report)

    async def forget(self, call: Call) -> Answer:
        """Begin the comparison anew."""
        self.rollout.route(call.fields["model"])
        self.rollout.shadows.forget(call.fields["model"])
        return Answer()

    async def events(self, _call: Call) -> Answer:
        """Return what was decided, the newest last."""
        return _json.answer(self.rollout.state.state.events)

    def _shown_route(self, model: str) -> Answer:
        route = self.rollout.route(model)
        shown = {"model": model, "shares": self.rollout.shares(model), "route": route}
        canary = self.rollout.canaries.show(model)
        return _json.answer({**shown, "canary": canary} if canary is not None else shown)

    def _require_known(self, model: str, route: RouteSettings) -> None:
        """Refuse a version that is not known: a slip of the pen would send its share elsewhere.

        Raises:
            ReferenceNotFoundError: There is one.
        """
        canary = [] if route.canary is None else [route.canary.version]
        for version in (*route.weights, *(shadow.version for shadow in route.shadow), *canary):
            self.rollout.engine.served(model, version)


def _body(call: Call) -> dict[str, Any]:
    return {name: _json.plain(value, name) for name, value in _json.request(call.body).items()}


def _reason(call: Call) -> _Reason:
    if not call.body:
        return _Reason()
    _json.request(call.body)
    said: _Reason = _json.plain(call.body, "the body", _Reason)
    if len(said.reason) > _LONGEST:
        msg = f"reason has {len(said.reason)} characters (expected at most {_LONGEST})"
        raise UsageError(msg)
    return said


def _shown(served: Served, share: float) -> dict[str, Any]:
    return {
        "name": served.name,
        "version": served.version,
        "number": served.number,
        "state": served.state,
        "reason": served.reason,
        "share": share,
        "digest": served.digest,
        "reference": served.reference,
        "platform": served.platform,
        "rows": served.batching.rows,
        "size": served.size,
        "lazy": served.lazy,
        "seconds": round(max(0.0, time.time() - served.since), 3),
    }
