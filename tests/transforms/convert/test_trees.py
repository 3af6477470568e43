"""Tree ensembles against a walk in Python, node by node."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import OPSET, to_model
from vitrify.transforms.convert._trees.ensemble import Mode, Tree, add_in_order, negated

COLUMNS = 3
NUMERIC = (Mode.LESS_OR_EQUAL, Mode.LESS, Mode.GREATER)


def random_tree(rng: np.random.Generator, dtype: type, outputs: int, modes: tuple[Mode, ...] = NUMERIC) -> Tree:
    """Return a tree of 1 to 31 nodes, grown by splitting random leaves."""
    left, right = [-1], [-1]
    for _ in range(rng.integers(0, 16)):
        leaf = int(rng.choice(np.flatnonzero(np.array(left) < 0)))
        left[leaf], right[leaf] = len(left), len(left) + 1
        left += [-1, -1]
        right += [-1, -1]
    count = len(left)
    mode = rng.choice(modes, count).astype(int)
    members = {
        node: sorted(set(rng.integers(0, 90, rng.integers(1, 6)).astype(float)))
        for node in np.flatnonzero(mode == Mode.MEMBER).tolist()
    }
    return Tree(
        feature=rng.integers(0, COLUMNS, count),
        threshold=np.round(rng.normal(size=count) * 3, 1).astype(dtype),
        left=np.array(left),
        right=np.array(right),
        missing_left=rng.random(count) > 0.5,
        value=rng.normal(size=(count, outputs)).astype(dtype),
        mode=mode,
        members=members,
    )


def walk(tree: Tree, row: np.ndarray) -> np.ndarray:
    node = 0
    while tree.left[node] >= 0:
        value, threshold = row[tree.feature[node]], tree.threshold[node]
        if np.isnan(value):
            goes_left = tree.missing_left[node]
        elif tree.mode[node] == Mode.MEMBER:
            goes_left = float(value) in tree.members[node]
        else:
            compare = {Mode.LESS_OR_EQUAL: np.less_equal, Mode.LESS: np.less, Mode.GREATER: np.greater}
            goes_left = compare[Mode(int(tree.mode[node]))](value, threshold)
        node = int((tree.left if goes_left else tree.right)[node])
    return tree.value[node]


def computed(trees: list[Tree], x: np.ndarray, start: np.ndarray | None, *, mean: bool = False) -> np.ndarray:
    graph = Graph(OPSET)
    answer = add_in_order(graph, trees, graph.input("x", x.dtype, ("batch", COLUMNS)), start, mean=mean)
    graph.output(graph.reserve("y"), answer, ("batch", trees[0].value.shape[1]))
    model = to_model(graph, name="trees", properties={})
    return ort.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})[0]


def expected(trees: list[Tree], x: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    total = np.zeros((len(x), trees[0].value.shape[1]), trees[0].value.dtype) + (0 if start is None else start)
    for tree in trees:
        total += np.array([walk(tree, row) for row in x])
    return total


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12), outputs=st.integers(1, 3), narrow=st.booleans())
@settings(max_examples=40)
def test_any_ensemble_gives_the_sum_of_its_walks(seed, count, outputs, narrow):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if narrow else np.float64
    trees = [random_tree(rng, dtype, outputs) for _ in range(count)]
    cuts = np.concatenate([tree.threshold for tree in trees]).astype(np.float64)
    x = rng.choice(np.concatenate([cuts, [np.nan, np.inf, -np.inf, 0.0]]), (40, COLUMNS)).astype(dtype)
    start = rng.normal(size=outputs).astype(dtype) if seed % 2 else None
    np.testing.assert_array_equal(computed(trees, x, start), expected(trees, x, start))


def rows_on_cuts(rng: np.random.Generator, trees: list[Tree], dtype: type) -> np.ndarray:
    """Return rows on every threshold, just beside one, and on what has no neighbour."""
    cuts = np.concatenate([tree.threshold for tree in trees]).astype(dtype)
    near = [cuts, np.nextafter(cuts, dtype(-np.inf)), np.nextafter(cuts, dtype(np.inf))]
    return rng.choice(np.concatenate([*near, [np.nan, np.inf, -np.inf, 0.0, -0.0]]).astype(dtype), (40, COLUMNS))


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12), outputs=st.integers(1, 3))
@settings(max_examples=30)
def test_a_mean_is_the_sum_divided_by_the_number_of_trees(seed, count, outputs):
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, np.float64, outputs) for _ in range(count)]
    x = rows_on_cuts(rng, trees, np.float64)
    np.testing.assert_array_equal(computed(trees, x, None, mean=True), expected(trees, x, None) / count)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12), narrow=st.booleans())
@settings(max_examples=30)
def test_negated_trees_add_up_to_the_same_with_the_other_sign(seed, count, narrow):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if narrow else np.float64
    trees = [random_tree(rng, dtype, 1) for _ in range(count)]
    x, start = rows_on_cuts(rng, trees, dtype), rng.normal(size=1).astype(dtype)
    np.testing.assert_array_equal(computed(negated(trees), x, -start), -expected(trees, x, start))


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6), narrow=st.booleans())
@settings(max_examples=30)
def test_sets_of_whole_numbers_divide_whole_numbers(seed, count, narrow):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if narrow else np.float64
    trees = [random_tree(rng, dtype, 1, (*NUMERIC, Mode.MEMBER)) for _ in range(count)]
    whole = np.concatenate([np.arange(-2, 92), [1e6, -1e6, np.nan]])
    x = rng.choice(whole, (40, COLUMNS)).astype(dtype)
    np.testing.assert_array_equal(computed(trees, x, None), expected(trees, x, None))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_narrow_features_are_divided_by_wide_thresholds_as_before(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, np.float64, 1)
    cuts = np.append(tree.threshold, 0.1 * rng.integers(-9, 9, 5)).astype(np.float32)
    near = np.concatenate([cuts, np.nextafter(cuts, np.float32(-9e9)), np.nextafter(cuts, np.float32(9e9))])
    x = rng.choice(near, (60, COLUMNS))
    np.testing.assert_array_equal(computed([tree], x, None), expected([tree], x, None))


@pytest.mark.parametrize("count", [255, 256, 257, 600])
def test_more_trees_than_one_block_are_still_added_in_order(count, rng):
    trees = [random_tree(rng, np.float32, 2) for _ in range(count)]
    x = rng.normal(size=(5, COLUMNS)).astype(np.float32)
    np.testing.assert_array_equal(computed(trees, x, None), expected(trees, x, None))
