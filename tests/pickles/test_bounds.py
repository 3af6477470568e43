"""States that NumPy, SciPy, pandas and scikit-learn take on trust: refused before their compiled code follows them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from crafted import Crafted, Object
from scipy import sparse
from sklearn.neighbors import KDTree
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import load

RECONSTRUCT = np.zeros(1).__reduce__()[0]
EMPTY = (np.ndarray, (0,), b"b")
FLOAT = np.dtype("f8")


def read(value, protocol=4):
    return load(memoryview(pickle.dumps(value, protocol)), where="x", allow=Allow())


def array(shape, dtype, content):
    return Crafted(RECONSTRUCT, EMPTY, (1, shape, dtype, False, content))


def dtype(state, name="V8"):
    return Crafted(np.dtype, (name, False, True), state)


ARRAYS = {
    "a shape larger than its bytes": array((10,), FLOAT, b"12345678"),
    "a shape smaller than its bytes": array((1,), FLOAT, b"1234567812345678"),
    "a shape whose size wraps to nothing": array((2**32, 2**32), np.dtype("u1"), b""),
    "a negative size": array((-1,), FLOAT, b""),
    "addresses instead of objects": array((1,), np.dtype("O"), b"12345678"),
    "objects instead of numbers": array((1,), FLOAT, [1.0]),
    "too few objects": array((3,), np.dtype("O"), [1]),
    "a shape that is no tuple": array([1], FLOAT, b"12345678"),
}
FIELDS = {"a": (np.dtype("O"), 0)}
TYPES = {
    "a field outside of it": dtype((3, "|", None, ("a",), {"a": (FLOAT, 4)}, 8, 1, 0)),
    "a field before it": dtype((3, "|", None, ("a",), {"a": (FLOAT, -8)}, 8, 1, 0)),
    "an object that its flags deny": dtype((3, "|", None, ("a",), FIELDS, 8, 1, 0)),
    "a part larger than it": dtype((3, "|", (FLOAT, (100,)), None, None, 8, 1, 0)),
    "fields that are a number, told as NumPy's first release did": dtype((3, "<", 20046, -1, -1, 0), "f8"),
    "fields that are a number": dtype((3, "|", None, ("a",), 20046, 8, 1, 0)),
    "a field that is a number": dtype((3, "|", None, ("a",), {"a": 20046}, 8, 1, 0)),
    "fields of a number": dtype((3, "<", None, ("a",), {"a": (np.dtype("u1"), 0)}, -1, -1, 0), "f8"),
    "a part that is a number": dtype((3, "|", (20046, 1), None, None, 8, 1, 0)),
    "an alignment of zero": dtype((3, "|", None, ("a",), {"a": (FLOAT, 0)}, 8, 0, 0)),
    "notes that are a number": dtype((4, "<", None, None, None, -1, -1, 0, 20046), "f8"),
    "fields without names": dtype((3, "|", None, None, FIELDS, 8, 1, 0)),
}
GENERATORS = {
    "a position beyond the end": ("MT19937", lambda state: state["state"].__setitem__("pos", 10**6)),
    "a position before the start": ("MT19937", lambda state: state["state"].__setitem__("pos", -5)),
    "a place in the buffer": ("Philox", lambda state: state.__setitem__("buffer_pos", -(10**6))),
}


@pytest.mark.parametrize("value", [*ARRAYS.values(), *TYPES.values()], ids=[*ARRAYS, *TYPES])
def test_an_array_or_type_that_does_not_fit_itself_is_refused(value):
    with pytest.raises(MalformedError):
        read(value)


def test_a_type_cannot_be_changed_after_an_array_took_it():
    """Between its making and its state, an array of it would hold bytes that become addresses."""
    names = b"(U\x01a\x85}U\x01a(cnumpy\ndtype\nq\x08(U\x02O8I00\nI01\ntRK\x00ts"
    late = b"cnumpy\ndtype\n(U\x02V8I00\nI01\ntRq\x000]h\x00a0h\x00(K\x03U\x01|N" + names + b"K\x08K\x01K\x00tb."
    with pytest.raises(MalformedError):
        load(memoryview(late), where="x", allow=Allow())


@pytest.mark.parametrize(("name", "change"), GENERATORS.values(), ids=GENERATORS)
def test_a_generator_that_would_read_outside_of_itself_is_refused(name, change):
    bits = getattr(np.random, name)(0)
    function, arguments, state = bits.__reduce__()
    held = state[0] if isinstance(state, tuple) else state
    assert read(Crafted(function, arguments, state)).random_raw() == bits.random_raw()
    change(held)
    with pytest.raises(MalformedError):
        read(Crafted(function, arguments, state))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_a_sparse_matrix_that_points_outside_is_refused(layout):
    matrix = sparse.eye_array(4, format=layout)
    np.testing.assert_array_equal(read(matrix).toarray(), matrix.toarray())
    state = dict(vars(matrix))
    match layout:
        case "csr" | "csc" | "bsr":
            state["indices"] = np.full(4, 10**6, np.int32)
        case "coo":
            state["coords"] = (np.full(4, 10**6), np.zeros(4, int))
        case "lil":
            rows = state["rows"].copy()
            rows[0] = [10**6]
            state["rows"] = rows
        case "dok":
            state["_dict"] = {(10**6, 0): 1.0}
        case _:
            state["offsets"] = np.zeros(9, np.int32)
    with pytest.raises(MalformedError):
        read(Object(type(matrix), state))


SLIPPED = {
    "rows that end before they begin": ("csr", "indptr", np.array([0, 10**8, 10**8, 10**8, 0], np.int32)),
    "columns that end before they begin": ("csc", "indptr", np.array([0, 10**8, 10**8, 10**8, 0], np.int32)),
    "blocks that do not fill it": ("bsr", "_shape", (5, 4)),
}


@pytest.mark.parametrize(("layout", "name", "value"), SLIPPED.values(), ids=SLIPPED)
def test_a_sparse_matrix_that_scipy_finds_right_and_reads_outside_of_is_refused(layout, name, value):
    matrix = sparse.kron(np.eye(2), np.ones((2, 2))).asformat(layout)
    assert read(matrix).shape == (4, 4)
    with pytest.raises(MalformedError):
        read(Object(type(matrix), {**vars(matrix), name: value}))


def test_a_frame_whose_blocks_lie_elsewhere_is_refused():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    unpickle, (values, _, rank) = frame._mgr.blocks[0].__reduce__()
    for places in (slice(5, 7, 1), slice(0, 1, 1), slice(0, 2, 1)):
        block = Crafted(unpickle, (values, places, rank))
        manager = Crafted(type(frame._mgr), ((block,), list(frame._mgr.axes)))
        state = {
            "_mgr": manager,
            "_typ": "dataframe",
            "_metadata": [],
            "attrs": {},
            "_flags": {"allows_duplicate_labels": True},
        }
        if places == slice(0, 2, 1):
            pd.testing.assert_frame_equal(read(Object(pd.DataFrame, state)), frame)
        else:
            with pytest.raises(MalformedError):
                read(Object(pd.DataFrame, state))


def test_a_categorical_whose_codes_lie_outside_is_refused():
    values = pd.Categorical(["a", "b"])
    function, arguments, state = values.__reduce__()
    assert list(read(Crafted(function, arguments, state))) == ["a", "b"]
    broken = tuple(np.array([0, 100], np.int8) if isinstance(part, np.ndarray) else part for part in state)
    with pytest.raises(MalformedError):
        read(Crafted(function, arguments, broken))


def test_a_tree_with_more_outputs_than_it_has_numbers_for_is_refused():
    with pytest.raises(MalformedError):
        read(Crafted(Tree, (3, np.array([2]), 10**6)))


def test_a_tree_that_got_no_nodes_or_points_outside_is_refused():
    model = DecisionTreeClassifier(max_depth=2).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    function, arguments, state = model.tree_.__reduce__()
    with pytest.raises(MalformedError):
        read(Crafted(function, arguments))
    for field in ("left_child", "right_child"):
        nodes = state["nodes"].copy()
        nodes[field][0] = 10**6
        with pytest.raises(MalformedError):
            read(Crafted(function, arguments, {**state, "nodes": nodes}))


def test_a_tree_of_neighbours_that_points_outside_is_refused():
    tree = KDTree(np.arange(20.0).reshape(10, 2))
    function, arguments, state = tree.__reduce__()
    parts = list(state)
    parts[1] = np.full(10, 10**9, np.int64)
    with pytest.raises(MalformedError):
        read(Crafted(function, arguments, tuple(parts)))
