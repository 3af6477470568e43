"""TensorFlow Serving's REST API: rows, columns, examples, and what is said of versions."""

from __future__ import annotations

import base64
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rest_serving import served_by

from vitrify.core.errors import LimitExceededError, MalformedError, SignatureError
from vitrify.core.signature import Field, Signature
from vitrify.serve.ports import DTYPES, port
from vitrify.serve.protocols import _tensorflow_request
from vitrify.serve.protocols import _tensorflow_results as results
from vitrify.serve.protocols._json import Raw, quote_constants
from vitrify.serve.protocols._tensorflow_json import WORDS, from_values, tensor

DOUBLED, PASSENGERS = "/v1/models/doubled", "/v1/models/passengers"
ROW = {"age": 22.5, "ticket": 2**60 + 1, "class": "first"}


def test_rows_give_rows_and_columns_give_columns(rest):
    assert rest.post(f"{DOUBLED}:predict", {"instances": [[1, 2, 3], [4, 5, 6]]}) == (
        200,
        {"predictions": [[2, 4, 6], [8, 10, 12]]},
    )
    assert rest.post(f"{DOUBLED}:predict", {"inputs": [[1, 2, 3]]}) == (200, {"outputs": [[2, 4, 6]]})
    assert rest.post(f"{DOUBLED}:predict", {"inputs": {"x": [[1, 2, 3]]}}) == (200, {"outputs": [[2, 4, 6]]})
    assert rest.post(f"{DOUBLED}:predict", {"instances": [{"x": [1, 2, 3]}]}) == (200, {"predictions": [[2, 4, 6]]})


