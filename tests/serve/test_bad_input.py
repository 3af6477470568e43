"""Bytes that no honest client sends, to a whole server on either plane: a right status, and nobody else is harmed."""

from __future__ import annotations

import gzip
import json
import os
import socket
from pathlib import Path

import grpc
import pytest
from both_planes import INFER
from plugged import (
    PREFACE,
    SETTINGS,
    answers,
    call,
    connected,
    document,
    exactly,
    exchange,
    firsts,
    frame,
    head,
    plugged,
    rpc,
    well,
)
from whole_server import PLANES, whole

from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, Model, twice, until

BODY = 1 << 20
INFLATED = 64 * BODY
HEADERS, RESET, GOAWAY = 1, 3, 7


def resources():
    """Return how many threads and file descriptors this process has, and the bytes of its memory."""
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return threads, descriptors, memory


@pytest.fixture(scope="module", params=PLANES)
def running(request, tmp_path_factory):
    """A server that ends with as many threads, file descriptors and about as much memory as after its first answers."""
    limits = {"body": BODY, "head_seconds": LIMIT, "body_seconds": LIMIT, "idle_seconds": LIMIT, "connections": 64}
    store = OciLayout(tmp_path_factory.mktemp("store"))
    with whole(request.param, store, (), server=limits) as running, plugged(running, twice, queue=16):
        for value in range(20):
            well(running, value)
        before = resources()
        yield running
        well(running, 1)
        until(lambda: resources()[1] <= before[1] + 4, "every connection was closed")
        until(lambda: resources()[0] <= before[0] + 16, "no thread was left behind")
        assert resources()[2] < before[2] + INFLATED, "of all that was sent, not even what the bomb holds was kept"


def deep(levels):
    return b'{"inputs": ' + b"[" * levels + b"]" * levels + b"}"


BOMB = gzip.compress(bytes(INFLATED))
WHOLE = document(1)
CHUNKED = "transfer-encoding: chunked"
CASES = {
    "truncated JSON": (head(WHOLE[:-5]), 400),
    "no JSON": (head(b"\xff\xfe\x00"), 400),
    "nothing": (head(b""), 400),
    "a list": (head(b"[]"), 400),
    "deep JSON": (head(deep(100_000)), {400, 413}),
    "deep JSON where nobody looks": (head(document(1, own=1)[:-2] + deep(10_000) + b"}"), {400, 413}),
    "more than is taken": (head(b" " * (BODY + 1)), 413),
    "a huge length": (head(b"{}", length=10**17), 413),
    "a length beyond numbers": (head(b"{}", length=10**30), {400, 413}),
    "a negative length": (head(b"{}", length=-1), 400),
    "a length that is none": (head(b"{}", length="two"), 400),
    "two lengths": (head(b"{}", "content-length: 3"), 400),
    "a length and chunks": (head(b"2\r\n{}\r\n0\r\n\r\n", CHUNKED, length=4), {400}),
    "a chunk that is none": (head(b"zz\r\n{}\r\n0\r\n\r\n", CHUNKED), 400),
    "chunks of more than is taken": (head(b"%x\r\n" % (BODY + 9) + b" " * (BODY + 9) + b"\r\n0\r\n\r\n", CHUNKED), 413),
    "a coding that nobody knows": (head(WHOLE, "content-encoding: br"), {400, 415}),
    "a gzip bomb": (head(BOMB, "content-encoding: gzip"), 413),
    "gzip that is cut": (head(gzip.compress(WHOLE)[:-3], "content-encoding: gzip"), 400),
    "gzip that is none": (head(WHOLE, "content-encoding: gzip"), 400),
    "a header's length beyond the body": (head(WHOLE, "inference-header-content-length: 100000"), 400),
    "a header's length that is none": (head(WHOLE, "inference-header-content-length: 1e3"), 400),
    "bytes that no input takes": (head(WHOLE + b"1234", f"inference-header-content-length: {len(WHOLE)}"), 400),
    "an open model, a closed path": (head(WHOLE, path="/v2/models/glass/infer/../../x"), 404),
    "a path of escapes": (head(WHOLE, path="/v2/models/%ff%00%2e/infer"), 404),
    "a method that nobody knows": (head(b"", method="BREW"), {400, 405, 501}),
    "a method that is not for it": (head(b"", method="DELETE"), 405),
    "a huge head": (head(b"{}", f"x-own: {'x' * 100_000}"), {400, 431}),
    "a huge path": (head(b"{}", path="/" + "x" * 100_000), {400, 414, 431}),
    "a name with a space": (head(b"{}", "x own: 1"), 400),
    "a value with a zero": (head(b"{}", "x-own: a\0b"), 400),
    "no version": (b"GET /v2\r\n\r\n", {200, 400, 505}),
    "a version from elsewhere": (b"GET /v2 HTTP/9.9\r\nhost: here\r\n\r\n", {400, 505}),
    "HTTP/2": (PREFACE + SETTINGS, {400, 505}),
    "anything": (bytes(range(256)) * 16, {400, None}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_request_is_refused(running, case):
    sent, expected = CASES[case]
    found = answers(exchange(running.http, sent))
    status, headers, body = found[0] if found else (None, {}, b"")
    assert status in (expected if isinstance(expected, set) else {expected}), (status, body)
    assert b"Traceback" not in body
    if status != 200 and headers.get("content-type", "").startswith("application/json"):
        assert json.loads(body)["error"]
    well(running)


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (("content-type: text/plain",), WHOLE),
        (("content-type: ",), WHOLE),
        (("expect: 100-continue",), WHOLE),
        (("content-encoding: gzip",), gzip.compress(WHOLE)),
        (("upgrade: websocket", "connection: upgrade, close"), WHOLE),
        (("connection: upgrade, http2-settings, close", "upgrade: h2c", "http2-settings: AAEAAEAA"), WHOLE),
        ((CHUNKED,), b"%x;own=1\r\n%s\r\n0\r\nx-own: 1\r\n\r\n" % (len(WHOLE), WHOLE)),
        ((CHUNKED,), b"".join(b"1\r\n%c\r\n" % byte for byte in WHOLE) + b"0\r\n\r\n"),
    ],
    ids=["text", "no type", "expects", "gzip", "upgrade", "Java's", "extensions and trailers", "a chunk a byte"],
)
def test_what_is_unusual_is_answered(running, fields, body):
    found = answers(exchange(running.http, head(body, *fields)))
    assert [(status, firsts(body)) for status, _, body in found] == [(200, [1])]


