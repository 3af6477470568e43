"""Trees written out: the same leaf for every row, whatever the operator and however its nodes compare."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._trees.nodes import MODES
from vitrify.transforms.convert._trees.unrolled import unfit, unrolled

MEMBER = 6


def run(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def model(node, outputs, dtype=np.float32, ml=5):
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["N", 3])]
    graph = helper.make_graph([node], "trees", inputs, outputs)
    ids = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=ids, ir_version=10)


@st.composite
def ensembles(draw, modes, own_targets):
    """A TreeEnsemble of a few random trees, with thresholds that rows meet."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    columns = {key: [] for key in ("feature", "split", "mode", "missing", "true", "false", "true_leaf", "false_leaf")}
    leaves, members = [], []
    count = draw(st.integers(1, 4))

    def grow(depth, tree):
        place = len(columns["feature"])
        mode = draw(st.sampled_from(modes))
        for key, value in (
            ("feature", draw(st.integers(0, 2))),
            ("split", 0.0 if mode == MEMBER else draw(st.sampled_from([-1.0, 0.0, 0.1, 2.0]))),
            ("mode", mode),
            ("missing", draw(st.integers(0, 1))),
            ("true", 0),
            ("false", 0),
            ("true_leaf", 0),
            ("false_leaf", 0),
        ):
            columns[key].append(value)
        if mode == MEMBER:
            members.extend([*draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=1, max_size=3)), np.nan])
        for way in ("true", "false"):
            if depth and draw(st.booleans()):
                columns[way][place] = grow(depth - 1, tree)
            else:
                columns[way][place], columns[f"{way}_leaf"][place] = len(leaves), 1
                leaves.append(tree if own_targets else draw(st.integers(0, 1)))
        return place

    roots = [grow(draw(st.integers(0, 3)), tree) for tree in range(count)]
    tensor = {"members": np.array(members, dtype)} if members else {}
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=count if own_targets else 2,
        tree_roots=roots,
        nodes_featureids=columns["feature"],
        nodes_splits=numpy_helper.from_array(np.array(columns["split"], dtype)),
        nodes_modes=numpy_helper.from_array(np.array(columns["mode"], np.uint8)),
        nodes_missing_value_tracks_true=columns["missing"],
        nodes_truenodeids=columns["true"],
        nodes_falsenodeids=columns["false"],
        nodes_trueleafs=columns["true_leaf"],
        nodes_falseleafs=columns["false_leaf"],
        leaf_targetids=leaves,
        leaf_weights=numpy_helper.from_array((np.arange(len(leaves)) + 0.5).astype(dtype)),
        **({"membership_values": numpy_helper.from_array(tensor["members"])} if tensor else {}),
    )
    y = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["N", None])
    return model(node, [y], dtype), np.dtype(dtype)


def rows(dtype):
    values = [-1, 0, 0.1, 2, np.nan, np.inf, -np.inf, np.nextafter(dtype.type(0.1), dtype.type(1)), -0.0, 3]
    grid = np.array(values, dtype)
    return np.stack([grid, grid[::-1], np.roll(grid, 3)], axis=1)


@settings(max_examples=40)
@given(made=ensembles(modes=[0, 1, 2, 3, 4, 5], own_targets=True))
def test_each_row_comes_to_the_same_leaf_however_the_nodes_compare(made):
    trees, dtype = made
    plain = unrolled(trees)
    onnx.checker.check_model(plain, full_check=True)
    assert not [node for node in plain.graph.node if node.domain]
    np.testing.assert_array_equal(run(plain, rows(dtype))[0], run(trees, rows(dtype))[0])


@settings(max_examples=20)
@given(made=ensembles(modes=[0, 4, MEMBER], own_targets=True))
def test_sets_are_chains_of_equal_values(made):
    trees, dtype = made
    whole = np.array([[-1, 0, 2], [0, 2, 5], [2, -1, 0], [7, 7, 7]], dtype)
    np.testing.assert_array_equal(run(unrolled(trees), whole)[0], run(trees, whole)[0])


@settings(max_examples=20)
@given(made=ensembles(modes=[0], own_targets=False))
def test_sums_of_several_trees_are_the_same_but_for_rounding(made):
    trees, dtype = made
    np.testing.assert_allclose(run(unrolled(trees), rows(dtype))[0], run(trees, rows(dtype))[0], rtol=1e-6)


def regressor(**more):
    return helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2,
        nodes_treeids=[0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 0], nodes_featureids=[1, 0, 0, 0],
        nodes_modes=["BRANCH_GT", "LEAF", "LEAF", "LEAF"], nodes_values=[0.1, 0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0, 0], nodes_falsenodeids=[2, 0, 0, 0],
        nodes_missing_value_tracks_true=[1, 0, 0, 0],
        target_treeids=[0, 0, 0, 1], target_nodeids=[1, 1, 2, 0], target_ids=[0, 1, 1, 0],
        target_weights=[1.5, -2.0, 4.0, 0.25], **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    "more", [{}, {"base_values": [10.0, 20.0]}, {"post_transform": "LOGISTIC"}, {"aggregate_function": "AVERAGE"}]
)
def test_the_older_regressor_with_several_targets_a_leaf_and_a_tree_of_one_leaf(more):
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
    trees, x = model(regressor(**more), [y], ml=3), rows(np.dtype(np.float32))
    np.testing.assert_allclose(run(unrolled(trees), x)[0], run(trees, x)[0], rtol=1e-6)


def classifier(**labels):
    return helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.1, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0] * 6, class_nodeids=[1, 1, 1, 2, 2, 2], class_ids=[0, 1, 2, 0, 1, 2],
        class_weights=[0.5, 0.25, 0.25, 0.0, 0.5, 0.5], **labels,
    )  # fmt: skip


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 3, 5]}, {"classlabels_strings": ["no", "yes", "ä"]}])
def test_the_older_classifier_gives_its_label_and_its_scores(labels):
    node = classifier(**labels)
    kind = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    outputs = [
        helper.make_tensor_value_info("label", kind, ["N"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3]),
    ]
    trees, x = model(node, outputs, ml=3), rows(np.dtype(np.float32))
    for ours, theirs in zip(run(unrolled(trees), x), run(trees, x), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_what_cannot_be_written_out_is_listed_and_stays():
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
    trees = model(regressor(aggregate_function="MAX", name="most"), [y], ml=3)
    assert [(one.place, "MAX" in one.message) for one in unfit(trees)] == [("most", True)]
    assert [node.op_type for node in unrolled(trees).graph.node] == ["TreeEnsembleRegressor"]


def test_two_classes_are_told_apart_by_the_runtime_alone():
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("label", "y")]
    trees = model(classifier(classlabels_int64s=[0, 1]), outputs, ml=3)
    assert "up to the runtime" in unfit(trees)[0].message


def test_nodes_in_a_circle_and_attributes_that_do_not_fit_are_refused():
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
    node = regressor()
    next(one for one in node.attribute if one.name == "nodes_modes").strings[1] = b"BRANCH_LEQ"
    with pytest.raises(UnsupportedModelError, match="circle"):
        unrolled(model(node, [y], ml=3))
    node = regressor()
    del next(one for one in node.attribute if one.name == "target_ids").ints[0]
    with pytest.raises(UnsupportedModelError, match="belong together"):
        unrolled(model(node, [y], ml=3))


def test_every_way_to_compare_is_known():
    assert len(MODES) == MEMBER + 1
