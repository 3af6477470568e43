"""The native plane as a house: who may come in, which version answers, the log, and the end."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import pytest

from vitrify.core.errors import MalformedError, MissingDependencyError, UsageError
from vitrify.serve.planes import _library
from vitrify.serve.planes._library import missing
from vitrify.serve.settings import ClientSettings
from vitrify.testing.lane_models import LIMIT, Model, opened, plug, spec, twice, until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


def served(*arguments, **settings):
    from native_serving import served

    return served(*arguments, **settings)


def client(name, **more):
    return ClientSettings(name=name, token_sha256=hashlib.sha256(name.encode()).hexdigest(), **more)


def bearing(token):
    return {"authorization": f"Bearer {token}"}


def test_where_there_are_clients_only_they_are_let_in():
    with served([client("ann")]) as serving, opened(serving.plane.lane, twice):
        for headers in ({}, bearing("bob"), {"authorization": "Basic ann"}):
            status, got, body = serving.call("GET", "/said/it", headers=headers)
            assert (status, bool(got["x-request-id"])) == (401, True)
            assert "token" in json.loads(body)["error"]
            assert serving.infer(1, headers=headers)[0] == 401
        status, _, body = serving.call("GET", "/said/it", headers=bearing("ann"))
        assert (status, json.loads(body)["client"]) == (200, "ann")
        assert serving.infer(1, headers=bearing("ann"))[0] == 200


def test_open_endpoints_need_no_token_and_only_they():
    with served([client("ann")]) as serving:
        assert serving.call("GET", "/open/it")[0] == 200
        assert serving.call("HEAD", "/open/it")[0] == 200
        for method, path in (("POST", "/open/it"), ("GET", "/open/it/"), ("GET", "/open/%69t"), ("GET", "/open%2Fit")):
            assert serving.call(method, path)[0] == 401
        with serving.channel() as channel:
            assert channel.unary_unary("/t.T/Open")(b"a", timeout=LIMIT) == b"a||"
            for path in ("/t.T/Unary", "/t.T/Nowhere", "/inference.GRPCInferenceService/ModelInfer"):
                with pytest.raises(grpc.RpcError) as raised:
                    channel.unary_unary(path)(b"a", timeout=LIMIT)
                assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as raised:
                list(channel.stream_stream("/t.T/Echo")(iter([b"a"]), timeout=LIMIT))
            assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
            metadata = (("authorization", "Bearer ann"),)
            assert channel.unary_unary("/t.T/Unary")(b"a", timeout=LIMIT, metadata=metadata) == b"a|ann|"


def test_the_table_of_clients_may_change():
    with served([client("ann")]) as serving:
        assert serving.call("GET", "/said/it", headers=bearing("bob"))[0] == 401
        serving.house.clients.replace((client("bob"),))
        assert serving.call("GET", "/said/it", headers=bearing("bob"))[0] == 200
        assert serving.call("GET", "/said/it", headers=bearing("ann"))[0] == 401


def test_a_client_that_asks_too_often_is_told_when_to_come_again():
    with served([client("ann", rate=0.001, burst=2), client("bob")]) as serving:
        statuses = [serving.call("GET", "/said/it", headers=bearing("ann"))[0] for _ in range(3)]
        assert statuses == [200, 200, 429]
        status, headers, _ = serving.call("GET", "/said/it", headers=bearing("ann"))
        assert (status, int(headers["retry-after"]) > 1) == (429, True)
        assert serving.call("GET", "/said/it", headers=bearing("bob"))[0] == 200


def test_a_client_has_no_more_requests_open_than_it_may():
    model = Model(held=True)
    with (
        served([client("ann", concurrent=1)]) as serving,
        opened(serving.plane.lane, model) as lane,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(serving.infer, 1, headers=bearing("ann"))
        until(lambda: lane.figures().running == 1, "it is being run")
        assert serving.infer(2, headers=bearing("ann"))[0] == 429
        model.release()
        assert first.result(LIMIT)[0] == 200
        assert serving.infer(3, headers=bearing("ann"))[0] == 200


def test_weights_and_keys_choose_the_version():
    with served() as serving:
        lanes = [serving.plane.lane(replace(spec(), version=version), twice, None) for version in ("1", "2")]
        assert serving.infer(1)[2]["model_version"] == "2"
        serving.plane.weigh("glass", (("1", 0.5), ("2", 0.5)))
        chosen = [serving.infer(1)[2]["model_version"] for _ in range(64)]
        assert set(chosen) == {"1", "2"}
        # fnv1a64("key-0") and so on: the same rule as the rollout's.
        for number in range(20):
            key = f"key-{number}"
            expected = "1" if _position(key) < 0.5 else "2"
            got = {serving.infer(1, headers={"x-vitrify-key": key})[2]["model_version"] for _ in range(3)}
            assert got == {expected}
        serving.plane.weigh("glass", (("1", 1.0), ("2", 0.0)))
        assert serving.infer(1)[2]["model_version"] == "1"
        for lane in lanes:
            lane.close(LIMIT)


def test_a_version_without_a_lane_is_drawn_again_by_the_same_key():
    with served() as serving, opened(serving.plane.lane, twice):
        serving.plane.weigh("glass", (("elsewhere", 1.0),))
        keys = {serving.infer(1)[2]["key"] for _ in range(5)}
        assert (len(keys), "" in keys) == (5, False)
        assert serving.infer(1, headers={"x-vitrify-key": "mine"})[2]["key"] == "mine"


def _position(key):
    value = 0xCBF29CE484222325
    for byte in key.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value >> 11) / 2**53


def test_each_hot_request_is_a_line_of_the_log(tmp_path):
    log = tmp_path / "access"
    with served([client("ann")], access_log=str(log)) as serving, opened(serving.plane.lane, twice):
        serving.infer(1, 2, headers=bearing("ann") | {"x-request-id": "request-0001"})
        serving.infer(1, headers=bearing("ann"), shape=[3, 1])
        until(lambda: log.read_text().count("\n") == 2, "both lines were written")
        line, refused = map(json.loads, log.read_text().splitlines())
        assert serving.plane.figures()["log_dropped"] == 0
    assert {name: line[name] for name in ("id", "client", "protocol", "model", "version", "status", "rows")} == {
        "id": "request-0001",
        "client": "ann",
        "protocol": "rest",
        "model": "glass",
        "version": "3",
        "status": 200,
        "rows": 2,
    }
    assert (refused["client"], refused["model"], refused["status"], refused["rows"]) == ("ann", "glass", 400, 0)
    assert line["digest"].startswith("sha256:")
    assert line["bytes"] > 100
    assert line["total_ms"] >= line["computed_ms"] > 0 <= line["queued_ms"]


def test_what_was_accepted_is_answered_before_the_end():
    model = Model(held=True)
    with served() as serving, opened(serving.plane.lane, model) as lane, ThreadPoolExecutor(3) as pool:
        plug(lane, model)
        asked = [pool.submit(serving.infer, value) for value in (1, 2)]
        until(lambda: lane.figures().waiting == 2, "both wait")
        stopping = pool.submit(serving.stop)
        until(lambda: not _listens(serving), "nothing more is accepted")
        model.release()
        assert [one.result(LIMIT)[0] for one in asked] == [200, 200]
        assert stopping.result(LIMIT)


def _listens(serving):
    try:
        serving.call("GET", "/said/it")
    except OSError:
        return False
    return True


def test_the_end_does_not_wait_for_ever():
    model = Model(held=True)
    with served() as serving, opened(serving.plane.lane, model), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(serving.infer, 1)
        model.entered()
        assert not serving.stop(0.05)
        assert asked.exception(LIMIT) is not None
        model.release()


def test_a_port_that_is_taken_is_said():
    with (
        served() as serving,
        pytest.raises(UsageError, match=str(serving.port)),
        served(host="256.1.1.1", port=serving.port),
    ):
        pass


def test_a_log_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(UsageError, match="access log"), served(access_log=str(tmp_path / "none" / "log")):
        pass


def test_a_table_that_is_none_is_refused():
    with served() as serving, pytest.raises(MalformedError, match="no SHA-256"):
        serving.plane.take_clients((ClientSettings(name="ann", token_sha256="zz"),))


@pytest.mark.parametrize(
    ("value", "said"), [("off", "turned off"), ("/nowhere/lib.so", "no lib.so"), (__file__, "loaded")]
)
def test_why_there_is_no_library_is_said(monkeypatch, value, said):
    monkeypatch.setenv("VITRIFY_PLANE", value)
    with pytest.raises(MissingDependencyError, match=said):
        _library.library.__wrapped__()


def test_no_thread_is_left():
    before = set(threading.enumerate())
    with served() as serving:
        serving.call("GET", "/said/it")
    assert set(threading.enumerate()) <= before