@pytest.mark.parametrize("place", ["", "/versions/1", "/labels/stable"])
def test_versions_are_numbers_and_labels_are_aliases(rest, place):
    rest.labels["doubled"] = {"stable": "1"}
    assert rest.post(f"{DOUBLED}{place}:predict", {"instances": [[1, 2, 3]]})[0] == 200
    status, answer = rest.get(f"{DOUBLED}{place}")
    assert status == 200
    assert answer["model_version_status"] == [
        {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    ]
    status, answer = rest.get(f"{DOUBLED}{place}/metadata")
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert [one["size"] for one in signature["inputs"]["x"]["tensor_shape"]["dim"]] == ["-1", "3"]


@pytest.mark.parametrize("place", ["/versions/2", "/labels/none", "/versions/a"])
def test_an_unknown_version_is_not_found(rest, place):
    assert rest.get(f"{DOUBLED}{place}")[0] == 404
    assert rest.post(f"{DOUBLED}{place}:predict", {"instances": [[1, 2, 3]]})[0] == 404


def test_what_is_no_number_goes_both_ways_as_tokens(rest):
    answer = rest.client.post(f"{DOUBLED}:predict", content='{"instances": [[NaN, Infinity, -Infinity]]}')
    assert answer.text == '{"predictions": [[NaN,Infinity,-Infinity]]}'


def test_a_table_is_given_by_name_or_by_position(rest):
    named = rest.post(f"{PASSENGERS}:predict", {"instances": [ROW, {**ROW, "class": None}]})
    assert named[0] == 200, named
    assert rest.post(f"{PASSENGERS}:predict", {"instances": [list(ROW.values()), [22.5, 2**60 + 1, None]]}) == named
    columns = {name: [value, None if name == "class" else value] for name, value in ROW.items()}
    status, answer = rest.post(f"{PASSENGERS}:predict", {"inputs": columns})
    assert status == 200
    assert answer["outputs"]["label"] == [row["label"] for row in named[1]["predictions"]]


def test_every_datatype_is_exact(rest):
    row = {f"in_{kind}": [0, 1] for kind in ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32")}
    row |= {"in_BOOL": [True, False], "in_FP16": [0.1, 1], "in_FP32": [0.1, 16777217.5], "in_FP64": [0.1, 5e-324]}
    row |= {"in_INT64": [2**53 + 1, -(2**63)], "in_UINT64": [2**64 - 1, 0], "in_BYTES": ["a", "日本"]}
    status, answer = rest.post("/v1/models/everything:predict", {"instances": [row]})
    assert status == 200, answer
    (found,) = answer["predictions"]
    assert found["out_INT64"] == [2**53 + 1, -(2**63)]
    assert found["out_UINT64"] == [2**64 - 1, 0]
    assert np.float32(found["out_FP32"]).tolist() == np.float32([0.1, 16777217.5]).tolist()
    assert found["out_FP64"] == [0.1, 5e-324]
    assert found["out_BYTES"] == ["a", "日本"]


def test_classify_labels_every_score(rest):
    body = {"context": {"age": 30.0}, "examples": [{"ticket": 1, "class": ["first"]}, {**ROW, "class": "third"}]}
    status, answer = rest.post(f"{PASSENGERS}:classify", body)
    assert status == 200, answer
    assert [[label for label, _ in row] for row in answer["results"]] == [["lost", "saved"]] * 2
    assert all(math.isclose(sum(score for _, score in row), 1) for row in answer["results"])


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (f"{DOUBLED}:predict", {}, 400, "neither instances nor inputs"),
        (f"{DOUBLED}:predict", {"instances": [], "inputs": []}, 400, "both instances and inputs"),
        (f"{DOUBLED}:predict", {"instances": 1}, 400, "instances: expected an array"),
        (f"{DOUBLED}:predict", {"instances": [[1, 2]]}, 400, "axis 1 must be 3"),
        (f"{DOUBLED}:predict", {"instances": [[1, 2, 3], [4]]}, 400, "instances: 4 elements, but the shape"),
        (f"{DOUBLED}:predict", {"instances": [[1, "a", 3]]}, 400, 'instances[1]: "a"'),
        (f"{DOUBLED}:predict", {"instances": [{"z": 1}]}, 400, "no input is called 'z' (there are: x)"),
        (f"{DOUBLED}:predict", {"instances": [{"x": [1, 2, 3]}, {}]}, 400, "instances[1]: 'x' is in some"),
        (f"{DOUBLED}:predict", {"instances": [{"x": [1, 2, 3]}, 5]}, 400, "instances"),
        (f"{DOUBLED}:predict", {"inputs": {"z": 1}}, 400, "inputs: no input is called 'z'"),
        (f"{DOUBLED}:predict", {"instances": [[1, 2, 3]], "signature_name": "other"}, 404, "signature_name"),
        (f"{PASSENGERS}:predict", {"instances": [[1, 2]]}, 400, "instances[0]: 2 values, expected 3"),
        (f"{PASSENGERS}:predict", {"inputs": [1]}, 400, "the model has 3 inputs: age, class, ticket"),
        (f"{PASSENGERS}:predict", {"instances": [{**ROW, "class": {"b64": "!"}}]}, 400, "no base64"),
        (f"{PASSENGERS}:predict", {"instances": [{**ROW, "ticket": 2**63}]}, 400, "ticket[0]: 9223372036854775808"),
        (f"{PASSENGERS}:predict", {"instances": [{**ROW, "ticket": [[1]]}]}, 400, "ticket"),
        (f"{PASSENGERS}:classify", {}, 400, "no examples"),
        (f"{PASSENGERS}:classify", {"examples": []}, 400, "examples: none"),
        (f"{PASSENGERS}:classify", {"examples": [{"z": 1}]}, 400, "examples[0]: no input is called 'z'"),
        (f"{PASSENGERS}:classify", {"context": {"z": 1}, "examples": [ROW]}, 400, "context: no input is called 'z'"),
        (
            f"{PASSENGERS}:classify",
            {"context": {"class": "x" * 20_000}, "examples": [{}] * 4000},
            413,
            "context: 20012 bytes for each of 4000 examples",
        ),
        (f"{PASSENGERS}:regress", {"examples": [ROW]}, 400, "no output holds one number a row"),
        ("/v1/models/nope:predict", {"instances": []}, 404, "no model is called 'nope'"),
        (f"{DOUBLED}:predict", "{", 400, "not valid JSON"),
    ],
)
def test_what_is_wrong_is_named(rest, path, body, status, message):
    found, answer = rest.post(path, body)
    assert found == status, answer
    assert message in answer["error"]


def text_port(name="text", **options):
    return port(Field(name=name, dtype=options.pop("dtype", "string"), **options))


def test_bytes_are_base64_by_the_name_of_the_output_or_where_they_are_no_text():
    array = np.array(["a", b"\xff", None], object)
    encoded = base64.b64encode(b"a").decode()
    assert json.loads(WORDS.whole(array, "x")) == ["a", {"b64": "/w=="}, None]
    assert json.loads(WORDS.whole(array, "x_bytes")) == [{"b64": encoded}, {"b64": "/w=="}, None]
    assert [json.loads(part) for part in WORDS.parts(array, "x")] == ["a", {"b64": "/w=="}, None]


