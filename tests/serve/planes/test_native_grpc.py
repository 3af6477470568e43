"""The native plane over gRPC: hot requests, and every kind of call that Python answers."""

from __future__ import annotations

import hashlib
import queue
import struct

import grpc
import numpy as np
import pytest

from vitrify.serve.planes._library import missing
from vitrify.testing.lane_models import LIMIT, Model, ask, opened, plug, twice, until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


@pytest.fixture(scope="module")
def serving():
    from native_serving import served

    with served() as serving:
        yield serving


@pytest.fixture
def channel(serving):
    with serving.channel() as channel:
        yield channel


@pytest.fixture
def lane(serving):
    with opened(serving.plane.lane, twice) as lane:
        yield lane


def field(number, payload):
    """One field with a length, of a protobuf message."""
    size, prefix = len(payload), bytearray([number << 3 | 2])
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes(prefix + bytes([size])) + payload


def asked(array, name=b"x", version=b""):
    """A ModelInferRequest with raw contents: model_name 1, model_version 2, inputs 5, raw_input_contents 7."""
    shape = field(3, b"".join(struct.pack("B", size) for size in array.shape))
    tensor = field(1, name) + field(2, b"FP32") + shape
    return field(1, b"glass") + field(2, version) + field(5, tensor) + field(7, array.tobytes())


def infer(channel, message, **more):
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    return call(message, timeout=more.pop("timeout", LIMIT), **more)


def rows(*values):
    return np.array([[value, value, value] for value in values], np.float32)


def refused(call):
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code(), raised.value.details()


def test_a_hot_request_is_answered_by_the_lane(lane, channel):
    answer = infer(channel, asked(rows(1, 2)))
    assert b"glass" in answer
    assert (rows(1, 2) * 2).tobytes() in answer
    assert np.array([1, 2]).tobytes() in answer
    assert lane.figures().ok == 1


def test_what_does_not_fit_is_refused_by_name(lane, channel):
    code, details = refused(lambda: infer(channel, asked(rows(1), b"w")))
    assert (code, 'no input "w"' in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_a_version_that_is_not_here_is_left_to_python(lane, channel):
    assert infer(channel, asked(rows(1), version=b"9")).endswith(b"||")


def test_a_deadline_that_passes_is_kept_and_the_request_is_not_run(serving, channel):
    model = Model(held=True)
    with opened(serving.plane.lane, model) as lane:
        plug(lane, model)
        code, _ = refused(lambda: infer(channel, asked(rows(1)), timeout=0.05))
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED
        until(lambda: lane.figures().waiting == 0, "it left the queue")
        model.release()
    assert model.firsts == [[-1]]


def test_a_full_queue_is_said(serving, channel):
    model = Model(held=True)
    with opened(serving.plane.lane, model, queue=1) as lane:
        plug(lane, model)
        waiting = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future(asked(rows(1)))
        until(lambda: lane.figures().waiting == 1, "one waits")
        code, _ = refused(lambda: infer(channel, asked(rows(2))))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        model.release()
        assert (rows(1) * 2).tobytes() in waiting.result(LIMIT)


def test_many_calls_at_a_time_get_each_their_own(lane, channel):
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    futures = [call.future(asked(rows(value))) for value in range(200)]
    for value, future in enumerate(futures):
        assert (rows(value) * 2).tobytes() in future.result(LIMIT)


def test_python_answers_unary_calls(channel):
    call = channel.unary_unary("/t.T/Unary")
    assert call(b"hello", timeout=LIMIT, metadata=(("x-some", "thing"),)) == b"hello||thing"
    assert call(b"", timeout=LIMIT) == b"||"


def test_python_answers_streams(channel):
    call = channel.stream_stream("/t.T/Echo")
    assert list(call(iter([b"a", b"", b"b" * 100_000]), timeout=LIMIT)) == [b"aa", b"", b"b" * 200_000]
    assert list(call(iter([]), timeout=LIMIT)) == []


def test_an_error_in_a_stream_comes_after_what_was_answered(channel):
    call = channel.stream_stream("/t.T/Echo")(iter([b"a", b"refuse"]), timeout=LIMIT)
    assert next(call) == b"aa"
    assert refused(lambda: next(call))[0] == grpc.StatusCode.UNIMPLEMENTED


def test_answers_come_while_the_caller_still_sends(channel):
    got = queue.Queue()

    def messages():
        for number in range(5):
            yield b"%d" % number
            assert got.get(timeout=LIMIT) == b"%d%d" % (number, number)

    for answer in channel.stream_stream("/t.T/Echo")(messages(), timeout=LIMIT):
        got.put(answer)
    assert got.empty()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/t.T/Raises", grpc.StatusCode.INTERNAL, "internal error"),
        ("/t.T/Busy", grpc.StatusCode.RESOURCE_EXHAUSTED, "too much"),
        ("/t.T/Nowhere", grpc.StatusCode.UNIMPLEMENTED, "no method"),
    ],
)
def test_errors_are_statuses_and_tell_nothing(channel, path, code, said):
    found, details = refused(lambda: channel.unary_unary(path)(b"", timeout=LIMIT))
    assert (found, said in details) == (code, True)
    assert "secret" not in details


