from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify import containers
from vitrify.core.errors import SignatureError
from vitrify.core.signature import Field, Signature
from vitrify.serve.lanes import Batching
from vitrify.serve.models import Served
from vitrify.serve.models.matching import Matcher
from vitrify.serve.models.version import lane_spec
from vitrify.serve.ports import ports
from vitrify.serve.values import Infer

PLAIN = {"dtype": "float32", "shape": ("batch", 2)}


def signature(*inputs, outputs=({},)):
    def fields(sides, prefix):
        return tuple(
            Field(**{"name": f"{prefix}{place}", "dtype": "float32", **one}) for place, one in enumerate(sides)
        )

    return Signature(inputs=fields(inputs, "x"), outputs=fields(outputs, "y"))


def infer(*arrays, outputs=(), **named):
    return Infer("m", {**{f"x{place}": array for place, array in enumerate(arrays)}, **named}, outputs=outputs)


DTYPES = st.sampled_from(["float32", "float64", "int64", "int8", "uint16", "bool"])
SIZES = st.integers(1, 3)


@st.composite
def cases(draw):
    """Fields, and arrays that mostly fit them."""
    fields, arrays = [], []
    for place in range(draw(st.integers(1, 3))):
        shape = draw(st.lists(st.sampled_from(["batch", "n", 1, 2]), min_size=1, max_size=3))
        dtype = draw(DTYPES)
        fields.append(Field(name=f"x{place}", dtype=dtype, shape=tuple(shape), nullable=draw(st.booleans())))
        given_shape = [
            draw(SIZES) if isinstance(size, str) else draw(st.sampled_from([size, size, 3])) for size in shape
        ]
        array = np.ones(given_shape, draw(st.sampled_from([dtype, dtype, "float64", "int64"])))
        masked = draw(st.integers(0, 9)) == 0
        arrays.append(np.ma.masked_array(array) if masked else array)
    return Signature(inputs=tuple(fields)), arrays


@given(cases())
def test_the_quick_way_says_what_conforming_says(case):
    signature, arrays = case
    request = infer(*arrays)
    try:
        expected = containers.conform(request.inputs, signature.inputs)
    except SignatureError:
        expected = None
    try:
        matched = Matcher(signature).match(request).inputs
    except SignatureError:
        matched = None
    if expected is None:  # a matrix of one column is a column here, and not there
        columns = {name: array[..., 0] for name, array in request.inputs.items() if array.shape[-1:] == (1,)}
        assert matched is None or columns
        return
    assert matched is not None
    assert list(matched) == list(expected)
    for name, array in expected.items():
        assert type(matched[name]) is type(array)
        assert matched[name].dtype == array.dtype
        assert np.array_equal(matched[name], array)


def test_a_request_that_fits_is_handed_on_as_it_is():
    request = infer(np.ones((3, 2), np.float32), np.ones(3, np.int64), outputs=("y0",))
    assert Matcher(signature(PLAIN, {"dtype": "int64"})).match(request) is request


@pytest.mark.parametrize("order", ["<", ">"])
def test_bytes_in_another_order_are_put_right(order):
    array = np.arange(4).reshape(2, 2).astype(np.dtype("float32").newbyteorder(order))
    matched = Matcher(signature(PLAIN)).match(infer(array))
    assert matched.inputs["x0"].dtype.isnative
    assert np.array_equal(matched.inputs["x0"], array)


@pytest.mark.parametrize(
    ("inputs", "request_", "said"),
    [
        ([PLAIN], infer(), "nothing"),
        ([PLAIN], infer(np.ones((1, 2), np.float32), other=np.ones(1)), "no input is called 'other' .*'x0'"),
        ([PLAIN], infer(np.ones((1, 3), np.float32)), "axis 1 must be 2, not 3"),
        ([PLAIN], infer(np.full((1, 2), 0.1)), "float64"),
        ([PLAIN, {}], infer(np.ones((1, 2), np.float32), np.ones(2, np.float32)), "is 2 here and 1 in 'x0'"),
        ([PLAIN], infer(np.ones((1, 2), np.float32), outputs=("y1",)), "no output is called 'y1' .*'y0'"),
    ],
)
def test_what_does_not_fit_is_named(inputs, request_, said):
    with pytest.raises(SignatureError, match=said):
        Matcher(signature(*inputs)).match(request_)


def test_a_long_name_or_many_names_make_no_long_message():
    matcher = Matcher(signature(*[{}] * 500))
    with pytest.raises(SignatureError) as caught:
        matcher.match(Infer("m", {"z" * 100_000: np.ones(1)}))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("dtype", ["float64", "string", "int64"])
def test_a_column_may_come_as_a_matrix_of_one_column(dtype):
    values = np.array(["1", "2"], object) if dtype == "string" else np.array([1, 2], dtype)
    matched = Matcher(signature({"dtype": dtype})).match(infer(values[:, np.newaxis]))
    assert np.array_equal(matched.inputs["x0"], values)


def test_missing_values_go_to_fields_that_may_have_them():
    array = np.ma.masked_array([1, 2], mask=[True, False])
    matched = Matcher(signature({"dtype": "int64", "nullable": True})).match(infer(array))
    assert matched.inputs["x0"].mask.tolist() == [True, False]


@pytest.mark.parametrize(
    ("outputs", "answered"),
    [
        ([{}], True),
        ([{}, {"shape": ("batch", 3)}], True),
        ([{"shape": (2,)}], False),
        ([{"shape": ()}], False),
        ([], False),
    ],
)
def test_without_rows_the_model_is_asked_only_where_an_output_has_some_all_the_same(outputs, answered):
    matcher = Matcher(signature(PLAIN, outputs=outputs))
    nothing = matcher.without_rows(infer(np.ones((0, 2), np.float32)))
    assert (nothing is not None) == answered
    if answered:
        assert {array.shape[0] for array in nothing.values()} == {0}
    assert matcher.without_rows(infer(np.ones((1, 2), np.float32))) is None


@pytest.mark.parametrize(
    ("inputs", "outputs", "pad", "hot"),
    [
        ([PLAIN], [{}], {}, True),
        ([PLAIN, {"dtype": "int8"}], [{}, {"dtype": "string"}], {}, True),
        ([PLAIN], [{"dtype": "bytes"}], {}, True),
        ([{"dtype": "string"}], [{}], {}, False),
        ([{"dtype": "bfloat16"}], [{}], {}, False),
        ([{"dtype": "datetime64[ns]"}], [{}], {}, False),
        ([PLAIN | {"nullable": True}], [{}], {}, False),
        ([{"dtype": "int64", "categories": (1, 2)}], [{}], {}, False),
        ([{"shape": (3,)}], [{}], {}, False),
        ([{"shape": ()}], [{}], {}, False),
        ([PLAIN], [{"shape": (2,)}], {}, False),
        ([PLAIN], [{"nullable": True}], {}, False),
        ([PLAIN], [{"dtype": "object"}], {}, False),
        ([{"shape": ("batch", "n")}], [{}], {"x0": 0.0}, False),
        ([], [{}], {}, False),
    ],
)
def test_the_native_plane_may_take_plain_tensors_of_rows_and_nothing_else(inputs, outputs, pad, hot):
    made = signature(*inputs, outputs=outputs)
    sides = ports(made)
    batching = Batching(pad=pad)
    served = Served("m", "1", 1, "", "m", "", "READY", "", made, *sides, batching, 0.0, 0)
    assert lane_spec(served).hot == hot