def test_bytes_come_in_as_base64():
    found = tensor(b'[{"b64":"/w=="},"text"]', text_port(dtype="bytes"), "x", gaps=False)
    assert found.tolist() == [b"\xff", b"text"]
    assert tensor(b'{"b64":"YQ=="}', text_port(shape=()), "x", gaps=False).tolist() == "a"


@pytest.mark.parametrize(
    "values",
    [b'[["a"],["b","c"]]', b'[["a"],"b"]', b"[1]", b'[{"b64":1}]', b'[{"b64":"YQ==","x":1}]', b'[{"b64":"*"}]'],
)
def test_text_must_be_rectangular_text(values):
    with pytest.raises((SignatureError, MalformedError), match=r"^x"):
        tensor(values, text_port(), "x", gaps=False)


@st.composite
def numbers(draw):
    datatype = draw(st.sampled_from(sorted(set(DTYPES) - {"BF16"})))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3))
    return draw(hnp.arrays(DTYPES[datatype], shape))


@given(numbers())
def test_the_shape_is_found_whatever_it_is(array):
    one = port(Field(name="x", dtype=array.dtype.name, shape=array.shape))
    back = tensor(quote_constants(WORDS.whole(array, "x")), one, "x", gaps=False)
    assert back.shape == array.shape
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")
    again = from_values(array.tolist(), one, "x", gaps=False)
    assert np.array_equal(again, array, equal_nan=array.dtype.kind == "f")


@given(st.text(alphabet='[]{},:"01.e-tfalsrun ').map(str.encode))
def test_any_json_is_a_tensor_or_an_error(text):
    try:
        json.loads(text)
    except ValueError:
        return
    for dtype in ("float32", "int8", "bool", "string", "object"):
        try:
            tensor(text, text_port(dtype=dtype), "x", gaps=True)
        except (SignatureError, MalformedError):
            continue


def test_few_bytes_do_not_become_many_values(monkeypatch):
    monkeypatch.setattr(_tensorflow_request, "MOST_VALUES", 5)
    served = served_by(*(Field(name=f"c{index}", dtype="float32") for index in range(3)))
    examples = {"examples": Raw(b'[{"c0":1},{}]')}
    with pytest.raises(LimitExceededError, match="examples: 2 of 3 features"):
        _tensorflow_request.examples_of(examples, served)


LABEL = Field(name="label", dtype="string", classes=("a", "b"))
SCORES = Field(name="score", dtype="float32", shape=("batch", 2))


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        ((LABEL, SCORES), "score"),
        ((SCORES, SCORES.replace(name="p", classes=("a", "b"))), "p"),
        ((LABEL,), "label"),
        ((Field(name="t", dtype="string"),), "t"),
        ((Field(name="y", dtype="float32"),), None),
    ],
)
def test_classify_takes_the_output_that_says_most(outputs, chosen):
    signature = Signature(inputs=(Field(name="x", dtype="float32"),), outputs=outputs)
    if chosen is None:
        with pytest.raises(SignatureError, match="no output holds classes"):
            results.classified_output(signature)
    else:
        assert results.classified_output(signature).name == chosen


def test_labels_alone_are_sure():
    assert results.classes({"label": np.array(["a", None], object)}, LABEL) == [[("a", 1.0)], [("", 1.0)]]
    assert results.classes({"score": np.float32([[0.1, 0.9]])}, SCORES) == [[("", 0.1), ("", 0.9)]]


@pytest.mark.parametrize("shape", [("batch",), ("batch", 1)])
def test_regress_takes_one_number_a_row(shape):
    field = Field(name="y", dtype="float32", shape=shape)
    signature = Signature(inputs=(field,), outputs=(LABEL, field))
    assert results.regressed_output(signature) is field
    array = np.float32([0.1, 2]).reshape([-1 if size == "batch" else size for size in shape])
    assert results.regressions({"y": array}, field) == [0.1, 2.0]


def test_outputs_without_rows_in_common_are_refused():
    with pytest.raises(SignatureError, match="no rows in common"):
        WORDS.rows({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(SignatureError, match="no rows in common"):
        WORDS.rows({"a": np.float64(1).reshape(())})


@pytest.mark.parametrize("place", ["", "/versions/1", ":x", "/team"])
def test_a_verb_that_there_is_none_of_is_said_with_those_that_there_are(rest, place):
    status, answer = rest.post(f"{DOUBLED}{place}:frobnicate", {"instances": [[1, 2, 3]]})
    assert status == 404
    assert "there is no :" in answer["error"]
    assert "frobnicate (there are: :predict, :classify, :regress)" in answer["error"]
    assert rest.client.post(DOUBLED, content="{}").status_code == 405
