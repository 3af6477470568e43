"""The model repository over REST: who may load what, and what is refused."""

from __future__ import annotations

import json

import pytest
from rest_serving import RestServer, triton_client

pytest.importorskip("tritonclient.http")


@pytest.fixture(scope="module")
def own():
    """Return a server of these tests' own, whose models come and go."""
    server = RestServer(names=("doubled",))
    yield server
    server.close()


def states(server, **asked):
    return {(one["name"], one["version"]): one["state"] for one in server.post("/v2/repository/index", asked)[1]}


def test_triton_unloads_and_loads_a_model(own):
    client = triton_client(own)
    client.unload_model("doubled")
    assert states(own)["doubled", "1"] == "UNAVAILABLE"
    assert states(own, ready=True) == {}
    assert not client.is_model_ready("doubled")
    client.load_model("doubled")
    assert client.is_model_ready("doubled")
    config = json.dumps({"reference": "doubled", "version": "2", "batching": {"rows": 1}})
    client.load_model("doubled", config=config)
    assert states(own, ready=True) == {("doubled", "1"): "READY", ("doubled", "2"): "READY"}
    assert client.get_model_config("doubled", "2")["max_batch_size"] == 0
    assert not own.faults


@pytest.mark.parametrize(
    ("parameters", "status", "message"),
    [
        ({"config": "{"}, 400, "parameters.config"),
        ({"config": "[]"}, 400, "parameters.config"),
        ({"config": json.dumps({"max_batch_size": 8})}, 400, "max_batch_size"),
        ({"config": json.dumps({"batching": {"size": 8}})}, 400, "size"),
        ({"config": json.dumps({"threads": "many"})}, 400, "parameters.config"),
        ({"config": json.dumps({"reference": "nothing-here"})}, 404, "nothing-here"),
        ({"file:1/model.onnx": "aGk="}, 501, "files cannot be sent"),
        (None, 404, "unheard-of"),
    ],
)
def test_what_cannot_be_loaded_is_named(own, parameters, status, message):
    name, body = ("other", {"parameters": parameters}) if parameters is not None else ("unheard-of", {})
    found, answer = own.post(f"/v2/repository/models/{name}/load", body)
    assert found == status, answer
    assert message in answer["error"]


def test_an_unknown_model_cannot_be_unloaded(own):
    assert own.post("/v2/repository/models/nope/unload", {})[0] == 404


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_only_an_admin_may_change_what_is_served(own, verb):
    own.admin = False
    try:
        status, answer = own.post(f"/v2/repository/models/doubled/{verb}", {})
    finally:
        own.admin = True
    assert status == 403
    assert "admin" in answer["error"]
