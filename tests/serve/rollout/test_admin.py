"""Administration over REST: who may, what is refused, and what it does."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from rolled import AdminServer

from vitrify.serve.clients import Clients
from vitrify.serve.planes.dispatch import Dispatcher
from vitrify.serve.protocols import admin
from vitrify.serve.rollout.applying import Applying
from vitrify.serve.settings import ClientSettings, RouteSettings, Settings
from vitrify.serve.web import Call

ROUTE = "/admin/routes/m"


class Api:
    """Calls the routes without a socket."""

    def __init__(self, rolled, clients=()):
        self.rolled, self.faults = rolled, []
        applying = Applying(rolled.rollout, Settings())
        routes = admin.routes(rolled.rollout, applying, Clients(clients))
        self._dispatcher = Dispatcher(routes, fault=lambda id_, error: self.faults.append(repr(error)))

    async def call(self, method, path, body=None, client="", **headers):
        """Return the status and the JSON, or the text."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = await self._dispatcher(Call(method, path, body=data, client=client, headers=headers))
        assert not self.faults, self.faults
        plain = answer.headers.get("content-type") == "application/json"
        return answer.status, json.loads(answer.body) if plain else answer.body.decode()


@pytest.fixture
def administered(rolling):
    """Return a context manager for an API over two versions, of which the first answers."""

    @asynccontextmanager
    async def administered(clients=(), **options):
        async with rolling({"m": RouteSettings(weights={"1.0": 1.0})}, **options) as rolled:
            yield Api(rolled, clients)

    return administered


@pytest.fixture(scope="module")
def standing(shelf):
    """A server that no test changes."""
    server = AdminServer(shelf, routes={"m": RouteSettings(weights={"1.0": 1.0})})
    yield server
    server.close()


def test_only_an_admin_may_ask(administered):
    clients = tuple(ClientSettings(name=name, token_sha256=name * 8, admin=name == "root") for name in ("root", "ann"))

    async def test():
        async with administered(clients) as api:
            status, said = await api.call("GET", "/admin/models", client="ann")
            assert (status, "'ann' may not change" in said["error"]) == (403, True)
            assert (await api.call("POST", f"{ROUTE}/promote", client="ann"))[0] == 403
            assert (await api.call("GET", "/admin/models", client="root"))[0] == 200
            other = {"sec-fetch-site": "cross-site"}
            status, said = await api.call("GET", "/admin/models", client="root", **other)
            assert (status, "another site" in said["error"]) == (403, True)
            status, _ = await api.call("PUT", ROUTE, {"weights": {"2.0": 1}}, client="root")
            events = (await api.call("GET", "/admin/events", client="root"))[1]
            assert [(one["what"], one["client"]) for one in events] == [("routed", "root")]

    asyncio.run(test())


def test_models_are_listed_loaded_and_unloaded(administered):
    async def test():
        async with administered() as api:
            status, models = await api.call("GET", "/admin/models")
            assert [(one["version"], one["state"], one["share"]) for one in models] == [
                ("1.0", "READY", 1.0),
                ("2.0", "READY", 0.0),
            ]
            status, loaded = await api.call("POST", "/admin/models", {"reference": "m:3.0", "batching": {"rows": 4}})
            assert (status, loaded["version"], loaded["state"], loaded["rows"]) == (200, "3.0", "READY", 4)
            assert await api.call("DELETE", "/admin/models/m/versions/2.0") == (200, "")
            states = {one["version"]: one["state"] for one in (await api.call("GET", "/admin/models"))[1]}
            assert states == {"1.0": "READY", "2.0": "UNAVAILABLE", "3.0": "READY"}
            assert (await api.call("DELETE", "/admin/models/m"))[0] == 200
            assert (await api.call("DELETE", "/admin/models/nobody"))[0] == 404
            assert (await api.call("DELETE", "/admin/models/a/b/versions/1"))[0] == 404
            events = (await api.call("GET", "/admin/events"))[1]
            assert [one["what"] for one in events] == ["loaded", "unloaded", "unloaded"]

    asyncio.run(test())


def test_a_route_is_shown_and_changed(administered):
    async def test():
        async with administered() as api:
            shown = (await api.call("GET", ROUTE))[1]
            assert shown == {"model": "m", "shares": {"1.0": 1.0}, "route": {"weights": {"1.0": 1.0}}}
            body = {"weights": {"1.0": 3, "2.0": 1}, "shadow": [{"version": "2.0", "fraction": 0.5}]}
            status, shown = await api.call("PUT", ROUTE, body)
            assert (status, shown["shares"]) == (200, {"1.0": 0.75, "2.0": 0.25})
            assert shown["route"]["shadow"] == [{"version": "2.0", "fraction": 0.5}]

    asyncio.run(test())


