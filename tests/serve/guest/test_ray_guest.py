"""What Ray Serve calls: a replica with Starlette's own requests."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest
from served_models import ROWS, outputs, seal, signature, times
from starlette.applications import Starlette
from starlette.routing import Mount

from vitrify.core.errors import UnavailableError
from vitrify.serve.guest import ray_serve
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture
def replica(tmp_path):
    store = OciLayout(tmp_path / "store")
    seal(store, "times:3", times(2), signature(), ({"X": ROWS}, outputs(2)))
    model = ray_serve.Model(store.root, "times", "3")
    yield model
    model.close()


@pytest.fixture
def ask(replica):
    """Return a function that sends requests through Starlette to the replica."""

    async def application(scope, receive, send):
        from starlette.requests import Request

        response = await replica(Request(scope, receive))
        await response(scope, receive, send)

    starlette = Starlette(routes=[Mount("/", application)])

    def send(method, path, **options):
        async def once():
            transport = httpx.ASGITransport(app=starlette)
            async with httpx.AsyncClient(transport=transport, base_url="http://ray") as client:
                return await client.request(method, path, **options)

        return asyncio.run(once())

    return send


BODY = {"inputs": [{"name": "X", "shape": [10, 4], "datatype": "FP32", "data": ROWS.ravel().tolist()}]}


@pytest.mark.parametrize("path", ["/v2/models/times/infer", "/v2/models/times/versions/3/infer"])
def test_the_protocol_is_answered(ask, path):
    answer = ask("POST", path, json=BODY)
    assert answer.status_code == 200, answer.text
    found = {one["name"]: np.reshape(one["data"], one["shape"]) for one in answer.json()["outputs"]}
    for name, expected in outputs(2).items():
        assert np.array_equal(found[name], expected)


def test_a_streamed_answer_comes_in_its_parts(ask):
    answer = ask("POST", "/v2/models/times/infer_stream", json=BODY)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("data: ")


def test_health_and_metadata_are_answered(ask):
    assert ask("GET", "/v2/health/ready").json() == {"ready": True}
    assert ask("GET", "/v2/models/times").json()["versions"] == ["3"]


def test_nobody_changes_what_is_served_from_inside_of_another_server(ask):
    answer = ask("POST", "/v2/repository/models/times/unload", json={})
    assert answer.status_code == 403
    assert ask("GET", "/v2/models/times/ready").status_code == 200


def test_what_does_not_fit_is_refused(ask):
    assert ask("POST", "/v2/models/times/infer", content=b"{").status_code == 400
    assert ask("GET", "/nowhere").status_code == 404


def test_a_body_without_end_is_refused_before_it_is_held(ask, monkeypatch):
    monkeypatch.setattr(ray_serve, "_MOST_BODY", 10)
    assert ask("POST", "/v2/models/times/infer", json=BODY).status_code == 413


def test_a_replica_whose_model_is_gone_is_replaced(replica, monkeypatch):
    replica.check_health()
    monkeypatch.setattr(replica._host, "ready", lambda: False)
    with pytest.raises(UnavailableError):
        replica.check_health()
