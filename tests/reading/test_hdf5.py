"""HDF5 as we read it, against HDF5 as h5py writes and reads it; and files that no library would write."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import MIB, memory

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.reading import hdf5
from vitrify.reading._hdf5.checksum import lookup3

VERSIONS = ("earliest", "v108", "latest")


def write(fill, **options):
    """Return the bytes of a file that a function filled."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", **options) as file:
        fill(file)
    return stream.getvalue()


def opened(data):
    return hdf5.File(memoryview(data), where="file")


def walked(data):
    return dict(opened(data).walk())


names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name != "."
)
numbers = st.sampled_from(["f2", "f4", ">f8", "i1", "<i4", ">i8", "u2", "?"])
arrays = st.builds(
    lambda kind, shape: (np.arange(int(np.prod(shape))).reshape(shape) % 7).astype(kind),
    numbers,
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
)
values = st.one_of(
    arrays,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    st.lists(st.text("abcäö", min_size=1, max_size=5), min_size=1, max_size=4),
)
nodes = st.recursive(arrays, lambda inner: st.dictionaries(names, inner, max_size=12), max_leaves=40)
trees = st.tuples(st.dictionaries(names, nodes, max_size=12), st.dictionaries(names, values, max_size=12))


def fill_tree(group, tree):
    for name, node in tree.items():
        if isinstance(node, dict):
            fill_tree(group.create_group(name), node)
        else:
            group[name] = node


