"""The model repository extension as a whole server has it: over REST and over gRPC, on both planes."""

from __future__ import annotations

import json
from http.client import HTTPConnection

import grpc
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf import json_format
from served_models import ROWS, multiplier
from whole_server import PLANES, whole

from vitrify.serve.protocols._messages import messages
from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout

SERVICE = "/inference.GRPCInferenceService/"
CONFIG = {"steps": {"a": {"model": "m"}, "b": {"model": "m", "inputs": {"X": "a.Y"}}}, "outputs": {"end": "b.Y"}}


class Rest:
    """The repository over REST."""

    def __init__(self, running):
        self._place = running.http

    def post(self, path, body):
        connection = HTTPConnection(self._place, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()

    def load(self, name, config=None):
        body = {} if config is None else {"parameters": {"config": json.dumps(config)}}
        return self.post(f"/v2/repository/models/{name}/load", body)[0] == 200

    def unload(self, name):
        assert self.post(f"/v2/repository/models/{name}/unload", {})[0] == 200

    def index(self):
        return {(one["name"], one["version"]): one for one in self.post("/v2/repository/index", {})[1]}


class Grpc:
    """The same over gRPC."""

    def __init__(self, running):
        self._place = running.grpc
        self._said = messages("inference")

    def _ask(self, method, request, response):
        with grpc.insecure_channel(self._place, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary(SERVICE + method, lambda one: one.SerializeToString(), response.FromString)
            return call(request, timeout=60)

    def load(self, name, config=None):
        request = self._said.RepositoryModelLoadRequest(model_name=name)
        if config is not None:
            request.parameters["config"].string_param = json.dumps(config)
        try:
            self._ask("RepositoryModelLoad", request, self._said.RepositoryModelLoadResponse)
        except grpc.RpcError:
            return False
        return True

    def unload(self, name):
        request = self._said.RepositoryModelUnloadRequest(model_name=name)
        self._ask("RepositoryModelUnload", request, self._said.RepositoryModelUnloadResponse)

    def index(self):
        request, response = self._said.RepositoryIndexRequest(), self._said.RepositoryIndexResponse
        found = self._ask("RepositoryIndex", request, response).models
        return {
            (one.name, one.version): {
                "name": one.name,
                "version": one.version,
                "state": one.state,
                "reason": one.reason,
            }
            for one in found
        }


@pytest.fixture(scope="module", params=PLANES)
def running(request, tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    multiplier(store, "m:latest", 2)
    multiplier(store, "liar:latest", 2, promised=7)
    with whole(request.param, store, [ModelSettings(reference="m")]) as running:
        yield running


@pytest.fixture(params=[Rest, Grpc])
def repository(request, running):
    return request.param(running)


def answered(running, name):
    given = {"name": "X", "shape": [1, 4], "datatype": "FP32", "data": ROWS[1].tolist()}
    status, said = Rest(running).post(f"/v2/models/{name}/infer", {"inputs": [given]})
    return status, said


def test_an_ensemble_is_loaded_unloaded_and_loaded_again(running, repository):
    name = f"twice-{type(repository).__name__}"
    assert not repository.load(name, {**CONFIG, "outputs": {"end": "b.Z"}})
    assert (name, "1") not in repository.index()
    assert repository.load(name, CONFIG)
    status, said = answered(running, name)
    assert (status, said["outputs"][0]["data"]) == (200, (ROWS[1] * 4).tolist())
    digest = said["parameters"]["digest"]
    assert digest == running.server.engine.served(name).digest
    repository.unload(name)
    assert repository.index()[name, "1"]["state"] == "UNAVAILABLE"
    assert answered(running, name)[0] == 404
    assert repository.load(name)
    assert answered(running, name)[1]["parameters"]["digest"] == digest
    assert repository.load(name, {**CONFIG, "outputs": {"end": "a.Y"}})
    assert answered(running, name)[1]["parameters"]["digest"] != digest
    repository.unload(name)


def test_a_failed_load_leaves_no_name_of_what_is_not_there(running, repository):
    before = repository.index()
    assert not repository.load("nobody")
    assert not repository.load("other", {"reference": "nothing:3"})
    assert not repository.load("m", {"reference": "m", "threads": 10**9})
    assert repository.index() == before
    assert answered(running, "nobody")[0] == 404


def test_a_failed_load_of_what_is_there_says_why(running, repository):
    assert not repository.load("liar")
    found = repository.index()["liar", "1"]
    assert found["state"] == "UNAVAILABLE"
    assert "no longer gives its golden outputs" in found["reason"]
    status, said = answered(running, "liar")
    assert (status, found["reason"].split("\n")[0] in said["error"]) == (503, True)


def configurations(running, name, version=""):
    """Return what Triton's clients are told, over REST and over gRPC; that is the same."""
    with (
        triton_http.InferenceServerClient(running.http) as rest,
        triton_grpc.InferenceServerClient(running.grpc) as rpc,
    ):
        message = rpc.get_model_config(name, version).config
        found = rest.get_model_config(name, version)
        assert json_format.ParseDict(found, type(message)()) == message
    return found


def test_a_model_says_which_it_is(running):
    found = configurations(running, "m")
    parameters = {name: one["string_value"] for name, one in found["parameters"].items()}
    assert parameters == {"version": "1", "reference": "m", "digest": running.server.engine.served("m").digest}
    assert "ensemble_scheduling" not in found


def test_the_steps_of_an_ensemble_are_told_and_can_be_loaded_again(running):
    name, client = "told", Rest(running)
    steps = {
        "first": {"model": "m", "version": "1"},
        "second": {"model": "m", "inputs": {"X": "first.Y"}},
        "third": {"model": "m", "inputs": {"X": "second.Y"}},
    }
    outputs = {"end": "third.Y", "label": "second.L", "X": "second.Y", "again": "third.Y"}
    assert client.load(name, {"version": "7", "steps": steps, "outputs": outputs})
    number = running.server.engine.served("m").number
    found = configurations(running, name, "7")
    told = [
        (one["model_name"], one["model_version"], one["input_map"], one["output_map"])
        for one in found["ensemble_scheduling"]["step"]
    ]
    assert told == [
        ("m", number, {"X": "X"}, {"Y": "first.Y"}),
        ("m", -1, {"X": "first.Y"}, {"Y": "second.Y", "L": "label"}),
        ("m", -1, {"X": "second.Y"}, {"Y": "end"}),
    ]
    before = running.server.engine.served(name)
    client.unload(name)
    with triton_http.InferenceServerClient(running.http) as rest:
        rest.load_model(name, config=found["parameters"]["config"]["string_value"])
    after = running.server.engine.served(name)
    assert (after.version, after.digest, after.graph) == ("7", before.digest, before.graph)
    assert configurations(running, name) == found
    client.unload(name)
