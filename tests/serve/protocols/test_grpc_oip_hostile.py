"""Requests over the Open Inference Protocol's gRPC that do not agree with themselves: each error names the field."""

from __future__ import annotations

import asyncio
import struct

import numpy as np
import pytest
from grpc_rig import LocalEngine, echo, status_of
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import MalformedError, NotOfferedError, SignatureError
from vitrify.core.signature import Field
from vitrify.serve.ports import port
from vitrify.serve.protocols import oip_grpc
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._oip_grpc_request import value_of, write
from vitrify.serve.protocols._oip_grpc_tensors import datatype_of, raw_of
from vitrify.serve.rpc import RpcCall

SAID = messages("inference")
ENGINE = LocalEngine()
echo(ENGINE)
METHODS = {method.path.rpartition("/")[2]: method for method in oip_grpc.methods(ENGINE, is_admin=lambda client: True)}


def ask(request):
    """Answer a message, or bytes, with a message."""
    data = request if isinstance(request, bytes) else request.SerializeToString()
    answered = asyncio.run(METHODS["ModelInfer"].unary(RpcCall("/", data)))
    return SAID.ModelInferResponse.FromString(answered)


def request(datatype="FP32", shape=(1, 2), *, raw=None, model="echo_float32", name="x", **contents):
    made = SAID.ModelInferRequest(model_name=model, raw_input_contents=[] if raw is None else [raw])
    one = made.inputs.add(name=name, datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(one.contents, field).extend(values)
    return made


def text(*values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


CASES = {
    "no contents": (request(), r"inputs\[0\] 'x'\.contents\.fp32_contents: 0 elements, expected 2"),
    "too few": (request(fp32_contents=[1.0]), r"fp32_contents: 1 elements, expected 2 \(shape \[1, 2\]\)"),
    "wrong list": (request(int_contents=[1, 2]), r"contents: found int_contents, expected fp32_contents"),
    "two lists": (request(fp32_contents=[1, 2], int_contents=[1]), r"found int_contents"),
    "raw too short": (request(raw=bytes(7)), r"inputs\[0\] 'x': 7 bytes"),
    "raw too long": (request(raw=bytes(9)), r"inputs\[0\] 'x': 9 bytes"),
    "both": (request(raw=bytes(8), fp32_contents=[1, 2]), r"contents: there are raw_input_contents too"),
    "typed FP16": (request("FP16", model="echo_float16", fp32_contents=[1, 2]), "FP16 has no typed contents"),
    "typed BF16": (request("BF16", model="echo_bfloat16"), "BF16 has no typed contents"),
    "unknown datatype": (request("FP8", raw=b"ab"), r"datatype: found 'FP8', expected one of BOOL"),
    "no datatype": (request("", raw=b"ab"), r"datatype: found ''"),
    "negative size": (request(shape=(-1, 2), raw=bytes(8)), r"shape: found \[-1, 2\]"),
    "huge shape": (request(shape=(2**62, 2**62), raw=bytes(8)), "beyond any request"),
    "huge shape of nothing": (request(shape=(0, 2**62), raw=b""), "beyond any request"),
    "huge shape of strings": (request("BYTES", (2**39,), raw=bytes(8), model="echo_bytes"), "expected 549755813888"),
    "huge typed shape": (request(shape=(2**39,), fp32_contents=[1.0]), "1 elements, expected 549755813888"),
    "too many dimensions": (request(shape=(1,) * 33, raw=bytes(4)), "33 dimensions"),
    "BYTES cut off": (request("BYTES", raw=text(b"ab", b"cd")[:-1], model="echo_bytes"), "element 1"),
    "BYTES too many": (request("BYTES", raw=text(b"a", b"b", b"c"), model="echo_bytes"), "are left after 2"),
    "BYTES huge length": (request("BYTES", (1, 1), raw=b"\xff\xff\xff\xffab", model="echo_bytes"), "4294967295 bytes"),
    "INT8 out of range": (
        request("INT8", model="echo_int8", int_contents=[1, 128]),
        r"int_contents\[1\]: found 128, expected -128 to 127 \(INT8\)",
    ),
    "UINT16 out of range": (request("UINT16", model="echo_uint16", uint_contents=[70000, 1]), r"\[0\]: found 70000"),
    "wrong rank": (request(shape=(2,), raw=bytes(8)), "x"),
    "no name": (request(name="", raw=bytes(8)), r"inputs\[0\] ''\.name: missing"),
    "wrong name": (request(name="y", raw=bytes(8)), "y"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_agree_is_named(case):
    given_, said = CASES[case]
    with pytest.raises(SignatureError, match=said):
        ask(given_)


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "BYTES"])
def test_nothing_needs_no_contents(datatype):
    model = {"FP16": "echo_float16", "FP32": "echo_float32", "BYTES": "echo_bytes"}[datatype]
    said = ask(request(datatype, (0, 2), model=model))
    assert (list(said.outputs[0].shape), said.raw_output_contents[0]) == ([0, 2], b"")


def test_contents_that_say_nothing_may_stand_beside_raw_ones():
    made = request(raw=bytes(8))
    made.inputs[0].contents.SetInParent()
    assert ask(made).raw_output_contents[0] == bytes(8)


def test_an_input_and_an_output_may_come_once():
    twice = request(raw=bytes(8))
    twice.inputs.append(twice.inputs[0])
    with pytest.raises(SignatureError, match="raw_input_contents: 1 entries, expected 2"):
        ask(twice)
    twice.raw_input_contents.append(bytes(8))
    with pytest.raises(SignatureError, match=r"inputs\[1\] 'x'\.name: a second"):
        ask(twice)
    outputs = request(raw=bytes(8))
    for _ in range(2):
        outputs.outputs.add(name="x")
    with pytest.raises(SignatureError, match=r"outputs\[1\] 'x'\.name: a second"):
        ask(outputs)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("timeout", -1, r"parameters\.timeout: found '-1'"),
        ("timeout", "soon", "found 'soon'"),
        ("timeout", True, "found 'True'"),
        ("timeout", "9" * 30, "found '9999"),
        ("priority", 2**32, f"expected a whole number from 0 to {2**32 - 1}"),
        ("priority", 1.5, "found '1.5'"),
        ("other", None, r"parameters\.other: no value"),
    ],
)
def test_parameters_that_mean_nothing(name, value, said):
    made = request(raw=bytes(8))
    if value is None:
        made.parameters[name].SetInParent()
    else:
        write(made.parameters[name], value)
    with pytest.raises(MalformedError, match=said):
        ask(made)


