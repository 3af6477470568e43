"""MLflow's scoring protocol: its own client, every form of input, and what is answered."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from rest_serving import passengers

from vitrify.core.signature import Field, Signature
from vitrify.serve.protocols import mlflow

ROW = {"age": 22.5, "ticket": 2**60 + 1, "class": "first"}
ASK = "/invocations?model=passengers"
BOTH = {"params": {"outputs": ["label", "probability"]}}


@pytest.fixture
def client(rest):
    """Return MLflow's client of a server of one model, which need not be named."""
    scoring = pytest.importorskip("mlflow.pyfunc.scoring_server.client")
    with rest.listening(mlflow.routes(Only(rest.engine, "passengers"))) as port:
        yield scoring.ScoringServerClient("127.0.0.1", port)


class Only:
    """An engine, of which one model is seen."""

    def __init__(self, engine, name):
        self._engine, self._name = engine, name

    def index(self):
        return tuple(one for one in self._engine.index() if one.name == self._name)

    def __getattr__(self, name):
        return getattr(self._engine, name)


def test_mlflow_asks_whether_it_is_there(client):
    client.ping()
    client.wait_server_ready()
    assert client.get_version()


def test_mlflow_sends_a_frame_and_gets_the_labels(client):
    table = passengers()
    found = client.invoke(table).get_predictions()
    assert found.shape == (len(table), 1)
    assert set(found[0]) <= {"lost", "saved"}


def test_mlflow_sends_params(client):
    found = client.invoke(passengers(), params={"outputs": "probability"}).get_predictions(
        predictions_format="ndarray", dtype=np.float64
    )
    assert found.shape == (6, 2)
    assert np.allclose(found.sum(1), 1)


def split(frame):
    return {"dataframe_split": {"columns": [*frame], "data": [*map(list, frame.itertuples(index=False))]}}


FORMS = {
    "split": {"dataframe_split": {"columns": ["extra", *ROW], "data": [[0, *ROW.values()]]}},
    "split without names": {"dataframe_split": {"data": [list(ROW.values())]}},
    "records": {"dataframe_records": [{**ROW, "extra": 1}]},
    "instances": {"instances": [ROW]},
    "inputs": {"inputs": {name: [value] for name, value in ROW.items()}},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(rest, form):
    status, answer = rest.post(ASK, {**FORMS[form], **BOTH})
    assert status == 200, answer
    assert answer == rest.post(ASK, {**FORMS["records"], **BOTH})[1]
    assert len(answer["predictions"]["probability"]) == 1


def test_csv_says_the_same(rest):
    text = 'age,ticket,class,extra\n22.5,1152921504606846977,first,"a,b"\n\n,7,,\n'
    found = rest.post(ASK, text, content_type="text/csv; charset=utf-8")
    records = [ROW, {"age": None, "ticket": 7}]
    assert found == rest.post(ASK, {"dataframe_records": records})


def test_parquet_says_the_same(rest):
    pytest.importorskip("pyarrow")
    table, stream = passengers(), io.BytesIO()
    table.to_parquet(stream)
    found = rest.post(ASK, stream.getvalue(), content_type=mlflow.PARQUET)
    assert found[0] == 200, found
    records = json.loads(table.to_json(orient="records"))
    for record, ticket in zip(records, table["ticket"], strict=True):
        record["ticket"] = int(ticket)
    assert found == rest.post(ASK, {"dataframe_records": records})


def test_a_matrix_takes_the_columns_in_their_order(rest):
    ask = "/invocations?model=doubled&version=1"
    doubled = (200, {"predictions": [[2, 4, 6], [8, 10, 12]]})
    frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=["c", "b", "a"])
    assert rest.post(ask, split(frame)) == doubled
    assert rest.post(ask, {"dataframe_split": {"data": [[1, 2, 3], [4, 5, 6]]}}) == doubled
    assert rest.post(ask, {"dataframe_records": frame.to_dict("records")}) == doubled
    assert rest.post(ask, "c,b,a\n1,2,3\n4,5,6\n", content_type="text/csv") == doubled
    assert rest.post(ask, {"inputs": [[1, 2, 3], [4, 5, 6]]}) == doubled
    assert rest.post(ask, "a,b,c\n", content_type="text/csv") == (200, {"predictions": []})


def test_what_is_no_number_is_valid_json_and_keeps_its_value(rest):
    text = '{"instances": [[NaN, Infinity, -Infinity]]}'
    answer = rest.client.post("/invocations?model=doubled", content=text, headers={"content-type": "application/json"})
    assert answer.text == '{"predictions": [[null,1e999,-1e999]]}'
    assert json.loads(answer.text, parse_constant=pytest.fail)["predictions"] == [[None, math.inf, -math.inf]]
    csv = rest.client.post(
        "/invocations?model=doubled", content="a,b,c\nNaN,inf,\n", headers={"content-type": "text/csv"}
    )
    assert csv.json()["predictions"] == [[None, math.inf, None]]


