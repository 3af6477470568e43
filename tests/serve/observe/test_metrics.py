"""The figures of a server that was asked: they add up, on either plane, for other people's parsers."""

import hashlib
import itertools
import json

import grpc
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus
from seen_serving import ask, infer, seen, until
from whole_server import PLANES

from vitrify.serve.settings import ClientSettings

TOKEN = "a token that nobody else has"
CLIENT = ClientSettings(name="shop", token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest())
WITH = {"authorization": f"Bearer {TOKEN}"}
GOOD, BAD = 5, 2


@pytest.fixture(scope="module", params=PLANES)
def running(request, store):
    with seen(request.param, store, clients=(CLIENT,)) as running:
        assert [infer(running.http, rows, headers=WITH) for rows in range(1, GOOD + 1)] == [200] * GOOD
        assert [infer(running.http, 1, "nobody", headers=WITH) for _ in range(BAD)] == [404] * BAD
        assert ask(running.http, "/nowhere", headers=WITH)[0] == 404
        # A lane counts a batch when its answers have gone.
        until(lambda: running.server.engine.figures("times", "1").rows == sum(range(GOOD + 1)))
        yield running


def scraped(running, accept=""):
    status, headers, body = ask(running.http, "/metrics", headers={**WITH, "accept": accept})
    assert status == 200
    read = read_openmetrics if "openmetrics" in headers["content-type"] else read_prometheus
    families = list(read(body.decode()))
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


NAMED = (("model", "times"), ("version", "1"))


def value(found, name, **labels):
    return found[name, *sorted([*labels.items()])]


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"])
def test_a_version_has_its_figures(running, accept):
    found = scraped(running, accept)
    model = dict(NAMED)
    assert value(found, "vitrify_model_requests_total", **model, error="") == GOOD
    assert value(found, "vitrify_model_rows_total", **model) == sum(range(GOOD + 1))
    assert value(found, "vitrify_model_batches_total", **model) == GOOD
    assert value(found, "vitrify_model_batch_rows_bucket", **model, le="2.0") == 2
    assert value(found, "vitrify_model_batch_rows_sum", **model) == sum(range(GOOD + 1))
    assert value(found, "vitrify_model_waiting", **model) == value(found, "vitrify_model_stuck", **model) == 0
    assert value(found, "vitrify_model_loads_total", **model) == 1
    assert value(found, "vitrify_model_share", **model) == 1
    states = {state: value(found, "vitrify_model_state", **model, state=state) for state in ("READY", "UNAVAILABLE")}
    assert states == {"READY": 1, "UNAVAILABLE": 0}
    digest = running.server.engine.served("times").digest
    assert value(found, "vitrify_model_info", **model, digest=digest, platform="onnx_onnxruntime") == 1
    for name in ("queue", "compute", "answer"):
        assert value(found, f"vitrify_model_{name}_seconds_count", **model) == GOOD
        assert value(found, f"vitrify_model_{name}_seconds_bucket", **model, le="+Inf") == GOOD


def test_a_route_counts_what_was_answered_whoever_answered_it(running):
    found = scraped(running)
    route = {"protocol": "rest", "route": "infer"}
    assert value(found, "vitrify_requests_total", **route, status="404") == BAD
    assert value(found, "vitrify_requests_total", protocol="rest", route="none", status="404") == 1
    assert value(found, "vitrify_requests_total", **route, status="200") == GOOD
    assert value(found, "vitrify_request_seconds_count", **route) == GOOD + BAD
    assert value(found, "vitrify_request_seconds_bucket", **route, le="+Inf") == GOOD + BAD
    assert value(found, "vitrify_received_bytes_total") > 100 * (GOOD + BAD)
    assert value(found, "vitrify_sent_bytes_total") > 100 * (GOOD + BAD)


def test_a_call_over_grpc_is_counted_by_its_method(running):
    before = scraped(running)
    route = {"protocol": "grpc", "route": "inference.GRPCInferenceService/ModelInfer"}
    with grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        for metadata in (WITH, {}):
            for message, path in ((b"", "ModelInfer"), (b"\xff", "ModelInfer"), (b"", "Nothing")):
                call = channel.unary_unary(f"/inference.GRPCInferenceService/{path}")
                with pytest.raises(grpc.RpcError):
                    call(message, timeout=60, metadata=tuple(metadata.items()))
    found = scraped(running)
    more = {key[1:]: count - before.get(key, 0) for key, count in found.items() if key[0] == "vitrify_requests_total"}
    told = {dict(labels)["status"]: count for labels, count in more.items() if dict(labels)["route"] == route["route"]}
    assert sum(told.values()) == 4
    assert told["16"] == 2  # who has no token
    assert not any("Nothing" in str(labels) for labels in more)


def test_the_process_and_the_build_are_told(running):
    found = scraped(running)
    assert value(found, "process_resident_memory_bytes") > 1e7
    assert value(found, "process_open_fds") > 3
    assert value(found, "process_cpu_seconds_total") > 0
    build = next(dict(labels) for name, *labels in found if name == "vitrify_build_info")
    assert build["plane"] == running.plane


def test_figures_and_the_data_of_the_page_need_a_token(running):
    assert [ask(running.http, path)[0] for path in ("/metrics", "/dashboard/data.json")] == [401, 401]
    assert ask(running.http, "/dashboard")[0] == 200


def test_who_is_not_let_in_is_counted(running):
    ask(running.http, "/metrics")
    infer(running.http, 1)
    assert value(scraped(running), "vitrify_requests_total", protocol="rest", route="refused", status="401") >= 2


def test_no_histogram_ever_falls(running):
    found = scraped(running)
    buckets = [key for key in found if key[0].endswith("_bucket")]
    by_labels = {
        key: [one for one in buckets if _without_le(one) == key] for key in {_without_le(one) for one in buckets}
    }
    for keys in by_labels.values():
        counts = [found[key] for key in sorted(keys, key=lambda key: float(dict(key[1:])["le"]))]
        assert all(before <= after for before, after in itertools.pairwise(counts))


def _without_le(key):
    return key[0], *[label for label in key[1:] if label[0] != "le"]


def test_the_data_of_the_page_is_what_happened(running):
    _, headers, body = ask(running.http, "/dashboard/data.json", headers=WITH)
    assert headers["cache-control"] == "no-store"
    said = json.loads(body)
    times = next(one for one in said["models"] if one["model"] == "times")
    assert (times["ok"], times["rows"], times["state"], times["share"]) == (GOOD, sum(range(GOOD + 1)), "READY", 1)
    assert len(times["answered"]["counts"]) == len(said["bounds"]["seconds"]) + 1
    assert [one["status"] for one in said["errors"] if one["route"] == "infer"] == [404] * BAD
    ready = {(one["model"], one["version"]) for one in said["events"] if one["what"] == "ready"}
    assert {("times", "1"), ("text", "1")} <= ready
