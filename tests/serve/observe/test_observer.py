"""What a server tells of its calls, line by line, on either plane; and which batches are watched."""

import asyncio
import json

import numpy as np
import pytest
import tritonclient.grpc as triton
from seen_serving import ask, infer, seen, until
from whole_server import PLANES

from vitrify.core.errors import BusyError
from vitrify.serve.observe import heard
from vitrify.serve.observe.observer import Observer
from vitrify.serve.planes.dispatch import Dispatcher, plain_error
from vitrify.serve.planes.python import PythonPlane
from vitrify.serve.settings import ServerSettings
from vitrify.serve.values import Infer, Reply
from vitrify.serve.web import Answer, Call, Route

KEYS = [
    *("time", "id", "client", "protocol", "model", "version", "digest", "status", "rows"),
    *("queued_ms", "computed_ms", "total_ms", "bytes"),
]


@pytest.mark.parametrize("plane", PLANES)
def test_every_request_is_one_line_with_the_same_keys(tmp_path, store, plane):
    path = tmp_path / "access.log"
    with seen(plane, store, server={"access_log": str(path)}) as running:
        secret = {"authorization": "Bearer secret", "x-request-id": "request-number-1"}
        assert infer(running.http, 3, headers=secret) == 200
        assert infer(running.http, 1, "text", {"x-request-id": "request-number-2"}) == 200
        assert ask(running.http, "/v2/models/nobody?secret=1", headers={"x-request-id": "request-number-3"})[0] == 404
        with triton.InferenceServerClient(running.grpc) as client:
            one = triton.InferInput("X", [2, 4], "FP32")
            one.set_data_from_numpy(np.zeros((2, 4), np.float32))
            client.infer("times", [one], headers={"x-request-id": "request-number-4"})
        digest = running.server.engine.served("times").digest
    text = path.read_text()
    assert "secret" not in text
    lines = {line["id"]: line for line in map(json.loads, text.splitlines())}
    first, second, third, fourth = (lines[f"request-number-{number}"] for number in (1, 2, 3, 4))
    assert all(set(KEYS) <= set(line) for line in lines.values())
    assert (first["protocol"], first["model"], first["version"], first["digest"]) == ("rest", "times", "1", digest)
    assert [line["rows"] for line in (first, second, third, fourth)] == [3, 1, 0, 2]
    assert [line["status"] for line in (first, second, third, fourth)] == [200, 200, 404, 0]
    assert (fourth["protocol"], fourth["digest"]) == ("grpc", digest)
    assert all(line[key] >= 0 for line in (first, fourth) for key in ("queued_ms", "computed_ms", "total_ms", "bytes"))
    assert (third["model"], third["queued_ms"]) == ("", None)


@pytest.mark.parametrize("plane", PLANES)
def test_a_log_that_was_moved_goes_on_in_a_new_file(tmp_path, store, plane):
    path = tmp_path / "access.log"
    with seen(plane, store, server={"access_log": str(path)}) as running:
        assert infer(running.http, 1, headers={"x-request-id": "before-it-was-moved"}) == 200
        path.rename(tmp_path / "access.log.1")
        running.server.observer.access.reopen()
        until(path.exists)

        def written():
            assert infer(running.http, 1, headers={"x-request-id": "after-it-was-moved"}) == 200
            return "after-it-was-moved" in path.read_text()

        until(written)  # the native plane takes the new file a moment later
    assert "before-it-was-moved" in (tmp_path / "access.log.1").read_text()
    assert "before-it-was-moved" not in path.read_text()


@pytest.fixture
def observer():
    observer = Observer(ServerSettings(), PythonPlane())
    yield observer
    observer.close()


def dispatched(observer, endpoint, **more):
    route = Route("GET", "/a", endpoint, "a", plain_error)
    return Dispatcher([route], fault=lambda _id, _error: None, begun=observer.begun, seen=observer.seen, **more)