def test_a_canary_begins_is_promoted_and_taken_back(administered):
    async def test():
        async with administered() as api:
            status, shown = await api.call("POST", f"{ROUTE}/canary", {"version": "2.0", "steps": [0.5]})
            assert (status, shown["canary"]["step"], shown["shares"]) == (200, None, {"1.0": 1.0})
            assert (await api.call("POST", f"{ROUTE}/canary", {"version": "2.0"}))[0] == 409
            await asyncio.to_thread(api.rolled.rollout.canaries.tick)
            shown = (await api.call("GET", ROUTE))[1]
            assert (shown["canary"]["step"], shown["shares"]) == (0, {"1.0": 0.5, "2.0": 0.5})
            assert (await api.call("DELETE", f"{ROUTE}/canary"))[1]["shares"] == {"1.0": 1.0}
            body = {"version": "2.0", "reason": "it is better"}
            assert (await api.call("POST", f"{ROUTE}/promote", body))[1]["shares"] == {"2.0": 1.0}
            assert (await api.call("POST", f"{ROUTE}/rollback"))[1]["shares"] == {"1.0": 1.0}
            assert (await api.call("POST", f"{ROUTE}/rollback"))[0] == 409
            events = (await api.call("GET", "/admin/events"))[1]
            assert [one["what"] for one in events] == ["routed", "began", "rolled back", "promoted", "rolled back"]
            assert events[3]["reason"] == "it is better"

    asyncio.run(test())


def test_the_report_on_shadows_is_json_or_markdown(administered, until):
    async def test():
        async with administered() as api:
            assert (await api.call("GET", f"{ROUTE}/shadow"))[1] == {"model": "m", "dropped": 0, "pairs": []}
            await api.call("PUT", ROUTE, {"weights": {"1.0": 1}, "shadow": [{"version": "2.0"}]})
            api.rolled.start()
            await api.rolled.ask(3)
            await until(lambda: api.rolled.rollout.shadows.report("m")["pairs"])
            status, text = await api.call("GET", f"{ROUTE}/shadow", accept="text/markdown")
            assert (status, text.startswith("# Shadow traffic of m")) == (200, True)
            assert (await api.call("GET", f"{ROUTE}/shadow"))[1]["pairs"][0]["shadow"] == "2.0"
            assert (await api.call("DELETE", f"{ROUTE}/shadow"))[0] == 200
            assert (await api.call("GET", "/admin/routes/nobody/shadow"))[0] == 404

    asyncio.run(test())


@pytest.mark.parametrize(
    ("what", "body", "status", "said"),
    [
        ("GET /admin/routes/nobody", None, 404, "nobody"),
        ("PUT /admin/routes/nobody", {}, 404, "nobody"),
        (f"PUT {ROUTE}", b"", 400, "JSON"),
        (f"PUT {ROUTE}", b"[]", 400, "object"),
        (f"PUT {ROUTE}", b"[" * 10_000, 413, "deep"),
        (f"PUT {ROUTE}", b"\xff", 400, ""),
        (f"PUT {ROUTE}", {"wieghts": {}}, 400, "wieghts"),
        (f"PUT {ROUTE}", {"weights": {"1.0": -1}}, 400, "weights"),
        (f"PUT {ROUTE}", {"weights": {"1.0": 0}}, 400, "weights"),
        (f"PUT {ROUTE}", b'{"weights": {"1.0": NaN}}', 400, ""),
        (f"PUT {ROUTE}", b'{"weights": {"1.0": 1e400}}', 400, ""),
        (f"PUT {ROUTE}", {"weights": {"9.9": 1}}, 404, "9.9"),
        (f"PUT {ROUTE}", {"shadow": [{"version": "9.9"}]}, 404, "9.9"),
        (f"PUT {ROUTE}", {"shadow": [{"version": "2.0", "fraction": 2}]}, 400, "fraction"),
        (f"POST {ROUTE}/canary", {}, 400, "version"),
        (f"POST {ROUTE}/canary", {"version": "9.9"}, 404, "9.9"),
        (f"POST {ROUTE}/canary", {"version": "2.0", "steps": [0.5, 0.5]}, 400, "steps"),
        (f"POST {ROUTE}/canary", {"version": "1.0"}, 409, "all requests"),
        (f"POST {ROUTE}/promote", None, 409, "no canary"),
        (f"POST {ROUTE}/promote", {"version": "9.9"}, 404, "9.9"),
        (f"POST {ROUTE}/promote", {"verison": "1"}, 400, "verison"),
        (f"POST {ROUTE}/promote", {"version": "1.0", "reason": "x" * 501}, 400, "reason"),
        ("POST /admin/models", {}, 400, "reference"),
        ("POST /admin/models", {"reference": "absent"}, 404, "absent"),
        ("POST /admin/models", {"reference": "liar:1.0"}, 409, "golden"),
        ("POST /admin/models", {"reference": "m:1.0", "batching": {"rows": 0}}, 400, "batching.rows"),
        (f"PATCH {ROUTE}", None, 405, "PUT"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name_and_changes_nothing(standing, what, body, status, said):
    method, path = what.split(" ")
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer = standing.run(standing.dispatcher(Call(method, path, body=data)))
    assert answer.status == status, answer.body
    assert said in json.loads(answer.body)["error"]
    assert standing.rolled.rollout.shares("m") == {"1.0": 1.0}
    assert standing.rolled.told == []
    assert not standing.faults
