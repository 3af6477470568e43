"""Both planes say the same: the same status, the same outputs bit for bit, and errors that name the same field.

The requests are made by Hypothesis, right ones and ones that are wrong in one place, and go over real sockets.
"""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from both_planes import DATATYPE, KINDS, WIDTH, both, places, response, tensors
from hypothesis import given
from hypothesis import strategies as st
from wire import message, varint

from vitrify.serve.faults import INVALID, NOT_FOUND
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    with both(OciLayout(tmp_path_factory.mktemp("store"))) as askers:
        yield askers


def says_the_same(said, readers):
    """Assert it of the two answers of the planes, each a status, headers or an error, and bytes."""
    (status, about, body), (other, others, content) = said
    assert status == other, said
    if status in {0, 200}:
        assert readers(about, body) == readers(others, content)
        return
    texts = [json.loads(one[2])["error"] if one[2] else one[1] for one in said]
    assert all(texts)
    named = [places(text) for text in texts]
    # What is wrong in two places may be refused for either.
    apart = {"parameters", "outputs[0]"} & (named[0] | named[1])
    assert named[0] & named[1] or not all(named) or apart, texts


def rest(planes, model, body, headers=None):
    """Ask both, which must say the same; returns the status."""
    said = [asker.rest(model, body, headers) for asker in planes]
    says_the_same(said, tensors)
    return said[0][0]


def rpc(planes, body):
    """Ask both, which must say the same; returns the code."""
    said = [asker.rpc(body) for asker in planes]
    says_the_same(said, lambda _, answer: response(answer))
    return said[0][0]


# What is asked

dtypes = st.sampled_from(sorted(KINDS))
texts = st.text(st.characters(codec="utf-8"), max_size=6)
numbers = {
    "bool": st.sampled_from(["true", "false", "0", "1", "-0", "2", "1.0"]),
    "int": st.one_of(
        st.integers(-(2**65), 2**65).map(str),
        st.integers(-9, 9).map(str),
        st.sampled_from(["1.0", "1e2", "10e-1", "1.5", "-0", "-0.0", "0e0", "1E+2", "9" * 400, "1e400", "1e-400"]),
    ),
    "float": st.one_of(
        st.floats().map(lambda one: {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(one), repr(one))),
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
        st.integers(-(2**70), 2**70).map(str),
        st.sampled_from(['"NaN"', '"Infinity"', '"-Infinity"', "NaN", "-0", "-0.0", "1e400", "1e39", "65520", "65519.9",
                         "9" * 400, "1e-400", "3.4028235677973366e38", "16777217.0000001"]),
    ),
    "string": texts.map(json.dumps) | texts.map(lambda one: json.dumps(one, ensure_ascii=False)),
}  # fmt: skip
tokens = st.sampled_from(
    ["null", "NaN", "-Infinity", "[]", "{}", '"x"', '""', "true", "1", "01", "+1", "1.", ".5", "-", "1e", "", "[1]",
     '"NaN"', '"\\ud800"', '"\\u00e4"', "nan", "1 2", "'a'", '"\x01"', "1_0", "0x10", "--1", "Infinit"]
)  # fmt: skip


def values_of(dtype):
    return numbers[dtype.rstrip("0123456789").removeprefix("u")]


@st.composite
def data(draw, dtype, rows, *, plain, wrong):
    """Draw JSON data, flat or nested; where it is to be wrong, with one token that is anything."""
    kind = st.sampled_from(['"1"', '"x"'] if dtype == "string" else ["0", "1"]) if plain else values_of(dtype)
    values = draw(st.lists(kind, min_size=rows * WIDTH, max_size=rows * WIDTH))
    if values and wrong:
        values[draw(st.integers(0, len(values) - 1))] = draw(tokens)
    if draw(st.booleans()):
        return f"[{', '.join(values)}]"
    return "[{}]".format(",".join(f"[{values[at]} ,{values[at + 1]}]" for at in range(0, len(values), WIDTH)))


