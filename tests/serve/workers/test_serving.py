"""Workers behind the engine and the whole server: who else asks is unharmed."""

from __future__ import annotations

import asyncio
import http.client
import json

import numpy as np
import pytest
import rogue_source as rogue
import tritonclient.grpc as triton
from rogue_models import rogue_settings
from tritonclient.utils import InferenceServerException
from whole_server import PLANES, whole

from vitrify.core.errors import ModelError, UnavailableError
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.settings import EnsembleSettings, ModelSettings, StepSettings
from vitrify.serve.values import Infer
from vitrify.serve.workers import open_session


def ask(first, more=0.0):
    return Infer("rogue", {"x": np.array([[float(first), more]])})


def test_one_crash_in_a_crowd_harms_nobody_else(shelf):
    async def test():
        engine = ServingEngine(ThreadLane, store=shelf, open_session=open_session)
        try:
            await engine.load(rogue_settings(batching=Batching(instances=2)))
            values = [float(one) for one in range(30)]
            values[5], values[7] = rogue.CRASHES, rogue.RAISES
            replies = await asyncio.gather(*(engine.infer(ask(one)) for one in values), return_exceptions=True)
            assert isinstance(replies[5], UnavailableError)
            assert isinstance(replies[7], ModelError)
            rest = [one for one in values if one >= 0]
            assert [reply.outputs["output"][0, 0] for reply in replies if not isinstance(reply, Exception)] == [
                one * 2 for one in rest
            ]
            assert engine.served("rogue").state == "READY"
        finally:
            await engine.close(20.0)

    asyncio.run(test())


def test_a_version_whose_worker_will_not_stay_says_so_until_it_does(shelf, held):
    def opened(artifact, settings):
        session = open_session(artifact, settings)
        held.hold(session)
        return session

    async def test():
        engine = ServingEngine(ThreadLane, store=shelf, open_session=opened)
        try:
            await engine.load(rogue_settings())
            held.let()
            for _ in range(2):
                with pytest.raises(UnavailableError, match="signal 11"):
                    await engine.infer(ask(rogue.CRASHES))
            served = engine.served("rogue")
            assert (served.state, "failed 2 times in a row" in served.reason) == ("UNAVAILABLE", True)
            assert engine.index()[0].state == "UNAVAILABLE"
            held.let()
            held.until(lambda: engine.served("rogue").state == "READY")
            assert (await engine.infer(ask(4))).outputs["output"][0, 0] == 8
        finally:
            await engine.close(20.0)

    asyncio.run(test())


@pytest.fixture(scope="module", params=PLANES)
def running(request, shelf):
    models = [
        rogue_settings(),
        rogue_settings("counter", "count"),
        ModelSettings(reference="m"),
        ModelSettings(reference="sum"),
    ]
    twice = EnsembleSettings(
        name="twice",
        steps={"one": StepSettings(model="m"), "two": StepSettings(model="m", inputs={"X": "one.Y"})},
        outputs={"four": "two.Y"},
    )
    with whole(request.param, shelf, models, ensembles=(twice,)) as running:
        yield running


def post(running, path, body):
    connection = http.client.HTTPConnection(running.http, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def rows(name, values):
    array = np.asarray(values)
    kind = {"f8": "FP64", "f4": "FP32"}[array.dtype.str[1:]]
    return {"inputs": [{"name": name, "shape": list(array.shape), "datatype": kind, "data": array.ravel().tolist()}]}


def test_over_the_wire_a_crash_is_503_and_an_error_of_the_model_422_and_both_are_over_then(running):
    status, said = post(running, "/v2/models/rogue/infer", rows("x", [[float(rogue.CRASHES), 0.0]]))
    assert (status, b"ended by signal 11" in said) == (503, True)
    status, said = post(running, "/v2/models/rogue/infer", rows("x", [[float(rogue.RAISES), 0.0]]))
    assert (status, b"I do not like this row" in said, b"Traceback" in said) == (422, True, False)
    status, said = post(running, "/v2/models/rogue/infer", rows("x", [[4.0, 0.0]]))
    assert (status, json.loads(said)["outputs"][0]["data"][0]) == (200, 8.0)


def test_an_ensemble_is_a_model_like_any_other(running):
    status, said = post(running, "/v2/models/twice/infer", rows("X", np.ones((1, 4), np.float32)))
    answer = json.loads(said)
    assert status == 200, said
    assert answer["outputs"][0]["data"] == [4.0] * 4
    assert answer["parameters"] == {
        "step.one": "m:1",
        "step.two": "m:1",
        "digest": running.server.engine.served("twice").digest,
    }
    with triton.InferenceServerClient(running.grpc) as client:
        assert client.get_model_metadata("twice").platform == "ensemble"
        one = triton.InferInput("X", [2, 4], "FP32")
        one.set_data_from_numpy(np.ones((2, 4), np.float32))
        assert client.infer("twice", [one]).as_numpy("four").tolist() == [[4.0] * 4] * 2
        assert any(
            model.name == "twice" and model.state == "READY" for model in client.get_model_repository_index().models
        )


def test_parts_reach_the_clients_of_rest_and_of_grpc(running):
    status, said = post(running, "/v2/models/counter/infer_stream", rows("x", [[3.0, 1.0]]))
    events = [json.loads(line[6:]) for line in said.decode().splitlines() if line.startswith("data: ")]
    assert status == 200, said
    assert [event["outputs"][0]["data"][0] for event in events] == [0.0, 3.0, 6.0]
    got = []
    with triton.InferenceServerClient(running.grpc) as client:
        done = asyncio.Queue()
        loop = asyncio.new_event_loop()
        client.start_stream(lambda result, error: loop.call_soon_threadsafe(done.put_nowait, (result, error)))
        one = triton.InferInput("x", [1, 2], "FP64")
        one.set_data_from_numpy(np.array([[3.0, 1.0]]))
        client.async_stream_infer("counter", [one], enable_empty_final_response=True)
        while True:
            result, error = loop.run_until_complete(asyncio.wait_for(done.get(), 60))
            assert error is None
            response = result.get_response()
            if response.outputs:
                got.append(result.as_numpy("output")[0, 0])
            if response.parameters["triton_final_response"].bool_param:
                break
        client.stop_stream()
        loop.close()
    assert got == [0.0, 3.0, 6.0]


@pytest.fixture(params=["http", "grpc"])
def add(running, request):
    """Return a function that asks the model which adds up, by one of the protocols."""
    with triton.InferenceServerClient(running.grpc) as client:

        def by_http(value, sequence, **flags):
            body = rows("input", [float(value)])
            status, said = post(
                running, "/v2/models/sum/infer", {**body, "parameters": {"sequence_id": sequence, **flags}}
            )
            answer = json.loads(said)
            return answer["outputs"][0]["data"][0] if status == 200 else answer["error"]

        def by_grpc(value, sequence, **flags):
            one = triton.InferInput("input", [1], "FP64")
            one.set_data_from_numpy(np.array([float(value)]))
            try:
                return client.infer("sum", [one], sequence_id=sequence, **flags).as_numpy("output").item()
            except InferenceServerException as error:
                return error.message()

        yield {"http": by_http, "grpc": by_grpc}[request.param]


def test_sequences_remember_each_its_own_over_the_wire(add):
    assert add(1, 7, sequence_start=True) == 1
    assert add(10, "other", sequence_start=True) == 10
    assert add(2, 7) == 3
    assert add(20, "other", sequence_end=True) == 30
    assert add(5, 0) == 5
    assert add(4, 7, sequence_end=True) == 7
    assert "sequence '7' is not live" in add(1, 7)
