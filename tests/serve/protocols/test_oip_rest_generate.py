"""Plain values by name, and answers as they are made."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vitrify.core.errors import ModelError
from vitrify.serve.protocols import oip_rest_generate
from vitrify.serve.values import Reply
from vitrify.serve.web import Answer

DOUBLED = "/v2/models/doubled"
PERSON = {"age": 22.5, "ticket": 2**60 + 1, "class": "first"}


def events(text):
    assert text.endswith("\n\n")
    return [json.loads(part.removeprefix("data: ")) for part in text.strip().split("\n\n")]


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_one_row_goes_in_and_plain_values_come_out(rest, version):
    status, answer = rest.post(
        f"/v2/models/passengers{version}/generate", {**PERSON, "id": "a", "parameters": {"t": 1}}
    )
    assert status == 200, answer
    assert answer["label"] in {"lost", "saved"}
    assert len(answer["probability"]) == 2
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("passengers", "1", "a")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("doubled", {"x": [1, 2]}, "2 elements, but the shape"),
        ("doubled", {"x": ["a", 1, 2]}, 'x[0]: "a"'),
        ("doubled", {"x": {"a": 1}}, "x: an object"),
        ("doubled", {}, "x    | float32[batch, 3] | nothing"),
        ("passengers", {**PERSON, "age": "old"}, 'age[0]: "old"'),
        ("passengers", {**PERSON, "class": 1}, "class[0]: 1 where BYTES takes a string"),
        ("doubled", [1], "expected an object"),
    ],
)
@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_what_does_not_fit_is_named(rest, verb, path, body, message):
    status, answer = rest.post(f"/v2/models/{path}/{verb}", body)
    assert status == 400
    assert message in answer["error"]


def test_missing_values_are_null(rest):
    assert rest.post("/v2/models/passengers/generate", {**PERSON, "age": None, "class": None})[0] == 200


def test_columns_may_have_several_rows(rest):
    status, answer = rest.post(
        "/v2/models/passengers/generate", {"age": [1, 2], "ticket": [3, 4], "class": ["first", "third"]}
    )
    assert (status, len(answer["label"])) == (200, 2)


def test_a_stream_is_an_event_a_part(rest):
    answer = rest.client.post(f"{DOUBLED}/generate_stream", json={"x": [1, 2, 3]})
    assert answer.headers["content-type"] == "text/event-stream"
    (event,) = events(answer.text)
    assert event["y"] == [2, 4, 6]


def test_infer_stream_answers_as_infer_does(rest):
    body = {"id": "s", "inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": ["NaN", 2, 3]}]}
    (event,) = events(rest.client.post(f"{DOUBLED}/infer_stream", json=body).text)
    assert event == rest.post(f"{DOUBLED}/infer", body)[1]
    status, answer = rest.post(f"{DOUBLED}/infer_stream", {**body, "parameters": {"binary_data_output": True}})
    assert status == 400
    assert "binary_data" in answer["error"]


def said(reply):
    return json.dumps({"n": int(reply.outputs["y"][0])}).encode()


async def collected(parts):
    answer = await oip_rest_generate._events(parts, said, "request-1")
    assert isinstance(answer, Answer)
    return events("".join([piece.decode() async for piece in answer.body]))


async def made(count, error=None):
    for number in range(count):
        yield Reply("m", "1", {"y": np.array([number])})
    if error is not None:
        raise error


def test_every_part_is_an_event_in_its_order(rest):
    assert rest.run(collected(made(3))) == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("error", "message"), [(ModelError("it refused"), "it refused"), (KeyError("inside"), "internal error")]
)
def test_an_error_after_the_first_part_is_an_event_too(rest, error, message):
    *parts, last = rest.run(collected(made(2, error)))
    assert parts == [{"n": 0}, {"n": 1}]
    assert message in last["error"]
    assert "inside" not in last["error"]


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_client_that_leaves_ends_the_model_too(rest, taken):
    ended = []

    async def parts():
        try:
            for number in range(5):
                yield Reply("m", "1", {"y": np.array([number])})
        finally:
            ended.append(True)

    async def leave():
        answer = await oip_rest_generate._events(parts(), said, "request-1")
        for _ in range(taken):
            await anext(answer.body)
        await answer.body.aclose()

    rest.run(leave())
    assert ended or not taken  # what was never begun has nothing to end


@pytest.mark.parametrize("error", [None, ModelError("it refused")])
def test_an_error_before_the_first_part_has_a_status_of_its_own(rest, error):
    with pytest.raises(ModelError):
        rest.run(collected(made(0, error)))