WRONG = {
    "name": ['"z"', "null", "1", '""', '"x\\u0000"'],
    "shape": ["[]", "[1]", "[2]", "[1, 2, 1]", "[-1, 2]", "[1.0, 2]", "[1e0, 2]", "[1.5, 2]", "null", '"12"',
              "[true, 2]", "[4611686018427387904, 4611686018427387904]", "[0, 4611686018427387904]", "[0, 2]",
              "[2, 1]", "[null, 2]",
              "[18446744073709551616, 2]", "[9223372036854775808, 1]", '["1", 2]', "[{}, 2]"],
    "datatype": ['"FP31"', '"fp32"', "null", "3", '"BF16"', '"FP16"', '"FP64"', '"INT32"', '"INT64"', '"UINT8"',
                 '"BYTES"', '"BOOL"'],
    "data": ["null", "{}", '"x"', "1", "[]", "[[]]", "[[1, 2], [3]]", "[[[1, 2]]]", "[1, [2]]", "[1, 2, 3]"],
    "parameters": ["null", "{}", "[]", "1", '{"own": 1}', '{"binary_data_size": 8}', '{"binary_data_size": -1}',
                   '{"binary_data_size": "x"}', '{"shared_memory_region": "r"}', '{"binary_data_size": null}'],
    "other": ["null", '{"a": [1, {"b": null}]}', '"NaN"', "[[[1]]]"],
}  # fmt: skip
AROUND = {
    "id": ['"mine"', "null", "1", '""', '"\\u00e4"', "[]"],
    "parameters": ["null", "{}", "[]", '{"timeout": 100000000}', '{"timeout": "100000000"}', '{"timeout": -1}',
                   '{"priority": 1}', '{"priority": 5000000000}', '{"priority": null}', '{"priority": "x"}',
                   '{"own": [1]}', '{"binary_data_output": true}', '{"binary_data_output": 1}',
                   '{"binary_data_output": null}', '{"timeout": 1.5}', '{"timeout": true}'],
    "outputs": ["null", "[]", '[{"name": "y"}]', '[{"name": "q"}]', '[{"name": "y"}, {"name": "y"}]', "{}", "[1]",
                '[{"name": 1}]', "[{}]", '[{"name": "y", "parameters": {"binary_data": true}}]',
                '[{"name": "y", "parameters": {"binary_data": "x"}}]', '[{"name": "y", "parameters": null}]',
                '[{"name": "y", "parameters": {"own": 1}}]', '[{"name": "y", "own": 1}]', '[{"name": null}]'],
    "other": ["1", "null", "NaN", "{}", '"x"'],
}  # fmt: skip


def text_of(members):
    return "{" + ", ".join(f'"{name}": {value}' for name, value in members) + "}"


@st.composite
def shuffled(draw, members, wrong=None):
    """Draw members in any order; where there is what is wrong, one of them is so, missing, or there twice."""
    members = draw(st.permutations(members))
    kind = draw(st.integers(0, 3)) if wrong else -1
    if kind in {0, 3}:
        name = draw(st.sampled_from(sorted(wrong)))
        members = [one for one in members if one[0] != name] + [(name, draw(st.sampled_from(wrong[name])))]
    elif kind == 1 and members:
        del members[draw(st.integers(0, len(members) - 1))]
    elif kind == 2 and members:
        members = [*members, draw(st.sampled_from(members))]
    return members


@st.composite
def documents(draw):
    """Draw a model and the JSON of a request for it."""
    dtype, rows = draw(dtypes), draw(st.integers(0, 3))
    wrong = draw(st.sampled_from(["", "data", "tensor", "around", "twice", "none"]))
    tensor = [("name", '"x"'), ("shape", f"[{rows}, {WIDTH}]"), ("datatype", f'"{DATATYPE[dtype]}"')]
    tensor.append(("data", draw(data(dtype, rows, plain=wrong not in {"", "data"}, wrong=wrong == "data"))))
    tensor = draw(shuffled(tensor, WRONG if wrong == "tensor" else None))
    inputs = [text_of(tensor)] * {"twice": 2, "none": 0}.get(wrong, 1)
    around = draw(shuffled([("inputs", f"[{','.join(inputs)}]")], AROUND if wrong == "around" else None))
    return dtype, text_of(around)


