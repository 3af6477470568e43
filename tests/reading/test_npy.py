"""``.npy``: what NumPy writes is read to the bit, and what nobody writes is refused before anything is made of it."""

import contextlib
import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.reading import literal, npy

PLAIN = st.one_of(
    arrays.scalar_dtypes(),
    arrays.unicode_string_dtypes(max_len=5),
    arrays.byte_string_dtypes(max_len=5),
    arrays.array_dtypes(max_size=3),
)


def written(array, version=None):
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about versions 2 and 3, which are meant here
        np.lib.format.write_array(stream, array, version=version, allow_pickle=True)
    return stream.getvalue()


def with_header(text, content=b"", version=1):
    size = 2 if version == 1 else 4
    header = text if isinstance(text, bytes) else text.encode()
    return b"\x93NUMPY" + bytes((version, 0)) + len(header).to_bytes(size, "little") + header + content


def same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes("A") == right.tobytes("A")


@given(dtype=PLAIN, shape=arrays.array_shapes(min_dims=0, min_side=0, max_dims=4, max_side=4), data=st.data())
def test_what_numpy_writes_is_read_to_the_bit(dtype, shape, data):
    array = data.draw(arrays.arrays(dtype, shape))
    for one in (array, np.asfortranarray(array)):
        for version in ((1, 0), (2, 0), (3, 0)):
            try:
                content = written(one, version)
            except UnicodeEncodeError:
                continue  # names that only version 3 can hold
            assert same(npy.array(memoryview(content), where="x"), one)


@given(dtype=PLAIN, shape=arrays.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4), data=st.data())
def test_what_we_write_is_read_by_numpy_and_by_us(dtype, shape, data):
    array = data.draw(arrays.arrays(dtype, shape))
    content = b"".join(npy.encode(array))
    assert same(np.lib.format.read_array(io.BytesIO(content)), np.asarray(array))
    back = npy.decode(memoryview(content), where="x")
    assert back.flags.writeable
    assert b"".join(npy.encode(back)) == content


def test_the_layout_is_told_without_the_content_in_words_of_numpy():
    found = npy.layout(memoryview(written(np.zeros((3, 4), np.float32, order="F"))), where="x")
    assert (found.type, found.shape, found.fortran, found.nbytes) == ("float32", (3, 4), True, 48)
    assert npy.layout(memoryview(written(np.zeros(2, "U3"))), where="x").type == "<U3"
    assert npy.layout(memoryview(written(np.zeros(2, bool))), where="x").type == "bool"
    record = npy.layout(memoryview(written(np.zeros(2, [("a", "i4"), ("b", "f8", (2,))]))), where="x")
    assert record.itemsize == 20


def test_an_array_of_objects_is_told_apart_and_not_unpickled(tmp_path):
    marker = tmp_path / "marker"

    class Payload:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    content = memoryview(written(np.array([Payload()], dtype=object)))
    found = npy.layout(content, where="x")
    assert found.objects
    assert bytes(content[found.start : found.start + 1]) == b"\x80"
    with pytest.raises(MalformedError, match="pickle"):
        npy.array(content, where="x")
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "1",
        "__import__('os').system('true')",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (__import__('os').getpid(),)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1+1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} 1",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<q8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'f8,i4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8[ns]', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<M8[nonsense]', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a',)], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<i4'), ('a', '<i4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [(1, '<f8')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<f8', (2**70,)), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<f8', (4294967296, 4294967296)), 'fortran_order': False, 'shape': (0,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592, 2147483648, 1)}",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (99999999999,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)",
        "{'descr': '\\N{BULLET}', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8' '<f8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': f'<f8', 'fortran_order': False, 'shape': (1,)}",
    ],
)
def test_a_header_that_numpy_does_not_write_is_refused(text):
    for version in (1, 2, 3):
        with pytest.raises(MalformedError):
            npy.array(memoryview(with_header(text, bytes(8), version)), where="x")


def test_a_header_that_python_2_wrote_is_read():
    text = "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1L,), }          \n"
    assert npy.array(memoryview(with_header(text, b"\x01\0\0\0")), where="x")["a"].tolist() == [1]


def test_too_long_and_too_deep_headers_are_limits():
    long = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}" + " " * 1_000_000
    deep = "(" * 1000 + ")" * 1000
    digits = "9" * 50
    with pytest.raises(LimitExceededError):
        npy.layout(memoryview(with_header(long, bytes(8), 2)), where="x")
    for text in (deep, digits):
        with pytest.raises(LimitExceededError):
            literal.parse(text, where="x")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x04\x00\x00\x00", b"\x93NUMPY\x01\x00\xff"])
def test_a_file_that_is_cut_off_in_its_header_is_refused(content):
    with pytest.raises(MalformedError):
        npy.layout(memoryview(content), where="x")


def test_bytes_too_few_or_too_many_are_refused():
    content = written(np.arange(4.0))
    for wrong in (content[:-1], content + b"\0", content + content):
        with pytest.raises(MalformedError, match="bytes for an array"):
            npy.layout(memoryview(wrong), where="x")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(),
        lambda part: st.lists(part) | st.lists(part).map(tuple) | st.dictionaries(st.text(), part),
        max_leaves=20,
    )
)
def test_what_repr_writes_is_read_as_it_was(value):
    try:
        assert literal.parse(repr(value), where="x") == value
    except LimitExceededError:
        assert repr(value).count("(") + repr(value).count("[") + repr(value).count("{") >= literal.MAX_DEPTH


@given(st.text(st.sampled_from("{}()[]'\",:\\ -0179LTrueFalsNonexuU\n")))
def test_no_text_gets_anything_but_an_error_of_ours(text):
    with contextlib.suppress(VitrifyError):
        literal.parse(text, where="x")