def test_a_timeout_may_be_text_and_nothing_is_none():
    made = request(raw=bytes(8))
    made.parameters["timeout"].string_param = "0"
    ask(made)
    assert ENGINE.asked[-1].deadline == float("inf")


def test_shared_memory_of_outputs_is_not_offered():
    made = request(raw=bytes(8))
    made.outputs.add(name="x").parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(NotOfferedError, match=r"outputs\[0\] 'x'\.parameters"):
        ask(made)


@pytest.mark.parametrize("count", [0, -1, True, "2"])
def test_a_count_of_classes_that_is_none(count):
    made = request(raw=bytes(8))
    write(made.outputs.add(name="x").parameters["classification"], count)
    with pytest.raises((SignatureError, MalformedError), match="classification"):
        ask(made)


@given(data=st.data())
def test_no_mutation_of_a_request_is_a_fault_of_ours(data):
    whole = bytearray(request(raw=bytes(8)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    assert status_of(lambda: ask(bytes(whole))) in {200, 400, 404, 501, 504}


@pytest.mark.parametrize("value", [True, 0, -(2**63), 2**63 - 1, 2**64 - 1, 0.5, "text", [1, {"a": None}], 2**64])
def test_parameters_come_back(value):
    parameter = SAID.InferParameter()
    write(parameter, value)
    found = value_of(parameter)
    assert found == value or found in {'[1,{"a":null}]', str(2**64)}


@pytest.mark.parametrize(
    ("array", "datatype"),
    [
        (np.array([1, 2], np.int8), "INT8"),
        (np.array(["a", "b"], object), "BYTES"),
        (np.array(["2024-01-01"], "datetime64[D]"), "BYTES"),
        (np.ma.MaskedArray([1, 2], [False, True]), "INT64"),
    ],
)
def test_an_output_of_a_version_that_is_gone_travels_as_itself(array, datatype):
    found, plain = datatype_of("x", array, {})
    assert found == datatype
    assert raw_of(found, plain)


def test_what_is_missing_is_empty_bytes():
    one = port(Field(name="x", dtype="string", nullable=True))
    found, plain = datatype_of("x", np.array(["a", None], object), {"x": one})
    assert raw_of(found, plain) == text(b"a", b"")