@given(documents())
def test_json_is_read_alike(planes, asked):
    model, document = asked
    rest(planes, model, document.encode("utf-8", "surrogatepass"))


@given(documents(), st.data())
def test_damaged_json_is_refused_alike(planes, asked, more):
    model, document = asked
    body = bytearray(document.encode("utf-8", "surrogatepass"))
    place = more.draw(st.integers(0, len(body) - 1))
    body[place:] = more.draw(
        st.sampled_from([b"", bytes([body[place]]), b"\xff" + body[place:], b"]" + body[place:], b" " + body[place:]])
    )
    said = [asker.rest(model, bytes(body)) for asker in planes]
    assert said[0][0] == said[1][0], said


@pytest.mark.parametrize("dtype", sorted(KINDS))
@given(more=st.data())
def test_binary_tensors_are_read_alike(planes, dtype, more):
    rows = more.draw(st.integers(0, 3))
    wrong = more.draw(st.sampled_from(["", "data", "size", "tensor", "length"]))
    raw = more.draw(binary(dtype, rows, wrong=wrong == "data"))
    size = len(raw) + (more.draw(st.sampled_from([1, -1, 2**64, 2**31])) if wrong == "size" else 0)
    parameters = text_of([("binary_data_size", str(size))])
    tensor = [("name", '"x"'), ("shape", f"[{rows}, {WIDTH}]"), ("datatype", f'"{DATATYPE[dtype]}"')]
    tensor = more.draw(shuffled([*tensor, ("parameters", parameters)], WRONG if wrong == "tensor" else None))
    output = text_of([("name", '"y"'), ("parameters", '{"binary_data": true}')])
    head = text_of([("inputs", f"[{text_of(tensor)}]"), ("outputs", f"[{output}]")]).encode()
    lengths = [str(len(head) + 1), str(len(head + raw) + 1), "x", "-1", "", "9" * 20]
    length = more.draw(st.sampled_from(lengths)) if wrong == "length" else str(len(head))
    rest(planes, dtype, head + raw, {"Inference-Header-Content-Length": length})


@st.composite
def binary(draw, dtype, rows, *, wrong):
    """Draw the bytes of rows, right or damaged."""
    if dtype == "string":
        values = draw(st.lists(texts, min_size=rows * WIDTH, max_size=rows * WIDTH))
        raw = b"".join(struct.pack("<I", len(one.encode())) + one.encode() for one in values)
    elif dtype == "bool":
        raw = bytes(draw(st.lists(st.integers(0, 1), min_size=rows * WIDTH, max_size=rows * WIDTH)))
    else:
        size = rows * WIDTH * np.dtype(dtype).itemsize
        raw = draw(st.binary(min_size=size, max_size=size))
    damage = draw(st.integers(1, 3)) if wrong else 0
    return [raw, raw[:-1], raw + b"\0", raw and bytes([raw[0] ^ 0x82]) + raw[1:]][damage]


@pytest.mark.parametrize(
    ("model", "change", "status"),
    [
        ("string", {"data": '["a", NaN]'}, 400),
        ("string", {"data": "[Infinity, -Infinity]"}, 400),
        ("string", {"data": '["NaN", "Infinity"]'}, 200),
        ("string", {"data": '[1, "a"]'}, 400),
        ("string", {"data": "[true, null]"}, 400),
        ("float32", {"data": "[NaN, -Infinity]"}, 200),
        ("float32", {"data": '["NaN", null]'}, 400),
        ("int64", {"data": "[NaN, 1]"}, 400),
        ("int64", {"data": "[9223372036854775807, -9223372036854775808]"}, 200),
        ("int64", {"data": "[9223372036854775808, 0]"}, 400),
        ("uint64", {"data": "[18446744073709551615, 0]"}, 200),
        ("uint64", {"data": "[-1, 0]"}, 400),
        ("float16", {"data": "[65519.99, 1e-8]"}, 200),
        ("float32", {"shape": "[0, 4611686018427387904]", "data": "[]"}, 400),
        ("float32", {"shape": "[4611686018427387904, 0]", "data": "[]"}, 400),
        ("float32", {"shape": "[0, 2]", "data": "[]"}, 200),
    ],
)
def test_the_planes_agree_on_what_is_right(planes, model, change, status):
    tensor = {"name": '"x"', "shape": f"[1, {WIDTH}]", "datatype": f'"{DATATYPE[model]}"', **change}
    assert rest(planes, model, f'{{"inputs": [{text_of(tensor.items())}]}}'.encode()) == status


