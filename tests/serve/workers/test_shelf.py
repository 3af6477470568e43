from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.serve.workers._shelf import Shelf, Slot

DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(sizes=(64, 128)),
    npst.datetime64_dtypes(),
)
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
PLAIN = npst.arrays(DTYPES, SHAPES)
TEXTS = npst.arrays(np.object_, SHAPES, elements=st.one_of(st.text(), st.binary(), st.none(), st.integers()))
MASKED = st.builds(
    lambda array, seed: np.ma.MaskedArray(array, np.random.default_rng(seed).random(array.shape) < 0.5),
    npst.arrays(np.int64, SHAPES),
    st.integers(0, 9),
)


@pytest.fixture
def sides():
    """The same memory from both sides."""
    writer = Shelf.new()
    reader = Shelf(os.dup(writer.descriptor))
    yield writer, reader
    writer.close()
    reader.close()


def same(one, other):
    assert type(one) is type(other)
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    if isinstance(one, np.ma.MaskedArray):
        assert np.ma.getmaskarray(one).tolist() == np.ma.getmaskarray(other).tolist()
        assert one.tolist() == other.tolist()
    elif one.dtype == object:
        assert [(type(value), value) for value in one.flat] == [(type(value), value) for value in other.flat]
    else:
        assert one.tobytes() == other.tobytes()


@given(arrays=st.dictionaries(st.text(max_size=5), st.one_of(PLAIN, TEXTS, MASKED), max_size=4))
def test_what_is_put_there_is_what_is_taken_whatever_lay_there_before(sides, arrays):
    writer, reader = sides
    got = reader.take(writer.put(arrays))
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        same(got[name], array)


def test_what_is_taken_is_a_copy_and_arrays_of_any_layout_go(sides):
    writer, reader = sides
    array = np.arange(24.0).reshape(4, 6)
    taken = reader.take(writer.put({"a": array[::2, ::-1], "b": array.T, "text": np.array(["ä", "b"])}))
    writer.put({"a": np.zeros((2, 6))})
    assert taken["a"].tolist() == array[::2, ::-1].tolist()
    assert taken["b"].tolist() == array.T.tolist()
    assert taken["text"].tolist() == ["ä", "b"]


def test_it_grows_while_both_sides_use_it(sides):
    writer, reader = sides
    for size in (1, 10_000, 3_000_000, 5):
        array = np.random.default_rng(size).integers(0, 255, size, np.uint8)
        assert reader.take(writer.put({"a": array}))["a"].tobytes() == array.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux seals memory")
def test_nobody_can_cut_it_off(sides):
    writer, reader = sides
    writer.put({"a": np.ones(100_000)})
    with pytest.raises(PermissionError):
        os.ftruncate(reader.descriptor, 10)


@pytest.mark.parametrize(
    ("slot", "said"),
    [
        (Slot("a", "data", "<f8", (1 << 40,), 0), "ends at byte"),
        (Slot("a", "data", "<f8", (1 << 62, 1 << 62), 0), "ends at byte"),
        (Slot("a", "data", "<f8", (2,), 1 << 40), "ends at byte"),
        (Slot("a", "data", "<f8", (2,), -8), "no place"),
        (Slot("a", "data", "<f8", (-1, -1), 0), "no place"),
        (Slot("a", "data", "<f8", (1,) * 65, 0), "no place"),
        (Slot("a", "data", "O", (1,), 0), "element type"),
        (Slot("a", "data", "|O8", (1,), 0), "element type"),
        (Slot("a", "data", "<f7", (1,), 0), "element type"),
        (Slot("a", "data", "<U5", (1,), 0), "element type"),
        (Slot("a", "offsets", "<i8", (1,), 0), "parts of an array"),
    ],
)
def test_a_place_that_is_none_is_refused(sides, slot, said):
    writer, reader = sides
    writer.put({"a": np.ones(3)})
    with pytest.raises(MalformedError, match=said):
        reader.take([slot])


def test_text_whose_offsets_lie_is_refused(sides):
    writer, reader = sides
    slots = writer.put({"a": np.array(["one", "two"], object)})
    lying = [
        Slot(slot.name, slot.part, slot.dtype, slot.shape, slots[0].offset if slot.part == "offsets" else slot.offset)
        for slot in slots
    ]
    with pytest.raises(MalformedError):
        reader.take(lying)


def test_what_has_no_portable_form_is_refused(sides):
    with pytest.raises(UnsupportedModelError):
        sides[0].put({"a": np.array([object()])})