def test_pipelined_requests_are_answered_in_their_order(running):
    sent = b"".join(head(document(value), keep=True) for value in range(10)) + head(method="GET", path="/v2")
    found = answers(exchange(running.http, sent))
    assert [firsts(body) for _, _, body in found[:-1]] == [[value] for value in range(10)]
    assert (len(found), found[-1][0]) == (11, 200)


def test_wishes_for_another_protocol_are_passed_over_however_many_there_are(running):
    wish = head(b"", "connection: upgrade", "upgrade: h2c", method="GET", path="/v2", keep=True)
    found = answers(exchange(running.http, wish * 600 + head(document(2))))
    assert {status for status, _, _ in found[:-1]} == {200}
    assert (len(found), firsts(found[-1][2])) == (601, [2])


def test_a_request_that_comes_byte_by_byte_is_answered(running):
    sent = head(document(7))
    found = answers(exchange(running.http, *(sent[at : at + 1] for at in range(len(sent)))))
    assert [(status, firsts(body)) for status, _, body in found] == [(200, [7])]


BEGUN = PREFACE + SETTINGS
HOSTILE = {
    "HTTP/1.1": b"POST /v2/models/glass/infer HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512),
    "anything": bytes(range(256)) * 64,
    "half a preface": PREFACE[:10],
    "a frame first that is not of settings": PREFACE + frame(6, payload=bytes(8)),
    "a frame of 16 MiB": BEGUN + frame(0, 0, 1, length=2**24 - 1) + bytes(1000),
    "settings of a wrong size": PREFACE + frame(4, payload=bytes(5)),
    "settings that are none": PREFACE + frame(4, payload=b"\0\4\xff\xff\xff\xff"),
    "data without a stream": BEGUN + frame(0, 0, 0, b"x"),
    "data of nobody's stream": BEGUN + frame(0, 0, 9, b"x"),
    "an even stream": BEGUN + call(2),
    "a broken block": BEGUN + frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff"),
    "a block that never ends": BEGUN + frame(1, 0, 1, b"\0") + frame(9, 0, 1, b"\0" * 99) * 2000,
    "another frame inside a block": BEGUN + frame(1, 0, 1, b"") + frame(6, payload=bytes(8)),
    "a window of nothing": BEGUN + frame(8, payload=bytes(4)),
    "a window beyond all": BEGUN + frame(8, payload=b"\x7f\xff\xff\xff") * 2,
    "padding beyond the frame": BEGUN + call(1) + frame(0, 8, 1, b"\xffx"),
    "a stream of itself": BEGUN + frame(2, 0, 1, b"\0\0\0\1\0"),
    "a promise": BEGUN + frame(5, 4, 1, b"\0\0\0\2"),
    "pings without end": BEGUN + frame(6, payload=bytes(8)) * 5000,
    "settings without end": BEGUN + SETTINGS * 5000,
    "streams that are reset": BEGUN + b"".join(call(at) + frame(3, 0, at, bytes(4)) for at in range(1, 4001, 2)),
    "empty data without end": BEGUN + call(1) + frame(0, 0, 1) * 5000,
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_call_is_refused(running, case):
    exchange(running.grpc, HOSTILE[case], end=True)
    well(running)


CALLS = {
    "a message that is cut off": call(1) + frame(0, 1, 1, b"\0\0\0\0\x0aabc"),
    "a message beyond all": call(1) + frame(0, 1, 1, b"\0\xff\xff\xff\xffabc"),
    "no message": call(1) + frame(0, 1, 1, b""),
    "two messages": call(1) + frame(0, 1, 1, b"\0\0\0\0\0" * 2),
    "a compressed message": call(1) + frame(0, 1, 1, b"\1\0\0\0\0"),
    "a flag that is none": call(1) + frame(0, 1, 1, b"\7\0\0\0\0"),
    "no gRPC": call(1, content=b"application/json") + frame(0, 1, 1, b"{}"),
    "an empty path": call(1, b"") + frame(0, 1, 1, b"\0\0\0\0\0"),
    "a path that leads nowhere": call(1, b"/x/y") + frame(0, 1, 1, b"\0\0\0\0\0"),
    "a timeout that is none": call(1, INFER.encode(), (b"grpc-timeout", b"soon")) + frame(0, 1, 1, b"\0\0\0\0\0"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_is_wrong_ends(running, case):
    with connected(running.grpc) as connection:
        connection.sendall(BEGUN + CALLS[case])
        kinds = set()
        while not kinds & {HEADERS, RESET, GOAWAY}:
            top = exactly(connection, 9)
            kinds.add(top[3])
            exactly(connection, int.from_bytes(top[:3], "big"))
    well(running)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (bytes(BODY + 100), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (b"\xff" * 20, grpc.StatusCode.INVALID_ARGUMENT),
        (rpc(1)[:-3], grpc.StatusCode.INVALID_ARGUMENT),
        (b"", grpc.StatusCode.NOT_FOUND),
        (rpc(1, model="nobody"), grpc.StatusCode.NOT_FOUND),
    ],
    ids=["large", "garbage", "cut off", "empty", "nobody's"],
)
def test_messages_that_are_wrong_have_their_code(running, sent, code):
    with grpc.insecure_channel(running.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(INFER)(sent, timeout=LIMIT)
    assert caught.value.code() is code, caught.value.details()
    assert "Traceback" not in caught.value.details()
    well(running)


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_who_leaves_in_the_middle_harms_nobody(running, share, reset):
    sent = head(document(*range(50)))
    for _ in range(10):
        with connected(running.http) as connection:
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(sent[: int(len(sent) * share)])
    well(running)


def test_who_leaves_while_the_model_runs_harms_nobody(running):
    model = Model(held=True)
    with plugged(running, model, "held", rows=4) as lane:
        sent = head(document(1), path="/v2/models/held/infer")
        with connected(running.http) as connection:
            connection.sendall(sent)
            model.entered()
        with grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            left = channel.unary_unary(INFER).future(rpc(2, model="held"), timeout=LIMIT)
            until(lambda: lane.figures().waiting == 1, "the second waits")
            left.cancel()
        well(running)
        model.release()
        until(lambda: lane.figures().running == lane.figures().waiting == 0, "nobody is left")
        found = answers(exchange(running.http, head(document(5), path="/v2/models/held/infer")))
        assert firsts(found[0][2]) == [5]
    well(running)


def test_a_model_that_raises_says_what_and_goes_on(running):
    def raises(inputs):
        if (inputs["x"] < 0).any():
            raise ZeroDivisionError("not that")
        return twice(inputs)

    with plugged(running, raises, "raises"):
        for value, status in [(-1, 422), (1, 200)] * 3:
            found = answers(exchange(running.http, head(document(value), path="/v2/models/raises/infer")))
            assert found[0][0] == status, found
        assert b"File" not in found[0][2]
        with grpc.insecure_channel(running.grpc) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(INFER)(rpc(-1, model="raises"), timeout=LIMIT)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "ZeroDivisionError" in caught.value.details()
            assert channel.unary_unary(INFER)(rpc(1, model="raises"), timeout=LIMIT)
    well(running)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: None,
        lambda _: {},
        lambda inputs: {"twice": inputs["x"]},
        lambda inputs: {"twice": inputs["x"][:0], "first": inputs["x"][:0, 0]},
        lambda _: [1],
    ],
    ids=["nothing", "no outputs", "one output", "no rows", "a list"],
)
def test_a_model_that_answers_nonsense_is_a_fault_of_the_model(running, answer):
    with plugged(running, answer, "nonsense"):
        found = answers(exchange(running.http, head(document(1), path="/v2/models/nonsense/infer")))
        assert found[0][0] in {422, 500}, found
        assert json.loads(found[0][2])["error"]
    well(running)


def test_a_model_that_hangs_is_given_up_and_others_go_on(running):
    model = Model(held=True)
    with plugged(running, model, "hangs", run_seconds=0.5, rows=1) as lane:
        path = "/v2/models/hangs/infer"
        found = answers(exchange(running.http, head(document(1), path=path)))
        assert found[0][0] in {422, 503, 504}, found
        until(lambda: lane.figures().stuck, "the lane says that it is stuck")
        found = answers(exchange(running.http, head(document(1), path=path)))
        assert found[0][0] == 503, found
        well(running)
        model.release()
        until(lambda: not lane.figures().stuck, "the model came back")

        def answered():  # again and again: on a machine that stalls, a run may take longer than it may
            [(status, _, body)] = answers(exchange(running.http, head(document(4), path=path)))
            return status == 200 and firsts(body) == [4]

        until(answered, "it is answered")