@pytest.mark.parametrize("name", ["id", "parameters", "outputs"])
def test_null_is_the_same_as_nothing(planes, name):
    tensor = text_of({"name": '"x"', "shape": "[1, 2]", "datatype": '"FP32"', "data": "[1, 2]"}.items())
    assert rest(planes, "float32", f'{{"{name}": null, "inputs": [{tensor}]}}'.encode()) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 200),
        ({"content-encoding": "identity"}, 200),
        ({"content-encoding": "br"}, 400),
        ({"X-Request-Timeout-Ms": "0"}, 504),
        ({"X-Request-Timeout-Ms": "soon"}, 200),
        ({"X-Vitrify-Key": "me"}, 200),
        ({"Inference-Header-Content-Length": "0"}, 200),  # a raw request: its 80 bytes are ten rows
    ],
)
def test_the_planes_agree_on_headers(planes, headers, status):
    tensor = text_of({"name": '"x"', "shape": "[1, 2]", "datatype": '"FP32"', "data": "[1, 2]"}.items())
    assert rest(planes, "float32", f'{{"inputs": [{tensor}]}}'.encode(), headers) == status


# gRPC

CONTENTS = {"bool": 1, "int8": 2, "int16": 2, "int32": 2, "int64": 3, "uint8": 4, "uint16": 4, "uint32": 4, "uint64": 5,
            "float32": 6, "float64": 7, "string": 8}  # fmt: skip


@st.composite
def contents(draw, dtype, rows, *, wrong):
    """Draw an ``InferTensorContents``, packed or not; a wrong one has another field, or another number of elements."""
    count = rows * WIDTH + (draw(st.sampled_from([-1, 0, 0, 1])) if wrong else 0)
    number = draw(st.integers(1, 9)) if wrong else CONTENTS.get(dtype, 6)
    count = max(count, 0)
    if number == 8:
        return message(*((8, one.encode()) for one in draw(st.lists(texts, min_size=count, max_size=count))))
    if number in {6, 7}:
        size = 4 if number == 6 else 8
        return message((number, draw(st.binary(min_size=count * size, max_size=count * size))))
    bits = 64 if number in {3, 5} else 8 if draw(st.booleans()) else 33
    values = draw(st.lists(st.integers(-(2 ** (bits - 1)), 2**bits - 1), min_size=count, max_size=count))
    if draw(st.booleans()):
        return message((number, b"".join(map(varint, values))))
    return message(*((number, value) for value in values))


SHAPES = ((), (1,), (1, 2, 1), (-1, 2), (2**62, 2**62), (0, 2**62), (2**62, 0), (0, 2), (2, 1), (1,) * 33, (2**40, 2))
PARAMETERS = (
    ("timeout", message((2, 10**9))), ("timeout", message((3, "1000000000"))), ("timeout", message((2, -1))),
    ("timeout", message((1, 1))), ("priority", message((5, 1))), ("priority", message((2, 2**33))),
    ("own", message((3, "x"))), ("own", b""), ("timeout", b""), ("priority", message((3, "x"))),
)  # fmt: skip


