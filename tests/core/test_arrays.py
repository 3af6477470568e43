"""The golden samples' file: every value comes back, and no bytes make it crash."""

import contextlib
import io
import math
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify.core import arrays
from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.signature import DTYPES

NUMERIC = sorted(DTYPES - {"bfloat16", "string", "object", "bytes"})
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
OBJECTS = st.one_of(
    TEXT, st.none(), st.binary(max_size=5), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=True)
)


@st.composite
def object_arrays(draw):
    shape = draw(SHAPES)
    array = np.empty(shape, object)
    flat = array.reshape(-1)
    for index in range(array.size):
        flat[index] = draw(OBJECTS)
    return flat.reshape(shape)


NUMERIC_ARRAYS = st.sampled_from(NUMERIC).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
MASKED = st.sampled_from(["int8", "int64", "uint64", "bool", "datetime64[us]"]).flatmap(
    lambda dtype: SHAPES.flatmap(
        lambda shape: st.builds(
            lambda data, mask: np.ma.MaskedArray(data, mask=mask), hnp.arrays(dtype, shape), hnp.arrays(bool, shape)
        )
    )
)
ANY = st.dictionaries(TEXT, st.one_of(NUMERIC_ARRAYS, object_arrays(), MASKED), max_size=3)


def dumped(named):
    stream = io.BytesIO()
    arrays.dump(named, stream)
    return stream.getvalue()


def same(left, right):
    """Equal in type, shape and every bit that means something."""
    assert type(left) is type(right)
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    if isinstance(left, np.ma.MaskedArray):
        np.testing.assert_array_equal(np.ma.getmaskarray(left), np.ma.getmaskarray(right))
        np.testing.assert_array_equal(left.compressed(), right.compressed())
    elif left.dtype.kind != "O":
        assert left.tobytes() == right.tobytes()
    else:
        for one, other in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True):
            assert type(one) is type(other)
            if isinstance(one, float):
                assert math.isnan(one) == math.isnan(other)
                assert math.isnan(one) or struct.pack("<d", one) == struct.pack("<d", other)
            else:
                assert one == other


@given(ANY)
def test_every_array_comes_back(named):
    loaded = arrays.load(dumped(named), where="golden.npz")
    assert list(loaded) == list(named)
    for name, array in named.items():
        same(loaded[name], array)


@given(ANY)
def test_the_same_arrays_make_the_same_bytes(named):
    assert dumped(named) == dumped({name: array.copy() for name, array in named.items()})


def test_a_hidden_value_behind_a_mask_leaves_no_trace():
    one, other = (np.ma.MaskedArray([7, hidden], mask=[False, True]) for hidden in (1, 2))
    assert dumped({"x": one}) == dumped({"x": other})


def test_the_largest_integers_survive_beside_missing_ones():
    array = np.ma.MaskedArray([2**63 - 1, -(2**63), 0], mask=[False, False, True])
    loaded = arrays.load(dumped({"x": array}), where="x")["x"]
    assert loaded.tolist() == [2**63 - 1, -(2**63), None]


def test_text_that_looks_missing_stays_text():
    array = np.array(["nan", "", "None", None, float("nan"), "\udc80"], object)
    same(arrays.load(dumped({"x": array}), where="x")["x"], array)


def test_fixed_width_text_becomes_objects_and_layout_does_not_matter():
    matrix = np.arange(6.0).reshape(2, 3)
    loaded = arrays.load(dumped({"u": np.array(["a", "bb"]), "f": np.asfortranarray(matrix)}), where="x")
    assert loaded["u"].tolist() == ["a", "bb"]
    np.testing.assert_array_equal(loaded["f"], matrix)
    assert (
        dumped({"f": matrix}) == dumped({"f": np.asfortranarray(matrix)}) == dumped({"f": matrix.repeat(2, 1)[:, ::2]})
    )


def test_numpy_scalars_among_objects_come_back_as_python_numbers():
    array = np.array([np.int64(2**60), np.float32(0.1), np.bool_(1), np.str_("a")], object)
    values = arrays.load(dumped({"x": array}), where="x")["x"].tolist()
    assert values == [2**60, float(np.float32(0.1)), True, "a"]
    assert [type(value) for value in values] == [int, float, bool, str]


