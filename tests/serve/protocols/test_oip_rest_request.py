"""Requests of the Open Inference Protocol that are wrong, and the field that the answer names."""

from __future__ import annotations

import json
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_serving import served_by

from vitrify.core.signature import Field
from vitrify.serve.protocols import _oip_rest_request
from vitrify.serve.web import Call

INFER = "/v2/models/doubled/infer"
TENSOR = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}


def tensor(**changes):
    return {name: value for name, value in {**TENSOR, **changes}.items() if value is not ...}


def body(**changes):
    return {"inputs": [tensor(**changes)]}


def binary(head, tail=b""):
    text = json.dumps(head).encode()
    return text + tail, {"inference-header-content-length": str(len(text))}


TWICE = '{"inputs":[{"name":"x","name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}'


@pytest.mark.parametrize(
    ("given_", "status", "message"),
    [
        (b"", 400, "the body: not valid JSON"),
        (b"{", 400, "the body: not valid JSON"),
        (b"[]", 400, "the body: expected an object"),
        (b"\xff", 400, "the body"),
        (b'{"a": NaN', 400, "the body"),
        (b"[" * 100_000, 413, "nested more than 64 levels deep"),
        (b'{"inputs":' * 100 + b"1" + b"}" * 100, 413, "nested more than 64"),
        ({}, 400, "the body has no member inputs"),
        ({"inputs": 1}, 400, "inputs: expected an array of objects"),
        ({"inputs": [1]}, 400, "inputs: expected an array of objects"),
        ({"inputs": []}, 400, "x    | float32[batch, 3] | nothing | add it"),
        (TWICE, 400, "inputs[0]: the name 'name' stands twice"),
        ('{"inputs":[],"inputs":[]}', 400, "the body: the name 'inputs' stands twice"),
        (body(name=...), 400, "inputs[0]: no name"),
        (body(shape=..., datatype=...), 400, "inputs[0]: no shape and no datatype"),
        (body(data=...), 400, "inputs[0]: no data"),
        (body(name=1), 400, "inputs[0].name"),
        (body(name="y"), 400, "no input is called 'y'"),
        (body(datatype="FP31"), 400, "inputs[0].datatype: 'FP31', expected one of"),
        (body(shape=[-1, 3]), 400, "inputs[0].shape"),
        (body(shape=[1.5]), 400, "inputs[0].shape"),
        (body(shape=[True, 3]), 400, "inputs[0].shape"),
        (body(shape="3"), 400, "inputs[0].shape"),
        (body(shape=[1] * 33), 400, "inputs[0].shape"),
        (body(shape=[2**62, 2**62]), 400, "larger than any array"),
        (body(shape=[0, 2**62, 2**62]), 400, "larger than any array"),
        (body(shape=[2**59]), 400, "inputs[0].data: 3 elements, but the shape"),
        (body(shape=[1, 2]), 400, "inputs[0].data: 3 elements"),
        (body(data=[1, "a", 3]), 400, 'inputs[0].data[1]: "a"'),
        (body(data=[1, None, 3]), 400, "inputs[0].data[1]: null"),
        (body(data={}), 400, "inputs[0].data"),
        (body(data=[[1, 2], [3]]), 400, "inputs[0].data: neither flat nor nested"),
        (body(shape=[1, 4], data=[1, 2, 3, 4]), 400, "axis 1 must be 3, not 4"),
        (body(datatype="BYTES", data=["a", "b", "c"]), 400, "float32"),
        ({"inputs": [TENSOR, TENSOR]}, 400, "inputs[1].name: 'x' is given twice"),
        ({**body(), "id": 1}, 400, "id"),
        ({**body(), "outputs": [{"name": "z"}]}, 400, "no output is called 'z'"),
        ({**body(), "outputs": [{}]}, 400, "outputs[0]: no name"),
        ({**body(), "outputs": [{"name": "y"}, {"name": "y"}]}, 400, "outputs[1].name: 'y' is asked for twice"),
        ({**body(), "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]}, 400, "outputs[0].parameters"),
        ({**body(), "outputs": [{"name": "y", "parameters": {"classification": -1}}]}, 400, "outputs[0].parameters"),
        ({**body(), "parameters": []}, 400, "parameters: expected an object"),
        ({**body(), "parameters": {"timeout": "soon"}}, 400, "parameters.timeout: 'soon'"),
        ({**body(), "parameters": {"timeout": -1}}, 400, "parameters.timeout"),
        ({**body(), "parameters": {"priority": 1.5}}, 400, "parameters.priority"),
        ({**body(), "parameters": {"binary_data_output": "yes"}}, 400, "parameters.binary_data_output"),
        (body(parameters={"shared_memory_region": "a"}), 501, "inputs[0].parameters.shared_memory_region"),
        (
            {**body(), "outputs": [{"name": "y", "parameters": {"shared_memory_region": "a"}}]},
            501,
            "outputs[0].parameters.shared_memory_region",
        ),
        (body(parameters={"binary_data_size": 12}), 400, "inputs[0]: both data and parameters.binary_data_size"),
    ],
)
def test_what_is_wrong_is_named(rest, given_, status, message):
    content = given_ if isinstance(given_, bytes) else given_ if isinstance(given_, str) else json.dumps(given_)
    answer = rest.call("POST", INFER, content.encode() if isinstance(content, str) else content)
    assert answer.status == status, answer.body
    assert message in json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    ("size", "tail", "message"),
    [
        (11, b"\0" * 11, "inputs[0]: 11 bytes of FP32, expected 3 elements of 4 bytes"),
        (12, b"\0" * 11, "inputs[0].parameters.binary_data_size: 12 bytes, but 11 are left"),
        (12, b"\0" * 13, "1 bytes after the JSON belong to no input"),
        (-5, b"", "inputs[0].parameters.binary_data_size"),
        ("x", b"", "inputs[0].parameters.binary_data_size"),
        (2**63, b"", "inputs[0].parameters.binary_data_size"),
    ],
)
def test_binary_data_of_the_wrong_size_are_named(rest, size, tail, message):
    content, headers = binary(body(data=..., parameters={"binary_data_size": size}), tail)
    answer = rest.call("POST", INFER, content, headers)
    assert answer.status == 400
    assert message in json.loads(answer.body)["error"]


@pytest.mark.parametrize("length", ["-1", "1e3", "", "9" * 30, "100000", "²"])
def test_a_wrong_length_of_the_json_is_named(rest, length):
    answer = rest.call("POST", INFER, json.dumps(body()).encode(), {"inference-header-content-length": length})
    assert answer.status == 400
    assert "inference-header-content-length" in json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected 2 elements"),
        (struct.pack("<I", 1) + b"a" + b"\0" * 3, "end before the length of element 1"),
        (struct.pack("<I", 100) + b"a" * 4, "element 0 of BYTES has 100 bytes, but 4 are left"),
        (struct.pack("<II", 0, 0) + b"a", "1 bytes are left after 2 elements"),
        (struct.pack("<I", 2) + b"\xff\xfe" + struct.pack("<I", 0), "UTF-8"),
    ],
)
def test_text_in_binary_is_measured(rest, data, message):
    one = {"name": "in_BYTES", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
    content, headers = binary({"inputs": [one]}, data)
    answer = rest.call("POST", "/v2/models/everything/infer", content, headers)
    assert answer.status == 400
    assert message in json.loads(answer.body)["error"]


def test_booleans_in_binary_are_0_or_1(rest):
    one = {"name": "in_BOOL", "shape": [1, 2], "datatype": "BOOL", "parameters": {"binary_data_size": 2}}
    content, headers = binary({"inputs": [one]}, b"\x01\x02")
    answer = rest.call("POST", "/v2/models/everything/infer", content, headers)
    assert answer.status == 400
    assert "byte 1 is 2; BOOL is 0 or 1" in json.loads(answer.body)["error"]


@pytest.mark.parametrize("data", [[[1, 2, 3]], [1, 2, 3], ["NaN", 2, 3]])
@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16", "BF16", "INT8", "UINT64"])
def test_other_datatypes_are_cast_where_no_value_changes(rest, datatype, data):
    status, answer = rest.post(INFER, body(datatype=datatype, data=data))
    if "INT" in datatype and "NaN" in data:
        assert status == 400
    else:
        assert (status, answer["outputs"][0]["shape"]) == (200, [1, 3])


def test_bfloat16_in_binary_is_exact(rest):
    values = np.array([1.0, -2.5, 3.0], np.float32)
    raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    content, headers = binary(body(datatype="BF16", data=..., parameters={"binary_data_size": 6}), raw)
    answer = rest.call("POST", INFER, content, headers)
    assert json.loads(answer.body)["outputs"][0]["data"] == [2.0, -5.0, 6.0]


def test_zero_rows_give_zero_rows(rest):
    status, answer = rest.post(INFER, body(shape=[0, 3], data=[]))
    assert (status, answer["outputs"][0]["shape"], answer["outputs"][0]["data"]) == (200, [0, 3], [])


def test_unknown_members_and_parameters_are_no_mistake(rest):
    extra = {**body(parameters={"anything": 1}), "parameters": {"other": {"a": [1]}, "timeout": "60000000"}, "x": 1}
    status, answer = rest.post(INFER, extra)
    assert status == 200, answer


def test_null_is_the_same_as_nothing(rest):
    nothing = {"id": None, "parameters": None, "outputs": None}
    status, answer = rest.post(INFER, {**body(parameters=None), **nothing})
    assert status == 200, answer
    assert "id" not in answer


def test_many_columns_are_no_quadratic_work(rest):
    outputs = [{"name": f"y{index}"} for index in range(10_000)]
    status, answer = rest.post(INFER, {**body(), "outputs": outputs})
    assert status == 400
    assert "no output is called 'y0'" in answer["error"]
    assert rest.post(INFER, {**body(), "outputs": [*outputs, {"name": "y"}]})[0] == 413


@pytest.mark.parametrize("text", ["0.1", "[0.1]"])
def test_a_large_request_takes_little_more_memory_than_its_text(text):
    count = 400_000
    data = ",".join([text] * count)
    content = f'{{"inputs":[{{"name":"x","shape":[{count},1],"datatype":"FP64","data":[{data}]}}]}}'.encode()
    served = served_by(Field(name="x", dtype="float64", shape=("batch", 1)))
    tracemalloc.start()
    try:
        asked = _oip_rest_request.read(Call("POST", INFER, body=content), served, "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert asked.infer.inputs["x"].shape == (count, 1)
    assert peak < 10 * len(content)


@given(st.data())
def test_a_changed_request_is_answered_or_refused_but_never_fails(rest, data):
    content = bytearray(json.dumps({**body(), "outputs": [{"name": "y"}], "parameters": {"timeout": 10**8}}).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not content:
            content = bytearray(b" ")
    answer = rest.call("POST", INFER, bytes(content))
    assert answer.status in {200, 400, 413, 501, 504}, answer.body
    json.loads(answer.body)
    assert not rest.faults