@st.composite
def requests(draw):
    """Draw a ``ModelInferRequest``, as bytes: mostly right, wrong in one place at times."""
    dtype, rows = draw(dtypes), draw(st.integers(0, 3))
    wrong = draw(
        st.sampled_from(
            ["", "", "name", "datatype", "shape", "twice", "parameter", "output", "raw", "both", "contents", "id"]
        )
    )
    shape = draw(st.sampled_from(SHAPES)) if wrong == "shape" else (rows, WIDTH)
    datatype = (
        draw(st.sampled_from(["", "FP31", "FP32", "BF16", "INT64", "BYTES"]))
        if wrong == "datatype"
        else DATATYPE[dtype]
    )
    packed = [(3, b"".join(map(varint, shape)))] if draw(st.booleans()) else [(3, size) for size in shape]
    name = draw(st.sampled_from(["", "z", b"\xff"])) if wrong == "name" else "x"
    typed = wrong in {"contents", "both"} or (wrong != "raw" and dtype != "float16" and draw(st.booleans()))
    parts = [*([(1, name)] if name else []), (2, datatype), *packed]
    parts += [(5, draw(contents(dtype, rows, wrong=wrong == "contents")))] if typed else []
    fields = [(1, dtype)] + [(5, message(*parts))] * (2 if wrong == "twice" else 1)
    if not typed or wrong == "both":
        fields.append((7, draw(binary(dtype, rows, wrong=wrong == "raw"))))
    if wrong == "parameter":
        key, value = draw(st.sampled_from(PARAMETERS))
        fields.append((4, message((1, key), (2, value))))
    if wrong == "output":
        name = draw(st.sampled_from(["y", "q", "", b"\xff"]))
        fields += [(6, message((1, name)))] * (draw(st.integers(1, 2)) if name == "y" else 1)
    if wrong == "id":
        fields.append((3, draw(st.sampled_from(["mine", b"\xff", "\u00e4"]))))
    return message(*draw(st.permutations(fields)))


@given(requests())
def test_rpcs_are_read_alike(planes, request_):
    rpc(planes, request_)


KNOWN = {
    **{f"the request's {field}": ((field, 1),) for field in range(1, 8)},
    **{f"text {field} that is none": ((field, b"\xff"),) for field in range(1, 4)},
    **{f"an input's {field}": ((5, message((field, 1))),) for field in (1, 2, 4, 5)},
    "an input's shape": ((5, b"\x1d\1\0\0\0"),),
    **{f"an output's {field}": ((6, message((field, 1))),) for field in (1, 2)},
    "a parameter's value": ((4, message((1, "timeout"), (2, 1))),),
}  # fmt: skip


@pytest.mark.parametrize("case", KNOWN)
def test_fields_of_the_wrong_kind_are_refused(planes, case):
    tensor = message((1, "x"), (2, "FP32"), (3, 1), (3, WIDTH))
    assert rpc(planes, message((1, "float32"), (5, tensor), (7, bytes(8)), *KNOWN[case])) == INVALID


@pytest.mark.parametrize("contents", [bytes([number << 3 | kind]) + bytes(4) for number, kind in
                         ((1, 5), (2, 5), (3, 5), (4, 5), (5, 5), (6, 0), (7, 5), (8, 5))])  # fmt: skip
def test_contents_of_the_wrong_kind_are_refused(planes, contents):
    tensor = message((1, "x"), (2, "FP32"), (3, 1), (3, WIDTH), (5, contents[: 5 if contents[0] & 7 == 5 else 2]))
    assert rpc(planes, message((1, "float32"), (5, tensor))) == INVALID


@pytest.mark.parametrize("sent", [message((99, 1)), message((99, b"x")), message((5000, b"x"), (99, 1))])
def test_fields_that_nobody_knows_are_passed_over(planes, sent):
    tensor = message((1, "x"), (2, "FP32"), (3, 1), (3, WIDTH)) + sent
    assert rpc(planes, message((1, "float32"), (5, tensor), (7, bytes(8))) + sent) == 0


@given(requests(), st.data())
def test_damaged_rpcs_are_refused_alike(planes, request_, more):
    body = bytearray(request_)
    place = more.draw(st.integers(0, len(body) - 1))
    body[place:] = more.draw(
        st.sampled_from([b"", bytes([body[place] ^ 1]) + body[place + 1 :], b"\xff" + body[place:]])
    )
    codes = [asker.rpc(bytes(body))[0] for asker in planes]
    # What is wrong twice is so by either code: the model is looked up before the message is read, or after.
    assert codes[0] == codes[1] or set(codes) == {INVALID, NOT_FOUND}
