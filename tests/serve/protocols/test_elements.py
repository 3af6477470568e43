"""``data`` in JSON: every datatype exactly, flat or nested, and what does not fit named with its place."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.core.errors import MalformedError, SignatureError
from vitrify.serve.ports import DTYPES
from vitrify.serve.protocols import _data
from vitrify.serve.protocols._elements import PIECE, elements, narrow
from vitrify.serve.protocols._json import quote_constants

WHERE = "inputs[0].data"
NUMBERS = sorted(set(DTYPES) - {"BF16"})


def read(text, datatype, shape, **options):
    content = text if isinstance(text, bytes) else text.encode()
    return elements(content, datatype, shape, where=WHERE, **options)


@st.composite
def arrays(draw):
    datatype = draw(st.sampled_from(NUMBERS))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    return datatype, draw(hnp.arrays(DTYPES[datatype], shape))


@given(arrays(), st.booleans())
def test_what_is_written_is_read_again(given_, nested):
    datatype, array = given_
    flat = b"[" + _data.flat(array, _data.STRINGS, _data.as_text) + b"]"
    text = _data.nested(array, _data.STRINGS, _data.as_text) if nested else flat
    json.loads(text)  # a reader of strict JSON takes it
    back = read(text, datatype, array.shape)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")


@given(st.lists(st.text() | st.just("a,b]["), max_size=6))
def test_text_is_read_again(values):
    array = np.array([*values, None], object)[:-1]
    text = b"[" + _data.flat(array, _data.STRINGS, _data.as_text) + b"]" if values else b"[]"
    assert read(text, "BYTES", (len(values),)).tolist() == values


@pytest.mark.parametrize(
    ("datatype", "text", "expected"),
    [
        ("INT64", "9007199254740993", 2**53 + 1),
        ("INT64", "-9223372036854775808", -(2**63)),
        ("UINT64", "18446744073709551615", 2**64 - 1),
        ("INT64", "9007199254740993.0", 2**53 + 1),
        ("INT32", "1e3", 1000),
        ("BOOL", "true", True),
        ("BOOL", "0", False),
        ("FP64", "0.1", 0.1),
        ("FP64", "-0.0", -0.0),
        ("FP32", "0.1", float(np.float32("0.1"))),
        ("FP32", '"Infinity"', math.inf),
        ("FP16", '"-Infinity"', -math.inf),
        # The nearest double is the middle between two; the text is above it, or below.
        ("FP32", "1.00000017881393432617187499", float(np.float32(1.0000001))),
        ("FP32", "1.00000017881393432617187501", float(np.float32(1.0000002))),
        ("FP16", "65519.99999999999999999999", 65504.0),
        ("BF16", "1.0039062500000000000000001", 1.0078125),
        ("BF16", "1.00390625", 1.0),
    ],
)
def test_a_number_is_exactly_the_nearest(datatype, text, expected):
    assert read(f"[{text}]", datatype, (1,)).tolist() == [expected]


@pytest.mark.parametrize("token", ["NaN", '"NaN"'])
def test_what_is_no_number_is_taken_as_a_token_or_a_string(token):
    assert np.isnan(read(quote_constants(f"[{token}]".encode()), "FP32", (1,))[0])


@pytest.mark.parametrize(
    ("datatype", "shape", "text", "message"),
    [
        ("INT8", (2,), "[1,300]", r"inputs\[0\].data\[1\]: 300 where INT8 takes an integer from -128 to 127"),
        ("UINT8", (1,), "[-1]", r"data\[0\]: -1 where UINT8"),
        ("INT64", (1,), "[9223372036854775808]", r"data\[0\]: 9223372036854775808 where"),
        ("INT64", (1,), "[1.5]", r"data\[0\]: 1.5 where INT64 takes an integer"),
        ("INT64", (1,), "[9007199254740992.5]", r"data\[0\]"),
        ("INT64", (1,), "[true]", r"data\[0\]: true where INT64"),
        ("INT64", (1,), '["1"]', r'data\[0\]: "1" where INT64'),
        ("INT64", (1,), '["NaN"]', r'data\[0\]: "NaN" where INT64'),
        ("INT64", (1,), f"[{'1' * 5000}]", r"data\[0\]: 1111"),
        ("FP32", (2,), '[1,"x"]', r'data\[1\]: "x" where FP32 takes a number'),
        ("FP32", (2,), '[1,{"a":1}]', r"data\[1\]: "),
        ("FP32", (2,), "[1,{}]", r"data\[1\]: "),
        ("FP32", (1,), "[true]", r"data\[0\]: true"),
        ("FP32", (1,), "[1e39]", r"data\[0\]: 1e39 is larger than FP32 can hold"),
        ("FP64", (1,), "[1e999]", r"data\[0\]: 1e999 is no number that FP64 can hold"),
        ("FP64", (1,), f"[{'1' * 400}]", r"data\[0\]"),
        ("FP16", (1,), "[65520]", r"data\[0\]: 65520 is larger"),
        ("BOOL", (2,), "[true,2]", r"data\[1\]: 2 where BOOL takes true or false"),
        ("BOOL", (1,), "[1.0]", r"data\[0\]: 1.0 where BOOL"),
        ("FP32", (1,), "[null]", r"data\[0\]: null where"),
        ("BYTES", (1,), "[1]", r"data\[0\]: 1 where BYTES takes a string"),
        ("BYTES", (2, 1), '[["a"],["b","c"]]', "an array of 2 where the shape"),
        ("BYTES", (1,), "[null]", r"data\[0\]: null where BYTES"),
        ("FP32", (2, 2), "[1,2,3]", r"3 elements, but the shape \[2, 2\] has 4"),
        ("FP32", (2, 2), "[[1,2],[3]]", "3 elements"),
        ("FP32", (2, 2), "[[1,2,3],[4]]", "neither flat nor nested"),
        ("FP32", (2, 2), "[[[1,2],[3,4]]]", "neither flat nor nested"),
        ("FP32", (2, 1), "[[1],[]]", r"data\[1\]: nothing is no number"),
        ("FP32", (1,), "[]", "0 elements"),
        ("FP32", (10**18,), "[1]", "1 elements, but the shape"),
        ("FP32", (10**9, 10**9, 0), "[1]", "1 elements"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(datatype, shape, text, message):
    with pytest.raises(SignatureError, match=message):
        read(text, datatype, shape)


def test_the_place_is_right_beyond_the_first_piece():
    numbers = ["0.5"] * PIECE
    numbers[-3] = "true"
    with pytest.raises(SignatureError, match=rf"data\[{PIECE - 3}\]: true"):
        read(f"[{','.join(numbers)}]", "FP32", (PIECE,))


@pytest.mark.parametrize(("datatype", "value"), [("INT32", 0), ("BOOL", False), ("FP32", None), ("BYTES", None)])
def test_what_may_be_missing_is_null(datatype, value):
    given_ = {"INT32": "[1,null]", "BOOL": "[true,null]", "FP32": "[1,null]", "BYTES": '["a",null]'}[datatype]
    array = read(given_, datatype, (2,), gaps=True)
    if datatype == "BYTES":
        assert array.tolist() == ["a", None]
    elif datatype == "FP32":
        assert np.isnan(array[1])
    else:
        assert np.ma.getmaskarray(array).tolist() == [False, True]
        assert array.data[1] == value


def test_mixed_values_keep_their_types():
    assert read('["a",1,2.5,true,null]', "BYTES", (5,), gaps=True, mixed=True).tolist() == ["a", 1, 2.5, True, None]


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "BF16"])
@given(number=st.decimals(allow_nan=False, allow_infinity=False, min_value=-60000, max_value=60000, places=30))
def test_rounding_is_to_the_nearest_of_the_decimal_itself(datatype, number):
    (found,) = read(f"[{number}]", datatype, (1,)).tolist()
    exact = Fraction(number)
    steps = narrow(np.nextafter(np.float64(found), [-np.inf, np.inf]), datatype)
    assert steps.tolist() == [found, found]  # it is a number of the datatype
    for neighbour in neighbours(found, datatype):
        assert abs(exact - Fraction(found)) <= abs(exact - Fraction(neighbour))


def neighbours(value, datatype):
    if datatype == "BF16":
        (bits,) = struct.unpack("<I", struct.pack("<f", abs(value)))
        around = [bits - 0x10000, bits + 0x10000] if bits else [0x10000]
        return [math.copysign(struct.unpack("<f", struct.pack("<I", one))[0], value) for one in around]
    kind = np.dtype(DTYPES[datatype])
    return [float(np.nextafter(kind.type(value), kind.type(end))) for end in (-np.inf, np.inf)]


@pytest.mark.parametrize("nested", [False, True])
def test_numbers_take_little_more_memory_than_their_text(nested):
    count = 200_000
    text = b"[" + b",".join([b"[0.1]" if nested else b"0.1"] * count) + b"]"
    tracemalloc.start()
    try:
        array = elements(text, "FP64", (count, 1), where=WHERE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert array.nbytes == 8 * count
    assert peak < 10 * len(text), "more than ten times the text"


@given(st.binary(max_size=40) | st.text(alphabet='[]{},:"0123456789.eE+-truefalsnNaI \\').map(str.encode))
def test_any_json_is_an_array_or_an_error_that_names_it(text):
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return
    for datatype in ("INT8", "FP32", "BF16", "BOOL", "BYTES"):
        try:
            elements(text, datatype, (2,), where=WHERE)
        except (SignatureError, MalformedError) as error:
            said = str(error)
        else:
            continue
        assert WHERE in said