def test_every_datatype_is_exact(rest):
    columns = {"in_INT64": [[2**53 + 1, -(2**63)]], "in_UINT64": [[2**64 - 1, 0]]}
    row = {f"in_{kind}": [[0, 1]] for kind in ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32")}
    row |= {"in_BOOL": [[True, False]], "in_FP16": [[0, 1]], "in_FP32": [[0.1, 1]], "in_FP64": [[0.1, 1]]}
    row |= {"in_BYTES": [["a", "b"]], **columns}
    status, answer = rest.post("/invocations?model=everything", {"inputs": row})
    assert status == 200, answer
    assert answer["predictions"]["out_INT64"] == columns["in_INT64"]
    assert answer["predictions"]["out_UINT64"] == columns["in_UINT64"]
    assert answer["predictions"]["out_FP32"] == [[0.1, 1.0]]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "expected exactly one of dataframe_split"),
        ({"inputs": {}, "instances": []}, 400, "instances and inputs"),
        ([], 400, "expected an object"),
        ("[", 400, "the body"),
        ({"dataframe_split": []}, 400, "dataframe_split: expected an object"),
        ({"dataframe_split": {"data": [1]}}, 400, "dataframe_split: expected an object"),
        ({"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}}, 400, "dataframe_split.data[0]: 2 values"),
        ({"dataframe_split": {"columns": ["a", "a"], "data": []}}, 400, "'a' is there twice"),
        ({"dataframe_split": {"columns": [{}], "data": []}}, 400, "dataframe_split.columns"),
        ({"dataframe_records": {}}, 400, "dataframe_records: expected an array"),
        ({"dataframe_records": [1]}, 400, "dataframe_records: expected an array"),
        ({"dataframe_records": [{"age": 1}]}, 400, "ticket"),
        ({"dataframe_records": [{**ROW, "age": "old"}]}, 400, 'age[0]: "old"'),
        ({"dataframe_records": [{**ROW, "ticket": 1.5}]}, 400, "ticket[0]: 1.5"),
        ({"dataframe_records": [{**ROW, "class": 5}]}, 400, "class[0]: 5"),
        ({"dataframe_records": [ROW], "params": []}, 400, "params"),
        ({"dataframe_records": [ROW], "params": {"outputs": []}}, 400, "params.outputs"),
        ({"dataframe_records": [ROW], "params": {"outputs": ["z"]}}, 400, "no output is called 'z'"),
        ({"prompt": "hello"}, 400, "the body has prompt, but the inputs are age, class, ticket"),
    ],
)
def test_what_is_wrong_is_named(rest, body, status, message):
    found, answer = rest.post(ASK, body)
    assert found == status, answer
    assert message in answer["message"]
    assert answer["error_code"] == "BAD_REQUEST"


@pytest.mark.parametrize(
    ("content", "media", "status", "message"),
    [
        (b"x", "text/plain", 415, "expected one of application/json, text/csv"),
        (b"", "text/csv", 400, "the body is empty"),
        (b"age,age\n", "text/csv", 400, "'age' is there twice"),
        (b"age,ticket\n1\n", "text/csv", 400, "row 1: 1 cells, expected 2"),
        (b"age,ticket,class\n1,x,a\n", "text/csv", 400, "row 1, column 'ticket': 'x' where int64"),
        (b"age,ticket,class\n1,1_0,a\n", "text/csv", 400, "'1_0'"),
        (b'age\n"1', "text/csv", 400, "no CSV"),
        (b"\xff\xfe", "text/csv", 400, "no CSV in UTF-8"),
        (b"PAR1", mlflow.PARQUET, 400, "no Parquet file"),
        (b"", mlflow.PARQUET, 400, "no Parquet file"),
    ],
)
def test_other_content_that_is_wrong_is_named(rest, content, media, status, message):
    answer = rest.client.post(ASK, content=content, headers={"content-type": media})
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]


def test_a_parquet_file_of_too_many_cells_is_refused_before_it_is_read(rest):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    zeros = pa.array(np.zeros(4_000_000, np.int8))
    parquet.write_table(pa.table({"age": zeros, "ticket": zeros, "class": zeros}), stream)
    answer = rest.client.post(ASK, content=stream.getvalue(), headers={"content-type": mlflow.PARQUET})
    assert answer.status_code == 413
    assert "12000000 cells" in answer.json()["message"]


def test_where_several_models_are_served_the_query_says_which(rest):
    status, answer = rest.post("/invocations", {"instances": [ROW]})
    assert status == 400
    assert "/invocations?model=NAME" in answer["message"]
    assert rest.post("/invocations?model=nope", {"instances": [ROW]})[0] == 404
    assert rest.post("/invocations?model=passengers&version=9", {"instances": [ROW]})[0] == 404


def test_the_answer_names_the_version_that_made_it(rest):
    answer = rest.client.post(ASK, json={"instances": [ROW]})
    assert answer.headers["x-model-version"] == "1"
    assert answer.headers["x-model-digest"].startswith("sha256:")


def signature(*outputs, container="pandas"):
    return Signature(inputs=(Field(name="x", dtype="float32"),), outputs=outputs, container=container)


def test_outputs_have_the_form_that_pyfunc_gives():
    a, b = Field(name="a", dtype="float64"), Field(name="b", dtype="string")
    arrays = {"a": np.array([0.5, np.nan]), "b": np.array(["x", None], object)}
    assert json.loads(mlflow.predictions(arrays, signature(a, b))) == [{"a": 0.5, "b": "x"}, {"a": None, "b": None}]
    assert json.loads(mlflow.predictions({"a": arrays["a"]}, signature(a))) == [0.5, None]
    matrices = {"a": np.zeros((1, 2)), "b": np.zeros((1, 2))}
    assert json.loads(mlflow.predictions(matrices, signature(a, b))) == {"a": [[0, 0]], "b": [[0, 0]]}
    assert json.loads(mlflow.predictions(arrays, signature(a, b, container="dict")))["b"] == ["x", None]
    times = {"a": np.array(["2020-01-02", "NaT"], "datetime64[s]")}
    assert json.loads(mlflow.predictions(times, signature(a))) == ["2020-01-02T00:00:00", None]
    assert json.loads(mlflow.predictions({"a": np.array([b"\xff"], object)}, signature(a))) == ["/w=="]