def test_a_caller_that_cancels_ends_the_method(serving, channel):
    serving.endpoints.entered.clear()
    call = channel.stream_stream("/t.T/Waits")(iter([]), timeout=LIMIT)
    assert serving.endpoints.entered.wait(LIMIT)
    call.cancel()
    assert serving.endpoints.cancelled.wait(LIMIT)


def test_a_caller_that_sends_more_than_is_taken_is_ended():
    from native_serving import served

    with served(body=1000) as serving, serving.channel() as channel:

        def messages():
            yield b"x" * 900
            assert serving.endpoints.entered.wait(LIMIT)  # before that, there would be nothing to cancel
            yield from [b"x" * 900] * 9

        call = channel.stream_stream("/t.T/Waits")(messages(), timeout=LIMIT)
        assert refused(lambda: next(call))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert serving.endpoints.cancelled.wait(LIMIT)


def trailing(call):
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return dict(raised.value.trailing_metadata())


def test_every_end_names_the_request_and_a_busy_one_says_when_to_come_again(serving, channel):
    metadata = (("x-request-id", "request-0001"),)

    def ended(path, message=b""):
        return trailing(lambda: channel.unary_unary(path)(message, timeout=LIMIT, metadata=metadata))

    assert ended("/t.T/Busy") == {"x-request-id": "request-0001", "retry-after": "1"}
    assert ended("/t.T/Raises") == {"x-request-id": "request-0001"}
    _, call = channel.unary_unary("/t.T/Unary").with_call(b"", timeout=LIMIT, metadata=metadata)
    assert dict(call.trailing_metadata()) == {"x-request-id": "request-0001"}
    _, call = channel.unary_unary("/t.T/Unary").with_call(b"", timeout=LIMIT)
    assert len(dict(call.trailing_metadata())["x-request-id"]) == 16
    model = Model(held=True)
    with opened(serving.plane.lane, model, queue=1) as lane:
        plug(lane, model)
        lane.submit(ask(1))
        infer = "/inference.GRPCInferenceService/ModelInfer"
        assert ended(infer, asked(rows(2))) == {"x-request-id": "request-0001", "retry-after": "1"}
        assert ended(infer, asked(rows(2), b"w")) == {"x-request-id": "request-0001"}
        model.release()


def test_a_refusal_before_the_message_is_read_says_so_too():
    from native_serving import served

    from vitrify.serve.settings import ClientSettings

    token = hashlib.sha256(b"ann").hexdigest()
    clients = [ClientSettings(name="ann", token_sha256=token, rate=0.001, burst=1)]
    with served(clients) as serving, serving.channel() as channel:
        call = channel.unary_unary("/t.T/Unary")
        refused = trailing(lambda: call(b"", timeout=LIMIT))
        assert list(refused) == ["x-request-id"]
        metadata = (("authorization", "Bearer ann"),)
        assert call(b"a", timeout=LIMIT, metadata=metadata) == b"a|ann|"
        with pytest.raises(grpc.RpcError) as raised:
            call(b"a", timeout=LIMIT, metadata=metadata)
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert raised.value.details().startswith("client 'ann' asks more than 0.001 times a second")
        assert int(dict(raised.value.trailing_metadata())["retry-after"]) > 1