def test_calls_at_the_same_time_are_told_apart(observer):
    noted = {}
    together = asyncio.Event()

    async def endpoint(call):
        request = Infer(call.client, {"x": np.zeros((len(noted) + 1, 1))})
        noted[call.client] = heard.current()
        if len(noted) == 2:
            together.set()
        await together.wait()
        await asyncio.gather(asyncio.to_thread(lambda: None), part(request))
        return Answer()

    async def part(request):  # in a task of its own, as an ensemble's steps are
        observer.answered(request, Reply(request.model, "1", {}, digest=f"sha256:{request.model}"))

    async def both():
        dispatch = dispatched(observer, endpoint)
        await asyncio.gather(*(asyncio.create_task(dispatch(Call("GET", "/a", client=name))) for name in "xy"))

    asyncio.run(both())
    assert {name: note.digest for name, note in noted.items()} == {"x": "sha256:x", "y": "sha256:y"}
    assert [note.rows for note in noted.values()] == [1, 2]


def test_an_answer_that_streams_is_told_of_at_its_end(observer):
    async def endpoint(call):
        async def body():
            for piece in (b"one", b"two"):
                yield piece

        return Answer(200, body())

    async def run():
        answer = await dispatched(observer, endpoint)(Call("GET", "/a"))
        assert not observer.metrics.requests()
        return [piece async for piece in answer.body]

    assert asyncio.run(run()) == [b"one", b"two"]
    assert observer.metrics.requests() == {("rest", "a", 200): 1}


def test_a_caller_that_leaves_a_stream_ends_it_and_is_told_of(observer):
    ended = []

    async def endpoint(call):
        async def body():
            try:
                while True:
                    yield b"more"
            finally:
                ended.append(True)

        return Answer(200, body())

    async def run():
        answer = await dispatched(observer, endpoint)(Call("GET", "/a"))
        assert await anext(answer.body) == b"more"
        await answer.body.aclose()
        assert ended == [True]

    asyncio.run(run())
    assert observer.metrics.requests() == {("rest", "a", 499): 1}


def test_a_caller_that_leaves_is_told_of(observer):
    async def endpoint(call):
        await asyncio.sleep(3600)

    async def run():
        task = asyncio.create_task(dispatched(observer, endpoint)(Call("GET", "/a")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert observer.metrics.requests() == {("rest", "a", 499): 1}
    assert not observer.errors


def test_an_error_is_remembered_with_the_model_and_its_class(observer):
    async def endpoint(call):
        observer.answered(Infer("m", {}, version="3"), BusyError("full"))
        raise BusyError("full", retry_after=3)

    answer = asyncio.run(dispatched(observer, endpoint)(Call("GET", "/a", id="a-request-id")))
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    found = observer.errors[0]
    assert (found["id"], found["model"], found["version"], found["error"]) == ("a-request-id", "m", "3", "BusyError")


def test_only_so_many_errors_are_remembered(observer):
    async def endpoint(call):
        raise BusyError("full")

    async def run():
        for _ in range(200):
            await dispatched(observer, endpoint)(Call("GET", "/a"))

    asyncio.run(run())
    assert len(observer.errors) == 50


def test_outside_of_a_call_an_answer_is_nobodys(observer):
    observer.answered(Infer("m", {}), Reply("m", "1", {}))
    assert heard.current() is None


def test_nobody_watches_where_nothing_is_asked_for(observer):
    assert observer.watching() is None
    assert observer.watching(print) is print


def test_the_prediction_log_watches_beside_another_even_one_that_raises(tmp_path):
    observer = Observer(ServerSettings(prediction_log=str(tmp_path)), PythonPlane())
    told = []

    def other(done):
        raise ZeroDivisionError

    observer.predictions.watch = told.append
    with pytest.raises(ZeroDivisionError):  # the lane says it
        observer.watching(other)("done")
    assert told == ["done"]
    observer.close()