@pytest.mark.parametrize(
    "array",
    [np.array([{}], object), np.array([1 + 2j, "a"], object), np.zeros(2, "f8,i4"), np.zeros(2, np.longdouble)],
    ids=["dict", "complex among objects", "structured", "long double"],
)
def test_what_cannot_be_kept_is_refused_with_the_name_and_a_remedy(array):
    with pytest.raises(UnsupportedModelError, match="col: ") as caught:
        dumped({"col": array})
    assert "before saving" in caught.value.remedy


SAMPLE = dumped(
    {
        "n": np.arange(5, dtype=np.int64),
        "t": np.array(["a", None, b"b", 5, 2.5, True], object),
        "m": np.ma.MaskedArray([1, 2], mask=[True, False]),
    }
)


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
@settings(max_examples=600)
def test_a_changed_byte_is_malformed_or_loads(position, change):
    data = bytearray(SAMPLE)
    data[position] ^= change
    with contextlib.suppress(MalformedError):
        arrays.load(bytes(data), where="golden.npz")


@given(st.integers(0, len(SAMPLE) - 1))
def test_a_truncated_file_is_malformed(size):
    with pytest.raises(MalformedError, match=r"golden\.npz"):
        arrays.load(SAMPLE[:size], where="golden.npz")


def archive(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as target:
        for name, array in members.items():
            content = io.BytesIO()
            if isinstance(array, bytes):
                content.write(array)
            else:
                np.lib.format.write_array(content, np.asarray(array), allow_pickle=True)
            target.writestr(name, content.getvalue())
    return stream.getvalue()


TITLE = {"000000.name.npy": np.frombuffer(b"x", np.uint8)}
NPY_HUGE = (
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(0x75)
    + b"\n"
)


def parts(**changes):
    good = {
        "data": np.frombuffer(b"ab", np.uint8),
        "offsets": np.array([0, 1, 2]),
        "kinds": np.zeros(2, np.uint8),
        "shape": np.array([2]),
    }
    return TITLE | {f"000000.{part}.npy": array for part, array in (good | changes).items()}


HOSTILE = {
    "a pickle": TITLE | {"000000.data.npy": np.array([{}], object)},
    "a header that claims terabytes": TITLE | {"000000.data.npy": NPY_HUGE},
    "bytes behind the array": TITLE | {"000000.data.npy": b"\x93NUMPY" + b"\0" * 9},
    "a structured array": TITLE | {"000000.data.npy": np.zeros(1, "f8,i4")},
    "no name": {"000000.data.npy": np.zeros(1)},
    "a name of numbers": {"000000.name.npy": np.zeros(1), "000000.data.npy": np.zeros(1)},
    "two arrays of one name": {
        f"00000{index}.{part}.npy": array
        for index in range(2)
        for part, array in (("name", np.frombuffer(b"x", np.uint8)), ("data", np.zeros(1)))
    },
    "a member of another kind": {"readme.txt": b"hello"},
    "a mask of another shape": TITLE | {"000000.data.npy": np.zeros(2), "000000.mask.npy": np.zeros(3, bool)},
    "a mask of numbers": TITLE | {"000000.data.npy": np.zeros(2), "000000.mask.npy": np.zeros(2)},
    "offsets that go back": parts(offsets=np.array([0, 2, 1])),
    "offsets beyond the end": parts(offsets=np.array([0, 1, 9])),
    "offsets that start late": parts(offsets=np.array([1, 1, 2])),
    "offsets of floats": parts(offsets=np.array([0.0, 1.0, 2.0])),
    "an unknown kind": parts(kinds=np.array([0, 200], np.uint8)),
    "a kind too few": parts(kinds=np.zeros(1, np.uint8)),
    "a shape of another size": parts(shape=np.array([3])),
    "a negative shape": parts(shape=np.array([-1])),
    "text that is no UTF-8": parts(data=np.frombuffer(b"\xff\xfe", np.uint8)),
    "a float of one byte": parts(kinds=np.array([6, 6], np.uint8)),
    "a number of letters": parts(kinds=np.array([5, 5], np.uint8)),
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_malformed(members):
    with pytest.raises(MalformedError, match="not a file of named arrays"):
        arrays.load(archive(members), where="golden.npz")


def test_a_compressed_member_is_refused_before_it_is_unpacked():
    bomb = archive(TITLE | {"000000.data.npy": np.zeros(1_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(MalformedError, match="compressed"):
        arrays.load(bomb, where="golden.npz")


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_noise_is_malformed(data):
    with pytest.raises(MalformedError):
        arrays.load(data, where="golden.npz")
