"""Our .proto files, the pool they are in, and what is said to bytes that are no message."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2, service_pb2

from vitrify.core.errors import LimitExceededError, MalformedError, NotOfferedError
from vitrify.serve.protocols import _messages
from vitrify.serve.protocols._messages import FILES, bind, decode, messages, pool
from vitrify.serve.protocols._proto import parse
from vitrify.serve.rpc import RpcCall

OURS = {"Absent", "RepositoryModelLoadResponse", "RepositoryModelUnloadResponse"}
"""Messages that Triton has not, or not so."""


def messages_of(file):
    """Return all messages of a file, the nested ones too."""
    found, waiting = {}, list(file.message_types_by_name.values())
    while waiting:
        one = waiting.pop()
        found[one.full_name] = one
        waiting += one.nested_types
    return found


def shape_of(field):
    inner = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.number,
        field.type,
        field.is_repeated,
        field.is_packed,
        inner.full_name if inner is not None else None,
        oneof.name if oneof is not None else None,
    )


THEIRS = {**messages_of(service_pb2.DESCRIPTOR), **messages_of(model_config_pb2.DESCRIPTOR)}


@pytest.mark.parametrize(
    "message",
    [one for one in messages_of(pool().FindFileByName("inference.proto")).values() if one.name not in OURS],
    ids=lambda one: one.full_name,
)
def test_every_field_is_as_in_tritons_own_descriptor(message):
    theirs = THEIRS[message.full_name].fields_by_name
    assert {one.name: shape_of(one) for one in message.fields} == {
        one.name: shape_of(theirs[one.name]) for one in message.fields
    }


def test_the_service_has_all_of_tritons_methods():
    ours, theirs = (
        {
            one.name: (one.client_streaming, one.server_streaming)
            for one in file.services_by_name["GRPCInferenceService"].methods
        }
        for file in (pool().FindFileByName("inference.proto"), service_pb2.DESCRIPTOR)
    )
    assert ours == theirs


def test_the_data_types_have_tritons_numbers():
    assert dict(messages("inference").DataType.items()) == dict(model_config_pb2.DataType.items())


def test_the_pool_of_the_process_knows_nothing_of_ours():
    theirs = service_pb2.DESCRIPTOR.pool
    assert pool() is not theirs
    assert messages("inference").ModelInferRequest is not service_pb2.ModelInferRequest
    with pytest.raises(KeyError):
        theirs.FindFileByName("inference.proto")


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_where_it_is_from(name):
    assert "// " in _messages._text(name)
    assert "Source: https://" in _messages._text(name)


def test_the_language_that_is_read():
    file = parse(
        "demo.proto",
        """
        syntax = "proto3"; // a comment
        package demo;
        enum Kind { NONE = 0; SOME = 1; }
        message Outer {
          message Inner { int32 n = 1; }
          repeated Inner many = 1;
          map<string, Inner> by_name = 2;
          oneof choice { bool yes = 3; Kind kind = 4; }
        }
        service Demo { rpc Ask(stream Outer) returns (Outer.Inner); }
        """,
    )
    outer = file.message_type[0]
    assert [field.name for field in outer.field] == ["many", "by_name", "yes", "kind"]
    assert [one.name for one in outer.nested_type] == ["Inner", "ByNameEntry"]
    assert outer.nested_type[1].options.map_entry
    assert [field.HasField("oneof_index") for field in outer.field] == [False, False, True, True]
    assert outer.field[0].label == FieldDescriptor.LABEL_REPEATED
    method = file.service[0].method[0]
    assert (method.client_streaming, method.server_streaming, method.output_type) == (True, False, "Outer.Inner")


@pytest.mark.parametrize(
    "text",
    [
        "option x = 1;",
        "message A {",
        "message A { int32 x 1; }",
        "service S { stream A; }",
        "message A { ? }",
        "message",
    ],
)
def test_what_is_not_read_is_refused(text):
    with pytest.raises(MalformedError, match=r"demo\.proto: "):
        parse("demo.proto", text)


REQUEST = messages("inference").ModelInferRequest


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data):
    with contextlib.suppress(MalformedError):
        assert type(decode(REQUEST, data)) is REQUEST


@given(data=st.data())
def test_a_message_that_is_cut_off_is_malformed_or_shorter(data):
    whole = REQUEST(model_name="m", id="x" * 10, raw_input_contents=[b"12345678"])
    whole.inputs.add(name="x", datatype="FP64", shape=[1])
    text = whole.SerializeToString()
    cut = data.draw(st.integers(0, len(text) - 1))
    with contextlib.suppress(MalformedError):
        assert decode(REQUEST, text[:cut]) != whole


HUGE = b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"  # an input of 2**63 - 1 bytes


@pytest.mark.parametrize(
    "data",
    [HUGE, HUGE + bytes(70_000), b"\x0a\x05ab", b"\x0a\x02\xff\xfe", b"\x2b" * 70_000, b"\x00\x00"],
    ids=["huge length", "huge length in a large message", "cut off", "no UTF-8", "groups", "field 0"],
)
def test_hostile_bytes_are_malformed(data):
    with pytest.raises(MalformedError, match=r"no inference\.ModelInferRequest"):
        decode(REQUEST, data)


def test_a_large_message_of_nothing_but_parts_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(_messages, "MAX_PARTS", 40_000)
    with pytest.raises(LimitExceededError, match="fields, strings and messages"):
        decode(REQUEST, b"\x2a\x00" * 50_000)
    inner = b"\x42\x00" * 50_000  # elements of bytes_contents
    contents = b"\x2a" + b"\xa0\x8d\x06" + inner
    with pytest.raises(LimitExceededError):
        decode(REQUEST, b"\x2a" + b"\xa4\x8d\x06" + contents)
    assert len(decode(REQUEST, b"\x2a\x00" * 30_000).inputs) == 30_000


def test_unknown_fields_are_passed_over():
    text = REQUEST(model_name="m").SerializeToString() + b"\xf2\x07\x03abc"
    assert decode(REQUEST, text).model_name == "m"


def test_a_method_without_a_handler_is_not_offered():
    (method,) = bind("tensorflow.serving.SessionService", {}, absent="there is no graph")
    with pytest.raises(NotOfferedError, match="no SessionRun: there is no graph"):
        asyncio.run(method.unary(RpcCall(method.path)))


def test_the_protocols_import_neither_grpc_nor_protobuf_before_they_are_used():
    program = """
        import sys
        from vitrify.serve.planes import grpc_python
        from vitrify.serve.protocols import health_grpc, oip_grpc, reflection_grpc, tensorflow_grpc
        heavy = ("grpc", "google.protobuf", "onnx", "onnxruntime", "sqlalchemy", "pandas", "uvicorn", "tensorflow")
        print([name for name in heavy if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"
