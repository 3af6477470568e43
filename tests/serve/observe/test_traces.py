"""Traces reach a real receiver of OTLP over HTTP, in the caller's trace, with what the queue and the model took."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import tritonclient.grpc as triton
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import sampling
from seen_serving import ask, infer, seen
from tritonclient.utils import InferenceServerException
from whole_server import PLANES

from vitrify.core.errors import UsageError
from vitrify.serve.observe.traces import Traces, described
from vitrify.serve.settings import ClientSettings

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
UNSAMPLED = f"00-{TRACE}-{PARENT}-00"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SERVER = 2


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent in the server's ``received``."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def collector():
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.received = []
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(collector):
    return f"http://127.0.0.1:{collector.server_port}"


def spans(collector):
    """Return the spans by trace, with their attributes as a dict, and the resource's attributes."""
    found, resource = [], {}
    for path, request in collector.received:
        assert path == "/v1/traces"
        for one in request.resource_spans:
            resource |= plain(one.resource.attributes)
            found += [(span, plain(span.attributes)) for scope in one.scope_spans for span in scope.spans]
    return found, resource


def plain(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture(params=PLANES)
def plane(request):
    return request.param


def test_a_request_over_rest_is_a_span_of_the_callers_trace_with_its_queue_and_its_model(store, collector, plane):
    with seen(plane, store, server={"traces": address(collector)}) as running:
        headers = {"traceparent": TRACEPARENT, "x-request-id": "request-number-1"}
        assert infer(running.http, 3, headers=headers) == 200
        digest = running.server.engine.served("times").digest
    found, resource = spans(collector)
    assert resource["service.name"] == "vitrify"
    by_name = {span.name: (span, facts) for span, facts in found if span.trace_id.hex() == TRACE}
    assert set(by_name) == {"POST infer", "queue", "compute"}
    server, facts = by_name["POST infer"]
    assert (server.kind, server.parent_span_id.hex()) == (SERVER, PARENT)
    expected = {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.path": "/v2/models/times/infer",
        "vitrify.route": "infer",
        "vitrify.request.id": "request-number-1",
        "vitrify.model.name": "times",
        "vitrify.model.version": "1",
        "vitrify.model.digest": digest,
        "vitrify.rows": 3,
    }
    assert {name: facts[name] for name in expected} == expected
    queue, compute = by_name["queue"][0], by_name["compute"][0]
    assert queue.parent_span_id == compute.parent_span_id == server.span_id
    assert queue.start_time_unix_nano <= queue.end_time_unix_nano == compute.start_time_unix_nano
    assert compute.start_time_unix_nano <= compute.end_time_unix_nano <= server.end_time_unix_nano
    assert server.start_time_unix_nano <= server.end_time_unix_nano
    assert len({span.span_id for span, _ in found}) == len(found)


def test_a_call_over_grpc_is_a_span_whether_it_succeeds_or_not(store, collector, plane):
    with (
        seen(plane, store, server={"traces": address(collector)}) as running,
        triton.InferenceServerClient(running.grpc) as client,
    ):
        one = triton.InferInput("X", [2, 4], "FP32")
        one.set_data_from_numpy(np.zeros((2, 4), np.float32))
        client.infer("times", [one], headers={"traceparent": TRACEPARENT})
        with pytest.raises(InferenceServerException):
            client.infer("nobody", [one])
    found, _ = spans(collector)
    calls = [(span, facts) for span, facts in found if span.kind == SERVER]
    assert {span.name for span, _ in calls} == {"inference.GRPCInferenceService/ModelInfer"}
    good, bad = sorted(calls, key=lambda call: call[1]["rpc.grpc.status_code"])
    assert (good[0].trace_id.hex(), good[0].parent_span_id.hex()) == (TRACE, PARENT)
    assert (good[1]["rpc.system"], good[1]["vitrify.rows"], good[1]["rpc.grpc.status_code"]) == ("grpc", 2, 0)
    assert (bad[1]["rpc.grpc.status_code"], bad[1]["error.type"]) == (5, "ReferenceNotFoundError")


def test_a_trace_that_its_caller_does_not_sample_is_not_told(store, collector, plane):
    with seen(plane, store, server={"traces": address(collector)}) as running:
        assert infer(running.http, 1, headers={"traceparent": UNSAMPLED}) == 200
    assert not [span for span, _ in spans(collector)[0] if span.trace_id.hex() == TRACE]


def test_the_access_log_names_the_trace_and_the_route(store, collector, tmp_path, plane):
    path = tmp_path / "access.log"
    with seen(plane, store, server={"traces": address(collector), "access_log": str(path)}) as running:
        assert ask(running.http, "/v2/models/times", headers={"traceparent": TRACEPARENT})[0] == 200
        assert infer(running.http, 1, headers={"traceparent": UNSAMPLED}) == 200
        assert infer(running.http, 1) == 200
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    infers = [line for line in lines if line["route"] == "infer"]
    assert [line["trace"] == TRACE for line in infers] == [True, False]
    assert [line["trace"] for line in lines if line["route"] != "infer"] == [TRACE]
    assert infers[1]["trace"] in {span.trace_id.hex() for span, _ in spans(collector)[0]}


def test_a_share_of_the_traces_is_told_as_the_variables_say(store, collector, plane, monkeypatch):
    """By the rule that all of OpenTelemetry has, so that every part of a trace is there or none is."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    ids = {f"{1:016x}{number << 60 | 1:016x}": number < 8 for number in range(16)}
    with seen(plane, store, server={"traces": address(collector)}) as running:
        for id_ in ids:
            assert infer(running.http, 1, headers={"traceparent": f"00-{id_}-{PARENT}-00"}) == 200
    told = {span.trace_id.hex() for span, _ in spans(collector)[0]}
    assert told == {id_ for id_, sampled in ids.items() if sampled}


def test_what_is_refused_is_a_span_too(store, collector, plane):
    client = ClientSettings(name="ann", token_sha256="0" * 64)
    with seen(plane, store, clients=(client,), server={"traces": address(collector)}) as running:
        assert infer(running.http, 1, headers={"traceparent": TRACEPARENT}) == 401
    found = {span.name: facts for span, facts in spans(collector)[0] if span.trace_id.hex() == TRACE}
    assert found["POST refused"]["http.response.status_code"] == 401
    assert found["POST refused"]["url.path"] == "/v2/models/times/infer"


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (sampling.DEFAULT_ON, {"parents": True, "rate": 1.0}),
        (sampling.DEFAULT_OFF, {"parents": True, "rate": 0.0}),
        (sampling.ParentBasedTraceIdRatio(0.25), {"parents": True, "rate": 0.25}),
        (sampling.ALWAYS_ON, {"parents": False, "rate": 1.0}),
        (sampling.ALWAYS_OFF, {"parents": False, "rate": 0.0}),
        (sampling.TraceIdRatioBased(0.001), {"parents": False, "rate": 0.001}),
        (sampling.ParentBased(sampling.ALWAYS_OFF, sampling.ALWAYS_OFF), {"parents": False, "rate": 1.0}),
        (sampling.ParentBased(sampling.ALWAYS_OFF, sampling.TraceIdRatioBased(0.1)), {"parents": False, "rate": 1.0}),
    ],
)
def test_a_plane_is_told_what_a_sampler_does_and_all_where_it_cannot_know(sampler, expected):
    assert described(sampler.get_description()) == expected


@pytest.mark.parametrize("given", ["traceparent", "00-zz-1-01", f"{TRACEPARENT}-more", ""])
def test_a_traceparent_that_is_none_begins_a_trace(store, collector, given, plane):
    with seen(plane, store, server={"traces": address(collector)}) as running:
        assert infer(running.http, 1, headers={"traceparent": given}) == 200
    assert all(span.parent_span_id == b"" for span, _ in spans(collector)[0] if span.kind == SERVER)


@pytest.mark.parametrize("given", ["collector:4318", "ftp://a", "http://", "4318"])
def test_what_is_no_address_is_refused(given):
    with pytest.raises(UsageError, match="collector"):
        Traces(given)
