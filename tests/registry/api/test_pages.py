"""What the server says about itself: its description is true, its figures add up."""

import json
import re

import pytest
from servers import call

from vitrify.registry.api import openapi
from vitrify.registry.api.metrics import BOUNDS, Metrics
from vitrify.registry.requests import OPERATIONS


@pytest.fixture(scope="module")
def token(registry_server):
    return registry_server.token("reader")


def test_the_description_is_valid_openapi():
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(openapi.document())


def test_the_description_names_every_operation_once(registry_server, token):
    status, headers, data = call(registry_server, "GET", "/openapi.json", token=token)
    assert (status, headers["content-type"]) == (200, "application/json")
    document = json.loads(data)
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS) + 8
    assert {request.__name__ for request in OPERATIONS} <= set(names)
    for path in document["paths"].values():
        for one in path.values():
            assert {"400", "401", "403", "404", "409", "500", "503"} <= one["responses"].keys()
            assert one["summary"]


def test_nothing_in_the_description_leads_nowhere():
    text = openapi.description().decode()
    document = json.loads(text)
    for reference in re.findall(r'"\$ref":"#/([^"]+)"', text):
        found = document
        for part in reference.split("/"):
            found = found[part]
    assert "__unknown__" not in text


def test_health_is_open_and_says_no_more_than_that(registry_server):
    assert call(registry_server, "GET", "/health/live")[2] == b'{"status":"live"}'
    assert call(registry_server, "GET", "/health/ready")[2] == b'{"status":"ready"}'


def test_the_list_of_operations_is_whole_and_runs_nothing(registry_server, token):
    status, headers, data = call(registry_server, "GET", "/docs", token=token)
    page = data.decode()
    assert status == 200
    assert "script-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "<script" not in page
    assert "://" not in page
    assert all(operation.path.partition("{")[0] in page for operation in OPERATIONS.values())


def figures_of(server, token):
    text = call(server, "GET", "/metrics", token=token)[2].decode()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_figures_count_what_was_asked(registry_server, token):
    before = figures_of(registry_server, token)
    for _ in range(3):
        call(registry_server, "GET", "/v1/events/head", token=token)
    call(registry_server, "GET", "/v1/models/none", token=token)
    after = figures_of(registry_server, token)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert grown['vitrify_requests_total{operation="GetHead",status="200"}'] == 3
    assert grown['vitrify_requests_total{operation="GetModel",status="404"}'] == 1
    assert grown['vitrify_request_seconds_count{operation="GetHead"}'] == 3
    assert grown['vitrify_request_seconds_bucket{operation="GetHead",le="+Inf"}'] == 3
    assert after["vitrify_requests_in_flight"] == 1  # this one
    assert grown["vitrify_sent_bytes_total"] > 0


def test_a_histogram_counts_each_time_once_and_its_buckets_add_up():
    metrics = Metrics()
    times = [0.0005, 0.001, 0.003, 0.2, 99.0]
    for seconds in times:
        metrics.begin()
        metrics.end("Op", 200, seconds, 1, 2)
    text = metrics.text()
    buckets = [int(count) for count in re.findall(r'_bucket\{operation="Op",le="[^"]+"\} (\d+)', text)]
    assert len(buckets) == len(BOUNDS) + 1
    assert buckets == sorted(buckets)
    assert buckets[0] == 2
    assert buckets[-1] == len(times)
    assert f'vitrify_request_seconds_sum{{operation="Op"}} {sum(times):.6f}' in text
    assert "vitrify_requests_in_flight 0" in text


def test_a_method_that_a_path_does_not_have_says_which_it_has(registry_server, token):
    status, headers, _ = call(registry_server, "PATCH", "/v1/events/head", token=token)
    assert (status, headers["allow"]) == (405, "GET")
    assert call(registry_server, "HEAD", "/v1/events/head", token=token)[::2] == (200, b"")
