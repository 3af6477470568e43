"""The native plane over HTTP: hot requests, and everything that Python answers."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vitrify.serve.planes._library import missing
from vitrify.testing.lane_models import LIMIT, Model, opened, plug, twice, until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


@pytest.fixture(scope="module")
def serving():
    from native_serving import served

    with served() as serving:
        yield serving


@pytest.fixture
def lane(serving):
    with opened(serving.plane.lane, twice) as lane:
        yield lane


def values(answer, name="twice"):
    return next(output["data"] for output in answer["outputs"] if output["name"] == name)


def test_a_hot_request_is_answered_by_the_lane(serving, lane):
    status, headers, answer = serving.infer(1, 2, headers={"x-request-id": "caller-1"})
    assert (status, headers["x-request-id"]) == (200, "caller-1")
    assert (answer["model_name"], answer["model_version"]) == ("glass", "3")
    assert answer["parameters"]["digest"].startswith("sha256:")
    assert values(answer) == [2, 2.25, 2.5, 4, 4.25, 4.5]
    assert values(answer, "first") == [1, 2]
    assert lane.figures().ok == 1


def test_a_version_that_is_named_is_the_one_that_answers(serving, lane):
    status, _, answer = serving.infer(1, path="/v2/models/glass/versions/3/infer")
    assert (status, answer["model_version"]) == (200, "3")
    status, _, said = serving.infer(1, path="/v2/models/glass/versions/4/infer")
    assert (status, said["fields"]) == (200, {"model": "glass", "version": "4"})
    status, _, said = serving.infer(1, path="/v2/models/other/infer")
    assert (status, said["fields"]) == (200, {"model": "other"})


def test_a_request_larger_than_a_batch_is_whole_again(serving, lane):
    status, _, answer = serving.infer(*range(50))
    assert (status, values(answer, "first")) == (200, list(range(50)))
    assert lane.figures().batches == 7


def test_many_clients_get_each_their_own(serving, lane):
    def ask(value):
        status, _, answer = serving.infer(value)
        return status, values(answer, "first")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(200))) == [(200, [value]) for value in range(200)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": "w"}, "no input 'w'"),
        ({"shape": [1, 4], "data": [1, 2, 3, 4]}, "given is FP32 [1, 4]"),
        ({"data": [1, "a", 3]}, "data[1]"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(serving, lane, more, said):
    status, headers, answer = serving.infer(1, **more)
    assert status == 400
    assert said.replace("'", '"') in answer["error"]
    assert headers["x-request-id"]
    assert lane.figures().failed == {"SignatureError": 1}


def test_an_output_that_there_is_none_of_is_refused(serving, lane):
    body = {
        "inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}],
        "outputs": [{"name": "w"}],
    }
    status, _, answer = serving.call("POST", "/v2/models/glass/infer", json.dumps(body))
    assert (status, "no output" in json.loads(answer)["error"]) == (400, True)


@pytest.mark.parametrize("more", [{"shape": [0, 3], "data": []}, {"datatype": "FP64"}], ids=["no rows", "another type"])
def test_what_only_python_knows_is_left_to_python(serving, lane, more):
    status, _, said = serving.infer(1, **more)
    assert (status, said["fields"]) == (200, {"model": "glass"})


def test_a_large_body_is_right(serving):
    with opened(serving.plane.lane, twice, rows=100_000) as lane:
        status, _, answer = serving.infer(*range(30_000))
        assert (status, values(answer, "first")) == (200, list(range(30_000)))
        assert lane.figures().ok == 1


def test_binary_tensors_travel_both_ways(serving, lane):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = {"name": "x", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": array.nbytes}}
    head = json.dumps(
        {"inputs": [tensor], "outputs": [{"name": "twice", "parameters": {"binary_data": True}}]}
    ).encode()
    fields = {"inference-header-content-length": str(len(head))}
    status, headers, body = serving.call("POST", "/v2/models/glass/infer", head + array.tobytes(), fields)
    assert status == 200
    size = int(headers["inference-header-content-length"])
    assert body[size:] == (array * 2).tobytes()


def test_a_deadline_that_passes_is_told_while_the_model_is_busy(serving):
    model = Model(held=True)
    with opened(serving.plane.lane, model) as lane:
        plug(lane, model)
        status, _, answer = serving.infer(1, headers={"x-request-timeout-ms": "20"})
        assert (status, "deadline" in answer["error"]) == (504, True)
        model.release()
    assert model.firsts == [[-1]]


def test_a_full_queue_says_when_to_come_again(serving):
    model = Model(held=True)
    with opened(serving.plane.lane, model, queue=1) as lane, ThreadPoolExecutor(1) as pool:
        plug(lane, model)
        waiting = pool.submit(serving.infer, 1)
        until(lambda: lane.figures().waiting == 1, "one waits")
        status, headers, answer = serving.infer(2)
        assert (status, "full" in answer["error"]) == (429, True)
        assert int(headers["retry-after"]) >= 1
        model.release()
        assert waiting.result(LIMIT)[0] == 200


def test_a_model_that_raises_harms_only_the_request_that_made_it(serving):
    def run(inputs):
        if (inputs["x"] < 0).any():
            raise ZeroDivisionError("a negative row")
        return twice(inputs)

    with opened(serving.plane.lane, run), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(serving.infer, [1, -2, 3, -4, 5] * 4))
    assert [status for status, _, _ in answers] == [200, 422, 200, 422, 200] * 4
    assert "ZeroDivisionError: a negative row" in answers[1][2]["error"]


def test_who_has_left_is_not_run(serving):
    model = Model(held=True)
    with opened(serving.plane.lane, model) as lane:
        plug(lane, model)
        body = b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[7,7,7]}]}'
        with socket.create_connection(("127.0.0.1", serving.port)) as client:
            client.sendall(b"POST /v2/models/glass/infer HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            until(lambda: lane.figures().waiting == 1, "it waits")
        until(lambda: lane.figures().failed == {"CancelledError": 1}, "it was let go")
        model.release()
    assert model.firsts == [[-1]]


def test_lanes_that_take_each_others_place_lose_no_request(serving):
    stopped, statuses = threading.Event(), []

    def ask():
        while not stopped.is_set():
            statuses.append(serving.infer(1)[0:3:2])

    lanes = [serving.plane.lane(spec_of(0), twice, None)]
    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    for number in range(1, 15):
        before = len(statuses)
        lanes.append(serving.plane.lane(spec_of(number), twice, None))
        lanes[-2].close(LIMIT)
        until(lambda before=before: len(statuses) > before, "some were answered")
    stopped.set()
    for thread in asking:
        thread.join()
    lanes[-1].close(LIMIT)
    assert {status for status, _ in statuses} == {200}
    assert all("outputs" in answer for _, answer in statuses)


def spec_of(number):
    from dataclasses import replace

    from vitrify.testing.lane_models import spec

    return replace(spec(), digest=f"sha256:{number:064x}")


def test_python_gets_the_whole_call(serving):
    status, headers, body = serving.call("POST", "/said/a%20b/c?x=1&y&x=%C3%A9", b"text", {"X-Twice": "1"})
    said = json.loads(body)
    assert (status, headers["x-own"]) == (200, "yes")
    assert (said["path"], said["fields"], said["query"]) == ("/said/a b/c", {"name": "a b/c"}, {"x": "é", "y": ""})
    assert (said["body"], said["twice"]) == ("text", "1")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_is_without_its_coding(serving, coding):
    body = gzip.compress(b"text") if coding == "gzip" else zlib.compress(b"text")
    status, _, answer = serving.call("POST", "/said/it", body, {"content-encoding": coding})
    assert (status, json.loads(answer)["body"]) == (200, "text")
    assert serving.call("POST", "/said/it", b"text", {"content-encoding": coding})[0] == 400


def test_a_body_that_is_too_long_is_refused():
    from native_serving import served

    with served(body=1000) as serving:
        assert serving.call("POST", "/said/it", b"x" * 1000)[0] == 200
        assert serving.call("POST", "/said/it", b"x" * 1001)[0] == 413
        assert serving.call("POST", "/said/it", gzip.compress(b"x" * 10_000), {"content-encoding": "gzip"})[0] == 413


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("DELETE", "/waits", 405)])
def test_what_is_not_there_is_said(serving, method, path, status):
    assert serving.call(method, path)[0] == status


def test_an_error_of_ours_tells_nothing(serving):
    status, headers, body = serving.call("GET", "/raises")
    assert status == 500
    assert headers["x-request-id"] in body.decode()
    assert b"secret" not in body
    assert serving.faults[-1][0] == headers["x-request-id"]


def test_a_busy_endpoint_says_when_to_come_again(serving):
    status, headers, _ = serving.call("GET", "/busy")
    assert (status, headers["retry-after"]) == (429, "7")


def test_a_head_has_no_body(serving):
    status, headers, body = serving.call("HEAD", "/said/it")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_pieces_come_in_order(serving, count):
    status, _, body = serving.call("GET", f"/pieces/{count}")
    assert (status, body) == (200, b"".join(b"%d\n" % number for number in range(count)))


def test_a_client_that_leaves_ends_the_endpoint(serving):
    serving.endpoints.entered.clear()
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=LIMIT)
    connection.request("GET", "/waits")
    assert serving.endpoints.entered.wait(LIMIT)
    connection.close()
    assert serving.endpoints.cancelled.wait(LIMIT)
    until(lambda: serving.plane.figures()["calls"] == 0, "it is forgotten")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"inputs":' + b"[" * 100_000,
        b'{"inputs":[{"name":"x","shape":[4294967296,4294967296],"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[-1,3],"datatype":"FP32","data":[1,2,3]}]}',
        b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP99","data":[1,2,3]}]}',
        b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2]}]}',
        b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,{}]}]}',
        b'{"inputs":[{"name":"' + b"x" * 10_000 + b'","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}',
    ],
)
def test_what_is_no_request_is_refused_and_harms_nobody(serving, lane, body):
    status, _, answer = serving.call("POST", "/v2/models/glass/infer", body)
    assert status == 400
    assert len(json.loads(answer)["error"]) < 1000
    assert serving.infer(1)[0] == 200


def test_who_leaves_in_the_middle_harms_nobody(serving, lane):
    whole = (
        b'POST /v2/models/glass/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 60\r\n\r\n{"inputs":[{"name":"x","shape"'
    )
    for end in range(1, len(whole), 7):
        with socket.create_connection(("127.0.0.1", serving.port)) as client:
            client.sendall(whole[:end])
    assert serving.infer(1)[0] == 200
    assert lane.figures().failed == {}
