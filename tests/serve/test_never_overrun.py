"""The whole server is never overrun, on either plane: it refuses early, says so, and answers what it has taken."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from both_planes import INFER
from plugged import GLASS, answers, connected, document, exchange, firsts, head, plug_in, plugged, rest_of, rpc
from served_models import multiplier
from whole_server import PLANES, ROWS, whole
from wire import message

from vitrify.serve.protocols._messages import messages
from vitrify.serve.settings import ClientSettings, ModelSettings
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, Model, twice, until

TOKENS = {"often": "a", "alone": "b", "free": "c"}


@pytest.fixture(scope="module", params=PLANES)
def running(request, tmp_path_factory):
    with whole(request.param, OciLayout(tmp_path_factory.mktemp("store")), ()) as running:
        yield running


@contextlib.contextmanager
def channel(running):
    with grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel.unary_unary(INFER)


def refused(infer, sent, **more):
    """Return the error of a call, which must be refused."""
    with pytest.raises(grpc.RpcError) as caught:
        infer(sent, timeout=LIMIT, **more)
    return caught.value


def trailing(error):
    return dict(error.trailing_metadata() or ())


def first(answer):
    return int(
        np.frombuffer(messages("inference").ModelInferResponse.FromString(answer).raw_output_contents[1], np.int64)[0]
    )


@contextlib.contextmanager
def asking(running, lane, values, *fields, **more):
    """Have a request wait for each value, one after the other; yields what returns the first value of each answer."""
    with contextlib.ExitStack() as stack:
        connections = []
        for value in values:
            before = lane.figures().waiting + lane.figures().running
            connections.append(stack.enter_context(connected(running.http)))
            connections[-1].sendall(head(document(value, **more), *fields))
            until(lambda before=before: lane.figures().waiting + lane.figures().running > before, "it was taken")
        yield lambda: [firsts(answers(rest_of(one))[0][2])[0] for one in connections]


def test_a_full_queue_refuses_and_answers_what_it_has_taken(running):
    model = Model(held=True)
    with plugged(running, model, rows=1, queue=4) as lane, asking(running, lane, range(5)) as answered:
        assert lane.figures().waiting == 4
        for _ in range(3):
            [(status, fields, body)] = answers(exchange(running.http, head(document(9))))
            assert (status, int(fields["retry-after"]) >= 1) == (429, True)
            assert "wait" in json.loads(body)["error"]
        with channel(running) as infer:
            error = refused(infer, rpc(9))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert int(trailing(error)["retry-after"]) >= 1
        model.release()
        assert answered() == [0, 1, 2, 3, 4]
        assert lane.figures().failed == {"BusyError": 4}


def test_a_deadline_that_passes_in_the_queue_is_said_and_the_model_never_sees_the_request(running):
    model = Model(held=True)
    with plugged(running, model, rows=1) as lane, asking(running, lane, [0]) as answered:
        model.entered()
        [(status, _, body)] = answers(exchange(running.http, head(document(7), "x-request-timeout-ms: 30")))
        assert (status, "deadline" in json.loads(body)["error"]) == (504, True)
        [(status, _, _)] = answers(exchange(running.http, head(document(7, parameters={"timeout": 30_000}))))
        assert status == 504
        with channel(running) as infer:
            assert refused(infer, rpc(7, parameters=[("timeout", 30_000)])).code() is grpc.StatusCode.DEADLINE_EXCEEDED
            metadata = (("x-request-timeout-ms", "30"),)
            assert refused(infer, rpc(7), metadata=metadata).code() is grpc.StatusCode.DEADLINE_EXCEEDED
        model.release()
        assert answered() == [0]
        until(lambda: lane.figures().waiting == lane.figures().running == 0, "nobody is left")
        assert model.firsts == [[0]]
        assert lane.figures().failed == {"ExpiredError": 4}


def test_the_first_priority_comes_first_and_none_comes_last(running):
    model = Model(held=True)
    with plugged(running, model, rows=1) as lane, contextlib.ExitStack() as stack:
        answered = [stack.enter_context(asking(running, lane, [0]))]
        model.entered()
        for value, priority in ((1, 0), (2, 3), (3, 1), (4, 0), (5, 2)):
            answered.append(stack.enter_context(asking(running, lane, [value], parameters={"priority": priority})))
        with channel(running) as infer:
            urgent = infer.future(rpc(6, parameters=[("priority", 1)]), timeout=LIMIT)
            until(lambda: lane.figures().waiting == 6, "it was taken")
            model.release()
            assert first(urgent.result()) == 6
        assert [one()[0] for one in answered] == [0, 1, 2, 3, 4, 5]
        assert model.firsts == [[0], [3], [6], [5], [2], [1], [4]]


@pytest.fixture(scope="module", params=PLANES)
def guarded(request, tmp_path_factory):
    """A server with clients: one that may ask three times, one that may have one request open, and a free one."""
    more = {"often": {"rate": 0.001, "burst": 3}, "alone": {"concurrent": 1}, "free": {}}
    clients = tuple(
        ClientSettings(name=name, token_sha256=hashlib.sha256(token.encode()).hexdigest(), **more[name])
        for name, token in TOKENS.items()
    )
    with whole(request.param, OciLayout(tmp_path_factory.mktemp("store")), (), clients=clients) as running:
        yield running


def asked(running, name, value=1, path=f"/v2/models/{GLASS}/infer"):
    fields = [f"authorization: Bearer {TOKENS[name]}"] if name else []
    [answer] = answers(exchange(running.http, head(document(value), *fields, path=path)))
    return answer


def test_who_asks_too_often_waits_and_nobody_else_does(guarded):
    with plugged(guarded, twice), channel(guarded) as infer:
        assert [asked(guarded, "often")[0] for _ in range(3)] == [200] * 3
        status, fields, body = asked(guarded, "often")
        assert (status, int(fields["retry-after"]) > 100) == (429, True)
        assert "often" in json.loads(body)["error"]
        error = refused(infer, rpc(1), metadata=(("authorization", f"Bearer {TOKENS['often']}"),))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert int(trailing(error)["retry-after"]) > 100
        assert [asked(guarded, "free")[0] for _ in range(10)] == [200] * 10
        assert first(infer(rpc(4), metadata=(("authorization", f"Bearer {TOKENS['free']}"),))) == 4


def test_who_has_as_many_open_as_it_may_waits_for_an_answer(guarded):
    model = Model(held=True)
    authorization = f"authorization: Bearer {TOKENS['alone']}"
    with plugged(guarded, model) as lane, asking(guarded, lane, [1], authorization) as answered:
        for _ in range(2):
            status, fields, _ = asked(guarded, "alone")
            assert (status, fields["retry-after"]) == (429, "1")
        with channel(guarded) as infer:
            error = refused(infer, rpc(1), metadata=(("authorization", f"Bearer {TOKENS['alone']}"),))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        model.release()
        assert answered() == [1]
        assert asked(guarded, "alone")[0] == 200


@pytest.mark.parametrize("path", [f"/v2/models/{GLASS}/infer", "/v2/models/nobody/infer", "/v2", "/nowhere"])
def test_nobody_gets_nothing(guarded, path):
    with plugged(guarded, twice):
        status, _, body = asked(guarded, "", path=path)
        assert status == 401
        assert "token" in json.loads(body)["error"]
        with channel(guarded) as infer:
            assert refused(infer, rpc(1)).code() is grpc.StatusCode.UNAUTHENTICATED
            metadata = (("authorization", "Bearer wrong"),)
            assert refused(infer, rpc(1), metadata=metadata).code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("plane", PLANES)
def test_connections_beyond_the_limit_are_refused_and_later_taken(plane, tmp_path):
    with whole(plane, OciLayout(tmp_path), (), server={"connections": 6}) as running, contextlib.ExitStack() as held:
        plug_in(running, twice)
        others = [held.enter_context(connected(running.http)) for _ in range(12)]
        for one in others[:4]:
            one.sendall(head(document(1), keep=True))
            assert one.recv(65536).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
        statuses = {status for status, _, _ in answers(exchange(running.http, head(document(1))))}
        assert statuses <= {503}
        held.close()
        until(lambda: [one[0] for one in answers(exchange(running.http, head(document(1))))] == [200], "it is taken")


@pytest.mark.parametrize("plane", PLANES)
def test_all_that_was_taken_is_answered_before_the_server_ends(plane, tmp_path):
    model = Model(held=True)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as calls:
        running = stack.enter_context(whole(plane, OciLayout(tmp_path), (), seconds=LIMIT))
        lane = plug_in(running, model, rows=2)
        answered = calls.enter_context(asking(running, lane, range(9)))
        infer = calls.enter_context(channel(running))
        future = infer.future(rpc(9), timeout=LIMIT)
        until(lambda: lane.figures().waiting + lane.figures().running == 10, "all were taken")
        stop = running.server.plane.stop

        async def stopped(seconds):
            asyncio.get_running_loop().call_later(0.05, model.release)  # not before the plane drains
            return await stop(seconds)

        running.server.plane.stop = stopped
        ending = pool.submit(stack.close)  # it asserts that the end was orderly
        assert answered() == list(range(9))
        assert first(future.result()) == 9
        ending.result(LIMIT)
        with pytest.raises(OSError, match=r"refused"), connected(running.http):
            pass


def test_models_come_go_and_are_replaced_under_load_and_no_request_is_dropped(tmp_path_factory):
    for plane in PLANES:
        store = OciLayout(tmp_path_factory.mktemp("store"))
        factors = {str(multiplier(store, f"by{factor}", float(factor)).digest): factor for factor in (2, 3)}
        multiplier(store, "other", 5.0)
        with whole(plane, store, [ModelSettings(reference="by2", name="m", version="1")]) as running:
            _replaced(running, factors)


def _replaced(running, factors):
    done, seen = threading.Event(), set()
    raw = rpc_rows()

    def by_rest():
        connection = http.client.HTTPConnection(running.http, timeout=LIMIT)
        tensor = {"name": "X", "shape": list(ROWS.shape), "datatype": "FP32", "data": ROWS.ravel().tolist()}
        body, count = json.dumps({"inputs": [tensor]}), 0
        while not done.is_set() or not count:
            connection.request("POST", "/v2/models/m/infer", body)
            response = connection.getresponse()
            said = json.loads(response.read())
            assert response.status == 200, said
            factor = factors[said["parameters"]["digest"]]
            assert said["outputs"][0]["data"] == (ROWS * factor).ravel().tolist()
            seen.add(factor)
            count += 1
        connection.close()

    def by_grpc():
        with channel(running) as infer:
            count = 0
            while not done.is_set() or not count:
                answer = messages("inference").ModelInferResponse.FromString(infer(raw, timeout=LIMIT))
                factor = factors[answer.parameters["digest"].string_param]
                assert answer.raw_output_contents[0] == (ROWS * np.float32(factor)).tobytes()
                seen.add(factor)
                count += 1

    async def change(clients):
        engine = running.server.engine
        for at in range(6):
            factor = 3 - at % 2
            await engine.load(ModelSettings(reference=f"by{factor}", name="m", version="1"))
            seen.discard(factor)
            await asyncio.to_thread(until, lambda factor=factor: factor in seen or _any_ended(clients), "it answers")
            await engine.load(ModelSettings(reference="other", name="other"))
            await engine.unload("other")

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(ask) for ask in (by_rest, by_grpc, by_rest, by_grpc)]
        try:
            asyncio.run(change(clients))
        finally:
            done.set()
        for client in clients:
            client.result(LIMIT)
    assert seen == {2, 3}


def _any_ended(clients):
    """Say whether a client has ended before it was told to; what it found is raised where it is joined."""
    return any(client.done() for client in clients)


def rpc_rows():
    tensor = message((1, "X"), (2, "FP32"), (3, len(ROWS)), (3, ROWS.shape[1]))
    return message((1, "m"), (5, tensor), (7, ROWS.tobytes()))
