"""Raw tensors: every datatype there and back, by the bytes that Triton's client writes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.core.errors import SignatureError
from vitrify.serve.ports import DTYPES
from vitrify.serve.protocols._binary import element_bytes, from_binary, to_binary
from vitrify.serve.protocols._elements import narrow

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@pytest.mark.parametrize("datatype", sorted(set(DTYPES) - {"BF16"}))
@given(data=st.data())
def test_numbers_come_back_bit_for_bit(datatype, data):
    array = data.draw(hnp.arrays(DTYPES[datatype], data.draw(SHAPES)))
    raw = to_binary(array, datatype)
    assert len(raw) == array.size * element_bytes(datatype)
    back = from_binary(memoryview(raw), datatype, array.shape, where="x")
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@given(hnp.arrays(np.uint16, SHAPES))
def test_bfloat16_comes_back_bit_for_bit(bits):
    raw = bits.astype("<u2").tobytes()
    array = from_binary(memoryview(raw), "BF16", bits.shape, where="x")
    assert array.dtype == np.float32
    back = np.frombuffer(to_binary(array, "BF16"), "<u2").reshape(bits.shape)
    number = ~np.isnan(array)
    assert np.array_equal(back[number], bits[number])


def test_bfloat16_is_rounded_to_nearest_even():
    array = np.float32([1.00390625, 1.01171875, 3.4e38, -0.0, np.inf])
    assert narrow(array.astype(np.float64), "BF16").tolist() == [1.0, 1.015625, np.inf, -0.0, np.inf]


@given(st.lists(st.binary(max_size=6), max_size=6))
def test_text_comes_back_as_triton_writes_it(values):
    array = np.empty(len(values), object)
    array[:] = values
    raw = to_binary(array, "BYTES")
    assert from_binary(memoryview(raw), "BYTES", array.shape, where="x").tolist() == values
    if values and (utils := pytest.importorskip("tritonclient.utils")):
        assert raw == utils.serialize_byte_tensor(array).item()


@given(st.binary(max_size=40), st.sampled_from([*DTYPES, "BYTES"]))
def test_any_bytes_are_a_tensor_or_an_error_that_names_it(raw, datatype):
    for shape in ((), (2,), (0,), (2**40,), (2**31, 2**31)):
        try:
            array = from_binary(memoryview(raw), datatype, shape, where="x")
        except SignatureError as error:
            said = str(error)
        else:
            assert array.shape == shape
            continue
        assert said.startswith("x: ")
