"""From ONNX to PFA: a tree gives a row what ONNX Runtime gives it, missing values too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from transforms.convert.pfa_graphs import F32, ML, assert_same, graph


def stump(mode, missing, split=1.5, members=None):
    attributes = {
        "nodes_splits": numpy_helper.from_array(np.array([split, 0.0], np.float32)),
        "nodes_modes": numpy_helper.from_array(np.array([mode, 0], np.uint8)),
        "nodes_featureids": [0, 1],
        "nodes_missing_value_tracks_true": [missing, 0],
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "tree_roots": [0],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1.0, 2.0, 4.0], np.float32)),
        "n_targets": 2,
    }
    if members is not None:
        attributes["membership_values"] = numpy_helper.from_array(np.array([*members, np.nan], np.float32))
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain=ML, **attributes)
    return graph([node], [("x", F32, [2])], [("y", F32)])


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("mode", range(6))
def test_a_tree_s_node_goes_the_same_way_missing_or_not(mode, missing):
    first = np.array([1.5, np.nextafter(np.float32(1.5), np.float32(2)), 1.0, np.nan, 2.0, -5.0, 1e30], np.float32)
    rows = np.stack([np.repeat(first, 2), np.tile([-1.0, 1.0], len(first))], 1).astype(np.float32)
    assert_same(stump(mode, missing), {"x": rows})


def test_a_node_asks_whether_a_value_is_in_a_set():
    rows = np.array([[1, 0], [2, -1], [3, 1], [7, 1], [-1, 1]], np.float32)
    assert_same(stump(6, 0, members=(1.0, 3.0)), {"x": rows})


def random_forest(rng, trees, depth, targets):
    """Return a graph of complete trees with random features, modes and ways for what is missing."""
    inner, leaves = 2**depth - 1, 2**depth
    count, children = trees * inner, np.arange(inner)
    is_leaf = np.tile(children >= 2 ** (depth - 1) - 1, trees)
    start, first = (np.repeat(np.arange(trees) * size, inner) for size in (inner, leaves))
    left = np.tile(2 * children + 1, trees)
    left = np.where(is_leaf, left - inner + first, left + start)
    own = (
        np.repeat(np.arange(trees) % targets, leaves)
        if rng.random() < 0.5
        else rng.integers(0, targets, trees * leaves)
    )
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        nodes_splits=numpy_helper.from_array(rng.integers(-2, 3, count).astype(np.float32)),
        nodes_modes=numpy_helper.from_array(np.full(count, rng.integers(0, 4), np.uint8)),
        nodes_featureids=rng.integers(0, 3, count).tolist(),
        nodes_missing_value_tracks_true=rng.integers(0, 2, count).tolist(),
        nodes_truenodeids=left.tolist(),
        nodes_trueleafs=is_leaf.astype(int).tolist(),
        nodes_falsenodeids=(left + 1).tolist(),
        nodes_falseleafs=is_leaf.astype(int).tolist(),
        tree_roots=(np.arange(trees) * inner).tolist(),
        leaf_targetids=own.tolist(),
        leaf_weights=numpy_helper.from_array(rng.integers(-8, 9, trees * leaves).astype(np.float32)),
        n_targets=targets,
    )
    return graph([node], [("x", F32, [3])], [("y", F32)])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), trees=st.integers(1, 5), depth=st.integers(1, 4), targets=st.integers(1, 3))
def test_forests_of_any_shape_answer_alike(seed, trees, depth, targets):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (25, 3)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = np.nan
    assert_same(random_forest(rng, trees, depth, targets), {"x": x})
