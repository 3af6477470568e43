"""What joblib writes between opcodes: read where it is what joblib writes, refused where it could be two things."""

import io
import os
import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from samples.joblibs import ARRAYS

from vitrify.core.errors import LimitExceededError, MalformedError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.pickles.joblib_dialect import Joblib
from vitrify.pickles.machine import audit, load


def dumped(value, protocol=4):
    stream = io.BytesIO()
    joblib.dump(value, stream, protocol=protocol)
    return stream.getvalue()


def read(content):
    return load(memoryview(content), where="x", allow=Allow(), dialect=Joblib(where="x"))


def looked(content):
    return audit(memoryview(content), where="x", dialect=Joblib(where="x"))


def same(left, right):
    return type(left) is type(right) and left.dtype == right.dtype and repr(left) == repr(right)


class Payload:
    """Does what it is told to when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", ARRAYS)
def test_every_kind_of_array_comes_back_as_joblib_reads_it(name, protocol):
    content = dumped({name: ARRAYS[name]}, protocol)
    assert looked(content).findings == ()
    ours, theirs = read(content)[name], ARRAYS[name]
    if name == "twice":
        assert all(map(same, ours, theirs))
    else:
        assert same(ours, theirs)


PLAIN = st.one_of(arrays.scalar_dtypes(), arrays.unicode_string_dtypes(max_len=4), arrays.array_dtypes(max_size=3))


@given(
    arrays.arrays(PLAIN, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    st.sampled_from("CF"),
    st.integers(0, 40),
)
def test_any_array_comes_back_as_joblib_reads_it_wherever_it_stands(array, order, shift):
    content = dumped(["x" * shift, np.asarray(array, order=order), array])
    ours, theirs = read(content), joblib.load(io.BytesIO(content))
    for left, right in zip(ours[1:], theirs[1:], strict=True):
        assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def test_an_array_in_memory_of_its_own_can_be_written_to_and_is_not_copied():
    content = bytearray(dumped(np.arange(1000.0)))
    array = read(content)
    array[0] = 7.0
    assert content.count(np.float64(7.0).tobytes()) >= 2
    assert read(bytes(content)).flags.writeable


def test_what_old_joblib_wrote_without_padding_is_read():
    content = without_padding(dumped([np.arange(3.0), "after"]))
    array, after = read(content)
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert after == "after"


def without_padding(content):
    """Take the padding away, and the attribute that says so, as joblib before 1.2 wrote."""
    key = b"\x8c\x1bnumpy_array_alignment_bytes\x94K\x10"
    assert key in content
    at = content.index(b"ub", content.index(key)) + 2
    size = content[at]
    content = content[:at] + content[at + 1 + size :]
    frame = content.index(b"\x95")
    length = int.from_bytes(content[frame + 1 : frame + 9], "little") - len(key)
    content = content[: frame + 1] + length.to_bytes(8, "little") + content[frame + 9 :]
    return content.replace(key, b"")


@pytest.mark.parametrize("trick", ["before", "between", "after", "object array"])
def test_a_payload_anywhere_around_arrays_is_found_and_does_not_run(tmp_path, trick):
    marker = tmp_path / "marker"
    payload, array = Payload(marker), np.arange(100.0)
    value = {
        "before": [payload, array],
        "between": [array, payload, array],
        "after": [array, payload],
        "object array": [array, np.array([payload], dtype=object)],
    }[trick]
    content = dumped(value)
    assert {one.subject for one in looked(content).findings} == {"posix.mkdir"}
    with pytest.raises(UntrustedCodeError, match=r"posix\.mkdir"):
        read(content)
    assert not marker.exists()
    joblib.load(io.BytesIO(content))
    assert marker.exists()


def test_opcodes_in_the_place_of_a_padding_are_refused():
    content = bytearray(dumped([np.arange(3.0)]))
    at = content.index(b"ub", content.index(b"alignment_bytes")) + 2
    for change in (b"c", b"\x00", bytes([content[at] + 1])):
        hidden = bytes(content[:at]) + change + bytes(content[at + 1 :])
        with pytest.raises(MalformedError, match="padding"):
            read(hidden)
    hidden = bytes(content[: at + 1]) + b"N" + bytes(content[at + 2 :])
    with pytest.raises(MalformedError, match="padding"):
        read(hidden)


def test_an_array_that_a_reader_of_plain_pickles_would_run_is_found(tmp_path):
    marker = tmp_path / "marker"
    program = b"cposix\nmkdir\n(X" + len(str(marker)).to_bytes(4, "little") + str(marker).encode() + b"tR."
    content = without_padding(dumped([np.frombuffer(program, np.uint8)]))
    assert [one.rule for one in looked(content).findings]
    with pytest.raises(MalformedError, match="plain pickles"):
        read(content)
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists()


def test_an_array_inside_the_pickle_of_an_array_of_objects_is_refused():
    outer = dumped(np.array([None, 1], dtype=object))
    at = outer.index(b"\x80\x05", 2)
    content = outer[:at] + dumped([np.arange(3.0)]) + b"."
    with pytest.raises(MalformedError, match="reads no arrays"):
        read(content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x8c\x02f8", b"\x8c\x02f3"),
        (b"\x8c\x02f8", b"\x8c\x02Q8"),
        (b"\x8c\x02f8", b"\x8c\x02\xc2\xa9"),
        (b"\x8c\x05dtype\x94\x93", b"\x8c\x05dtypo\x94\x93"),
        (b"\x8c\x05shape", b"\x8c\x05shade"),
        (b"K\x03\x85", b"K\xff\x85"),
        (b"K\x03\x85", b"N0)"),
        (b"K\x10", b"K\x00"),
        (b"K\x10", b"K\xff"),
    ],
)
def test_a_description_that_joblib_does_not_write_is_refused(old, new):
    content = dumped([np.arange(3.0)])
    assert old in content
    with pytest.raises(VitrifyError):
        read(content.replace(old, new, 1))


def test_arrays_in_files_beside_are_not_checked_and_say_how_to_read_them():
    content = b"\x80\x02cjoblib.numpy_pickle\nNDArrayWrapper\n)\x81}X\x08\0\0\0filenameX\x07\0\0\0../evilsb."
    (finding,) = looked(content).findings
    assert finding.verdict == "not checked"
    assert "files beside" in finding.message
    with pytest.raises(LimitExceededError, match="files beside"):
        read(content)


def test_second_files_are_not_opened(tmp_path):
    marker = tmp_path / "second.joblib"
    for name in (b"joblib.numpy_pickle\nload", b"joblib\nload", b"numpy\nload", b"joblib.numpy_pickle\ndump"):
        content = b"c" + name + b"\n(X" + len(str(marker)).to_bytes(4, "little") + str(marker).encode() + b"tR."
        assert any(one.rule == "untrusted-global" for one in looked(content).findings)
        with pytest.raises(UntrustedCodeError):
            read(content)


CONTENT = dumped(ARRAYS)


@given(st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_bytes_changed_anywhere_give_a_value_or_an_error_of_ours(changes):
    content = bytearray(CONTENT)
    for at, value in changes:
        content[at] = value
    looked(bytes(content))
    try:
        read(bytes(content))
    except VitrifyError:
        return


@given(st.integers(0, len(CONTENT) - 1))
def test_a_file_that_is_cut_off_is_refused(end):
    with pytest.raises(MalformedError):
        read(CONTENT[:end])
