"""ONNX's own node tests on PyTorch, live and exported; and where PyTorch and ONNX Runtime are known to differ."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._torch_values import DTYPES, from_numpy, tensor
from vitrify.transforms.replay.torch_ops import OPS
from vitrify.transforms.replay.walk import Replay

NOT_COVERED = {
    "element types that PyTorch does not compute with": (
        r".*(FLOAT8E|FLOAT4E|INT4|INT2).*|.*_(u?int[24]|float4e2m1|e4m3fn|e5m2).*"
    ),
    "text": r".*(string|strnorm|regex|tfidf).*|.*label_encoder_tensor(_value_only)?_mapping",
    "images as files": r"image_decoder.*",
    "sequences and optional values": (
        r"sequence_(insert|map).*|optional_.*|if_(seq|opt)|loop1[36]_seq.*|split_to_sequence.*"
    ),
    "chance": r"bernoulli.*|training_dropout(_default)?(_mask)?",
    "training": r"adagrad.*|adam.*|momentum.*|nesterov_momentum",
    "ONNX Runtime answers otherwise as well": r"resize_downsample_scales_(linear|cubic)_align_corners",
    "an operator set that nobody writes any more": r"scan_sum",
    "functions whose types ONNX does not infer": (
        r"attention_4d_((causal_|diff_heads_mask4d_)?padded_kv|(gqa_)?causal_nonpad).*(?<!expanded)"
        r"|attention_4d_causal_with_past_and_present"
        r"|attention_local_window_(ext_cache_.*mask|with_past)|causal_conv_with_state_(silu_)?with_past_state"
        r"|linear_attention_(gated.*|delta|explicit_scale|fp16)(?<!expanded)"
    ),
    "operators without a counterpart yet": (
        r"(basic_)?deform_conv.*|dft.*|stft.*|melweightmatrix|nonmaxsuppression.*|roialign.*|tensorscatter.*|unique.*"
        r"|col2im_5d"
    ),
}
"""Names of tests that need not pass, by the reason."""


@cache
def cases():
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def families():
    """Return the names of tests by the operator that they are about, so that each is one test here."""
    found = {}
    for name in sorted(cases()):
        found.setdefault(name.removeprefix("test_").partition("_")[0], []).append(name)
    return found


def reason(name):
    plain = name.removeprefix("test_")
    return next((why for why, pattern in NOT_COVERED.items() if re.fullmatch(pattern, plain)), None)


def array(value):
    found = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    return found if isinstance(found, np.ndarray) else np.asarray(found)


def check(name, got, expected):
    for one, other in zip(got, expected, strict=True):
        given, wanted = tensor(one), array(other)
        assert tuple(given.shape) == wanted.shape, name
        assert str(given.dtype).removeprefix("torch.") == wanted.dtype.name, name
        loose = 0.05 if wanted.dtype.name in {"float16", "bfloat16"} else 1e-3
        left, right = given.double().numpy(), wanted.astype(np.float64)
        np.testing.assert_allclose(left, right, rtol=loose, atol=loose / 100, err_msg=name)


def run(case):
    replay = Replay(case.model, OPS)
    names = [value.name for value in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        feeds = {key: from_numpy(array(value)) for key, value in zip(names, inputs, strict=False)}
        check(case.name, replay(feeds), outputs)


@pytest.mark.parametrize("family", families())
def test_every_node_test_of_a_family_gives_what_onnx_says(family):
    for name in families()[family]:
        if reason(name) is None:
            run(cases()[name])


@pytest.mark.parametrize("why", [why for why in NOT_COVERED if not why.startswith("ONNX Runtime")])
def test_what_is_not_covered_is_refused_by_a_typed_error_or_known_to_differ(why):
    """An entry whose tests pass has to leave the table."""
    for name in (name for name in cases() if reason(name) == why):
        with pytest.raises((UnsupportedModelError, AssertionError)):
            run(cases()[name])


def one_node(kind, arrays, attributes=None, *, outputs=1, domain=""):
    names = [f"i{place}" for place in range(len(arrays))]
    answers = [f"o{place}" for place in range(outputs)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(kind, names, answers, domain=domain, **(attributes or {}))
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(name) for name in answers])
    imports = [helper.make_opsetid("", 21), *([helper.make_opsetid(domain, 5)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def both(kind, arrays, attributes=None, *, outputs=1, domain=""):
    model = one_node(kind, arrays, attributes, outputs=outputs, domain=domain)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    names = [value.name for value in model.graph.input]
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, dict(zip(names, arrays, strict=True)))
    ours = Replay(model, OPS)({name: from_numpy(value) for name, value in zip(names, arrays, strict=True)})
    return [tensor(value).numpy() for value in ours], theirs


NUMBERS = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1.0, -1.0, 3.0, 1e30, -1e30, 300.5])
ROWS = st.lists(st.lists(NUMBERS, min_size=5, max_size=5), min_size=1, max_size=4)
KINDS = [
    ("ArgMax", {"axis": 1, "keepdims": 0}),
    ("ArgMin", {"axis": 1, "keepdims": 1}),
    ("Sign", {}),
    ("Round", {}),
    ("Relu", {}),
    ("Floor", {}),
    ("IsNaN", {}),
    ("IsInf", {}),
    ("Abs", {}),
    ("Cast", {"to": TensorProto.INT64}),
    ("Cast", {"to": TensorProto.INT32}),
    ("Cast", {"to": TensorProto.UINT8}),
    ("Cast", {"to": TensorProto.INT8}),
    ("Cast", {"to": TensorProto.BOOL}),
    ("Neg", {}),
]


@pytest.mark.parametrize(("kind", "attributes"), KINDS, ids=str)
@given(rows=ROWS, dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=25, deadline=None)
def test_nan_infinity_ties_and_halves_are_answered_as_onnx_runtime_does(kind, attributes, rows, dtype):
    with np.errstate(all="ignore"):
        ours, theirs = both(kind, [np.array(rows, dtype)], attributes)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[0].dtype == theirs[0].dtype


@given(rows=ROWS, largest=st.booleans(), k=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_topk_takes_the_lower_place_of_equal_values_and_nan_for_the_largest(rows, largest, k):
    ours, theirs = both("TopK", [np.array(rows, np.float32), np.array([k])], {"largest": int(largest)}, outputs=2)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("kind", ["Max", "Min", "Equal", "Greater", "Less", "LessOrEqual", "Mul", "Sub"])
@given(rows=ROWS, shift=st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_two_operands_with_nan_are_answered_as_onnx_runtime_does(kind, rows, shift):
    left = np.array(rows, np.float64)
    with np.errstate(all="ignore"):
        ours, theirs = both(kind, [left, np.roll(left, shift, axis=1)])
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_whole_numbers_are_divided_towards_zero_and_their_rest_has_the_divisors_sign(dtype):
    left, right = np.array([7, 100, 5, 0], dtype), np.array([2, 3, 5, 4], dtype)
    if dtype[0] == "i":
        left[1], right[2] = -100, -5
    for kind in ("Div", "Mod"):
        ours, theirs = both(kind, [left, right])
        np.testing.assert_array_equal(ours[0], theirs[0])


def forest(modes, dtype, seed):
    """Return the attributes of an ensemble of full trees of depth two, with a mode for each node."""
    rng = np.random.default_rng(seed)
    trees = 3
    inner, leaves = 3 * trees, 4 * trees
    true, false, true_leaf, false_leaf = [], [], [], []
    for tree in range(trees):
        base, leaf = 3 * tree, 4 * tree
        true += [base + 1, leaf, leaf + 2]
        false += [base + 2, leaf + 1, leaf + 3]
        true_leaf += [0, 1, 1]
        false_leaf += [0, 1, 1]
    kinds = rng.choice(modes, inner)
    members = [value for mode in kinds if mode == 6 for value in (*rng.choice(4, 2, replace=False).tolist(), np.nan)]
    tensors = {
        "nodes_splits": rng.integers(0, 4, inner).astype(dtype),
        "nodes_modes": kinds.astype(np.uint8),
        "leaf_weights": rng.normal(size=leaves).astype(dtype),
        **({"membership_values": np.array(members, dtype)} if members else {}),
    }
    lists = {
        "n_targets": 2,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": [3 * tree for tree in range(trees)],
        "nodes_featureids": rng.integers(0, 3, inner).tolist(),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, inner).tolist(),
        "nodes_truenodeids": true,
        "nodes_falsenodeids": false,
        "nodes_trueleafs": true_leaf,
        "nodes_falseleafs": false_leaf,
        "leaf_targetids": rng.integers(0, 2, leaves).tolist(),
    }
    return {**lists, **{name: numpy_helper.from_array(value, name) for name, value in tensors.items()}}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("modes", [[0], [1], [2], [3], [4], [5], [0, 1, 3], [6, 0]])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_trees_of_every_mode_answer_as_onnx_runtimes_do(modes, dtype, seed):
    x = np.random.default_rng(seed).integers(0, 4, (20, 3)).astype(dtype)
    if 6 not in modes:  # ONNX Runtime cuts what is no whole number before it looks into a set
        x[::5, 0] = np.nan
    ours, theirs = both("TreeEnsemble", [x], forest(modes, dtype, seed), domain="ai.onnx.ml")
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-6)


EXPORTED = [
    *("test_gather_0", "test_gelu_default_1", "test_lstm_defaults", "test_gru_with_initial_bias"),
    *("test_resize_upsample_scales_linear", "test_layer_normalization_2d_axis1", "test_top_k", "test_scatternd"),
    *("test_maxpool_2d_pads", "test_averagepool_2d_same_upper", "test_convtranspose_pads", "test_einsum_transpose"),
    *("test_cumsum_1d_reverse_exclusive", "test_argmax_keepdims_example", "test_quantizelinear_axis", "test_triu"),
    *("test_slice_neg_steps", "test_reflect_pad", "test_attention_4d", "test_clip", "test_where_example"),
    *("test_ai_onnx_ml_tree_ensemble_set_membership", "test_reduce_log_sum_exp_default_axes_keepdims_random"),
]


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_what_is_replayed_can_be_exported_and_answers_the_same(name):
    case = cases()[name]
    replay = Replay(case.model, OPS)
    inputs, outputs = case.data_sets[0]
    names = [value.name for value in replay.inputs]
    arrays = dict(zip([value.name for value in case.model.graph.input], map(array, inputs), strict=False))
    shapes = {"Reshape", "Slice", "Pad", "TopK", "Resize", "ReduceLogSumExp", "CumSum", "Expand", "Clip", "Trilu"}
    fixed = {key for node in case.model.graph.node if node.op_type in shapes for key in node.input[1:]}

    class Module(torch.nn.Module):
        def forward(self, *values):
            feeds = dict(zip([key for key in names if key not in fixed], values, strict=True))
            return tuple(map(tensor, replay({**{key: arrays[key] for key in fixed & arrays.keys()}, **feeds})))

    values = tuple(from_numpy(arrays[key]) for key in names if key not in fixed)
    program = torch.export.export(Module(), values, strict=False)
    check(name, program.module()(*values), outputs)


def test_types_that_onnx_names_are_pytorchs_of_the_same_name():
    for number, dtype in DTYPES.items():
        assert helper.tensor_dtype_to_np_dtype(number).name == str(dtype).removeprefix("torch.")