def plain(value):
    """Return a value of h5py's as we would give it."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return [plain(one) for one in value] if isinstance(value, list) else value


@given(trees, st.sampled_from(VERSIONS), st.booleans())
def test_any_tree_reads_as_h5py_reads_it(tree, version, ordered):
    def fill(file):
        fill_tree(file, tree[0])
        for name, value in tree[1].items():
            file.attrs[name] = value

    data = write(fill, libver=version, track_order=ordered)
    ours = walked(data)
    theirs = {}
    with h5py.File(io.BytesIO(data)) as file:
        file.visititems(lambda name, node: theirs.update({f"/{name}": node}))
        assert ours.keys() == theirs.keys()
        for name, node in theirs.items():
            assert isinstance(ours[name], hdf5.Dataset) == isinstance(node, h5py.Dataset)
            if isinstance(node, h5py.Dataset):
                assert ours[name].shape == node.shape
                assert ours[name].type.name == node.dtype.name
                assert 0 in node.shape or ours[name].values() == plain(node[()])
        attributes = {name: attribute.value() for name, attribute in opened(data).root.attrs.items()}
        expected = {name: plain(value) for name, value in file.attrs.items()}
        assert attributes.keys() == expected.keys()
        assert all(np.size(expected[name]) == 0 or attributes[name] == expected[name] for name in expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("array", "options"),
    [
        (
            np.arange(1000).reshape(20, 50),
            {"chunks": (7, 11), "compression": "gzip", "shuffle": True, "fletcher32": True},
        ),
        (np.arange(100.0), {"chunks": (100,), "compression": "gzip"}),
        (np.arange(100.0), {"chunks": (30,), "maxshape": (None,)}),
        (np.ones((3, 4), np.float16), {}),
        (np.arange(6, dtype=">u2"), {}),
        (np.array([(1, 2.5, [1, 2])], dtype=[("i", "i4"), ("f", "f8"), ("v", "i2", (2,))]), {}),
        (np.array([[True, False]]), {}),
    ],
)
def test_every_layout_reads_as_h5py_reads_it_or_is_said_not_to_be_read(array, options, version):
    data = write(lambda file: file.create_dataset("x", data=array, **options), libver=version)
    node = walked(data)["/x"]
    assert node.shape == array.shape
    if version == "latest" and options.get("chunks") in {(7, 11), (30,)}:  # several chunks, found by a newer index
        with pytest.raises(LimitExceededError, match="array, which is not read"):
            node.read()
    else:
        assert bytes(node.read()) == array.tobytes()


def test_data_that_was_never_written_is_its_fill_value():
    data = write(lambda file: file.create_dataset("x", (2, 3), "i4", fillvalue=7))
    chunked = write(lambda file: file.create_dataset("x", (2, 3), "i4", fillvalue=7, chunks=(1, 1)))
    assert walked(data)["/x"].values() == walked(chunked)["/x"].values() == [[7] * 3] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_links_and_data_in_other_files_are_told_and_not_followed(version, tmp_path):
    def fill(file):
        file["soft"] = h5py.SoftLink("/nowhere")
        file["there"] = h5py.ExternalLink("other.h5", "/data")
        file.create_dataset("raw", (4,), "i4", external=[("raw.bin", 0, 8), ("more.bin", 0, 8)])
        if version == "latest":
            layout = h5py.VirtualLayout((4,), "i4")
            layout[:] = h5py.VirtualSource("source.h5", "data", (4,))
            file.create_virtual_dataset("virtual", layout)

    found = walked(write(fill, libver=version))
    assert found["/soft"] == hdf5.SoftLink("/nowhere")
    assert found["/there"] == hdf5.ExternalLink("other.h5", "/data")
    assert found["/raw"].external == ("raw.bin", "more.bin")
    with pytest.raises(LimitExceededError, match="not in one piece"):
        found["/raw"].read()
    if version == "latest":
        assert found["/virtual"].layout.kind == "virtual"
        assert found["/virtual"].virtual_sources == ("source.h5",)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_thousand_names_and_large_attributes_are_all_there(version):
    def fill(file):
        for number in range(1000):
            file.create_group(f"many/{number}")
        for number in range(100):
            file.attrs[f"a{number}"] = number
        if version == "latest":
            file.attrs["large"] = np.arange(20_000)  # more than fits in a block of a heap
        file.attrs["text"] = "x" * 200_000

    root = opened(write(fill, libver=version)).root
    assert root.get("many").links.keys() == {str(number) for number in range(1000)}
    assert [root.attrs[f"a{number}"].value() for number in range(100)] == list(range(100))
    assert root.attrs["text"].value() == "x" * 200_000
    assert version != "latest" or root.attrs["large"].value() == list(range(20_000))


def test_committed_types_and_references_and_empty_values_are_known():
    def fill(file):
        file["type"] = np.dtype("f8")
        file.create_dataset("of", (3,), dtype=file["type"])
        file["reference"] = np.array([file["of"].ref], dtype=h5py.ref_dtype)
        file["nothing"] = h5py.Empty("f4")
        file["complex"] = np.ones(2, np.complex64)

    found = walked(write(fill))
    assert isinstance(found["/type"], hdf5.Committed)
    assert found["/of"].type.name == "float64"
    assert (found["/reference"].type.name, found["/reference"].type.outside) == ("reference", False)
    assert (found["/nothing"].shape, found["/nothing"].values()) == (None, None)
    assert found["/complex"].values() == [{"r": 1.0, "i": 0.0}] * 2


def test_what_is_before_and_after_the_file_proper_is_at_hand():
    data = bytearray(write(lambda file: file.create_group("a"), userblock_size=1024))
    data[:5] = b"first"
    file = opened(bytes(data) + b"last")
    assert bytes(file.before[:5]) == b"first"
    assert bytes(file.after) == b"last"
    assert list(dict(file.walk())) == ["/a"]


def test_a_group_that_holds_itself_is_entered_once():
    def fill(file):
        for level in range(60):  # 2^60 paths
            file.create_group(f"g{level}")
        for level in range(59):
            file[f"g{level}/left"] = file[f"g{level + 1}"]
            file[f"g{level}/right"] = file[f"g{level + 1}"]
        file["g0/up"] = file["/"]

    assert len(walked(write(fill))) < 400


def test_groups_nested_too_deep_are_a_limit():
    with pytest.raises(LimitExceededError, match="nested more than"):
        walked(write(lambda file: file.create_group("/".join("a" * 300))))


def test_a_shape_of_more_than_there_can_be_is_a_limit():
    data = write(lambda file: file.create_dataset("x", (2**40, 2**10), "f4", chunks=(1, 1)))
    node = walked(data)["/x"]
    assert node.declared == 2**52
    with pytest.raises(LimitExceededError, match="bytes of data"):
        node.read()
    with pytest.raises(LimitExceededError, match="more than any machine"):
        _ = walked(write(lambda file: file.create_dataset("x", (2**50, 2**13), "f8", chunks=(1, 1))))["/x"].declared


def test_a_chunk_that_inflates_to_more_than_a_chunk_is_refused():
    small = write(lambda file: file.create_dataset("x", data=np.zeros(100_000), chunks=(100_000,), compression="gzip"))
    size = (100_000).to_bytes(4, "little")
    forged = small.replace(size, (1000).to_bytes(4, "little"))
    assert forged != small
    with pytest.raises(VitrifyError):
        walked(forged)["/x"].read()


def test_many_values_that_share_one_text_are_a_limit():
    many, text = 20_000, "x" * 100_000
    data = bytearray(write(lambda file: file.create_dataset("x", data=[text] + ["y"] * many)))
    node = walked(bytes(data))["/x"]
    start = bytes(data).index(bytes(node.view()))
    data[start : start + len(node.view())] = bytes(node.view()[:16]) * (many + 1)
    with memory() as measured, pytest.raises(LimitExceededError, match="more often"):
        walked(bytes(data))["/x"].values()
    assert measured.used < 32 * MIB


def test_a_tree_whose_nodes_lead_back_to_itself_is_refused_in_time():
    data = bytearray(write(lambda file: [file.create_group(f"g{number}") for number in range(300)]))
    at = bytes(data).index(b"TREE\0\1")  # an inner node, whose children are one level below
    own = at.to_bytes(8, "little")
    data[at + 32 : at + 40] = own
    with pytest.raises(MalformedError, match="levels do not go down"):
        walked(bytes(data))


def test_a_damaged_checksum_is_refused():
    data = bytearray(write(lambda file: file.create_group("a"), libver="latest"))
    data[bytes(data).index(b"OHDR") + 8] ^= 1
    with pytest.raises(MalformedError, match="checksum"):
        walked(bytes(data))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_that_is_cut_off_anywhere_is_refused(version):
    data = write(lambda file: file.create_dataset("a/b", data=np.arange(30)), libver=version)
    for end in range(0, len(data), 7):
        with pytest.raises(MalformedError):
            opened(data[:end])


def test_a_superblock_that_counts_from_elsewhere_is_refused():
    data = bytearray(write(lambda file: file.create_group("a")))
    data[24:32] = (8).to_bytes(8, "little")
    with pytest.raises(MalformedError, match="count from 8"):
        opened(bytes(data))


def test_a_root_that_is_no_group_is_refused_and_not_passed_over():
    data = bytearray(write(lambda file: file.create_dataset("x", data=[1])))
    data[64:72] = walked(bytes(data))["/x"].address.to_bytes(8, "little")
    with pytest.raises(MalformedError, match="root is no group"):
        walked(bytes(data))


def test_the_checksum_is_the_published_one():
    assert lookup3(memoryview(b"")) == 0xDEADBEEF
    assert lookup3(memoryview(b"Four score and seven years ago")) == 0x17770551
