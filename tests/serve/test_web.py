"""Routes: which path leads where, whatever a model is called."""

from __future__ import annotations

import http.client
import json

import numpy as np
import pytest
from served_models import ROWS, multiplier
from tritonclient.http import InferenceServerClient, InferInput
from whole_server import PLANES, whole

from vitrify.serve.settings import ModelSettings
from vitrify.serve.web import Answer, Route, Router
from vitrify.stores.oci_layout import OciLayout

PATTERNS = (
    *("GET /v2/models", "GET /v2/models/{model}", "GET /v2/models/{model}/versions/{version}"),
    *(
        "GET /v2/models/{model}/ready",
        "POST /v2/models/{model}/infer",
        "POST /v2/models/{model}/versions/{version}/infer",
    ),
    *("POST /v1/models/{model}:predict", "POST /v1/models/{model}/versions/{version}:predict", "GET /static/{rest*}"),
)


async def nothing(_call):
    return Answer()


ROUTER = Router(
    Route(*pattern.split(" "), nothing, pattern, lambda error, status: Answer(status, str(error).encode()))
    for pattern in PATTERNS
)


@pytest.mark.parametrize(
    ("asked", "label", "fields"),
    [
        ("GET /v2/models/wine", "GET /v2/models/{model}", {"model": "wine"}),
        ("GET /v2/models/risk/wine", "GET /v2/models/{model}", {"model": "risk/wine"}),
        ("GET /v2/models/risk/wine/ready", "GET /v2/models/{model}/ready", {"model": "risk/wine"}),
        ("GET /v2/models/risk/ready", "GET /v2/models/{model}/ready", {"model": "risk"}),
        ("POST /v2/models/a/b/c/infer", "POST /v2/models/{model}/infer", {"model": "a/b/c"}),
        (
            "POST /v2/models/a/b/versions/1/infer",
            "POST /v2/models/{model}/versions/{version}/infer",
            {"model": "a/b", "version": "1"},
        ),
        ("POST /v1/models/a/b:predict", "POST /v1/models/{model}:predict", {"model": "a/b"}),
        ("HEAD /v2/models/a/b", "GET /v2/models/{model}", {"model": "a/b"}),
        ("GET /static/a/b", "GET /static/{rest*}", {"rest": "a/b"}),
    ],
)
def test_a_path_leads_to_one_route(asked, label, fields):
    route, found = ROUTER.match(*asked.split(" "))
    assert (route.label, found) == (label, fields)


@pytest.mark.parametrize(
    ("asked", "methods"),
    [
        ("GET /v2/models/wine/infer", {"POST"}),
        ("GET /v2/models/risk/wine/infer", {"POST"}),
        ("POST /v2/models/risk/wine", {"GET"}),
        ("GET /v2/models/", set()),
        ("GET /v2/models//", set()),
        ("GET /v2/models/a//b", set()),
        ("GET /v2/models/a/../b", set()),
        ("GET /v2/models/a/./ready", set()),
        ("POST /v2/models/glass/infer/../../x", set()),
        ("GET /v2/models/a/", set()),
        ("GET /v3/models/a/b", set()),
    ],
)
def test_what_leads_nowhere_says_which_methods_there_are(asked, methods):
    assert ROUTER.match(*asked.split(" ")) == methods


@pytest.mark.slow
@pytest.mark.parametrize("plane", PLANES)
def test_a_model_of_a_team_is_asked_by_its_name(plane, tmp_path):
    store = OciLayout(tmp_path)
    multiplier(store, "risk/wine", 2)
    with whole(plane, store, [ModelSettings(reference="risk/wine")]) as running:
        client = InferenceServerClient(running.http)  # it writes a slash as it is
        given = InferInput("X", list(ROWS.shape), "FP32")
        given.set_data_from_numpy(ROWS)
        for version in ("", "1"):
            assert client.is_model_ready("risk/wine", version)
            assert client.get_model_metadata("risk/wine", version)["name"] == "risk/wine"
            answer = client.infer("risk/wine", [given], version)
            np.testing.assert_array_equal(answer.as_numpy("Y"), ROWS * 2)
        client.close()
        connection = http.client.HTTPConnection(running.http)
        for place in ("/v1/models/risk/wine:predict", "/v1/models/risk%2Fwine:predict"):
            connection.request("POST", place, json.dumps({"instances": ROWS[:1].tolist()}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert json.loads(answer.read())["predictions"][0]["Y"] == (ROWS[0] * 2).tolist()
        connection.close()
