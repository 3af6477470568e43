"""Other operator sets and IR versions: up and down, proven, or refused with everything that stands in the way."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser
from transforms.convert.test_trees_unrolled import ensembles, rows, run

import vitrify
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx
from vitrify.testing.directory import DirectorySink
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert._trees.nodes import AGGREGATES
from vitrify.transforms.convert._trees.older import older, unfit
from vitrify.transforms.convert.onnx_opset import ChangeOpset

MLP = """
<ir_version: 9, opset_import: ["" : 19], metadata_props: ["vitrify.precision": "source", "author": "someone"]>
mlp (float[batch,4] x) => (float[batch,2] y, float[batch] total)
<float[4,3] W = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3,2] V = {1,-2,3,-4,5,-6}, int64[1] axis = {1}> {
    hidden = MatMul (x, W)
    active = Tanh (hidden)
    wide = MatMul (active, V)
    y = Softmax <axis = 1> (wide)
    total = ReduceSum <keepdims = 0> (wide, axis)
}
"""


def example():
    return {"x": np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)}


def step(**options):
    return Step(transform="onnx-opset", source="onnx", target="onnx", fidelity="numeric", options=options)


def versions(artifact):
    model = Onnx().read(artifact.subject().files, artifact.document.entry, None)
    return {entry.domain: entry.version for entry in model.opset_import}, model.ir_version


class TestChangeOpset(TransformConformance):
    name = "onnx-opset"

    def model(self):
        return parser.parse_model(MLP)

    def example(self):
        return example()

    def _step(self):
        return step(opset=17)

    def test_the_result_is_proven(self):
        for wanted, ir in ((13, 7), (22, 10)):
            source = vitrify.save(self.model(), "source", example=example())
            result = vitrify.convert(source, to="onnx", opset=wanted, name=f"to-{wanted}")
            assert versions(result) == ({"": wanted}, ir)
            assert result.document.entry["opset"] == wanted
            assert result.document.lineage["source"] == str(source.digest)


def test_what_the_model_says_of_itself_goes_on_whoever_wrote_it(store, tmp_path):
    subject = vitrify.save(parser.parse_model(MLP), "m", example=example()).subject()
    sink = DirectorySink(tmp_path)
    ChangeOpset().apply(subject, step(opset=15), sink)
    model = onnx.load_from_string(sink.contents()["model.onnx"])
    facts = {item.key: item.value for item in model.metadata_props}
    assert facts["vitrify.precision"] == "source"
    assert facts["vitrify.source_format"] == "onnx"
    assert facts["author"] == "someone"


def test_an_ir_version_alone_can_be_asked_for(store, tmp_path):
    subject = vitrify.save(parser.parse_model(MLP), "m", example=example()).subject()
    written = ChangeOpset().apply(subject, step(ir_version=7), DirectorySink(tmp_path))
    assert (written.entry["opset"], written.entry["ir"]) == (19, 7)


@pytest.mark.parametrize("options", [{"opset": 99}, {"opset": -1}, {"ir_version": 3}, {"ir_version": 99}])
def test_versions_that_nobody_has_are_errors_that_name_those_there_are(options, store):
    subject = vitrify.save(parser.parse_model(MLP), "m", example=example()).subject()
    with pytest.raises(UsageError, match="known are"):
        ChangeOpset().problems(subject, step(**options))


def test_every_operator_that_the_older_set_lacks_is_listed(store):
    model = parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 20]>
        g (float[batch,4] x) => (float[batch,4] y) {
            a = Gelu (x)
            b = Gelu (a)
            c = Mish (b)
            y = HardSwish (c)
        }""")
    subject = vitrify.save(model, "m", example=example()).subject()
    found = ChangeOpset().problems(subject, step(opset=13))
    assert {one.place: one.message[:9] for one in found} == {
        "Gelu": "2 node(s)",
        "HardSwish": "1 node(s)",
        "Mish": "1 node(s)",
    }
    assert ChangeOpset().problems(subject, step(opset=20)) == ()


def test_what_the_converter_cannot_do_is_a_finding_with_its_reason(store):
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 19]>
        g (float[batch,4] x, int64[1] axis) => (float[batch] y) { y = ReduceSum <keepdims = 0> (x, axis) }""")
    given = {**example(), "axis": np.array([1])}
    subject = vitrify.save(model, "m", example=given, dynamic={"axis": {0: 1}}).subject()
    (found,) = ChangeOpset().problems(subject, step(opset=11))
    assert "opset 19 to 11" in found.message


def test_functions_are_inlined_where_they_cannot_be(store, tmp_path):
    model = parser.parse_model(MLP)
    body = [helper.make_node("Tanh", ["a"], ["b"])]
    model.functions.append(helper.make_function("own", "Bend", ["a"], ["b"], body, [helper.make_opsetid("", 19)]))
    model.opset_import.add(domain="own", version=1)
    model.graph.node[1].op_type, model.graph.node[1].domain = "Bend", "own"
    source = vitrify.save(model, "m", example=example())
    result = vitrify.convert(source, to="onnx", opset=14, name="old")
    assert versions(result) == ({"": 14}, 7)


def test_weights_that_no_message_holds_are_refused(monkeypatch, store):
    subject = vitrify.save(parser.parse_model(MLP), "m", example=example()).subject()
    monkeypatch.setattr(_onnx_external, "size", lambda model: 3 << 30)
    (found,) = ChangeOpset().problems(subject, step(opset=13))
    assert "bytes" in found.message


@settings(max_examples=30)
@given(made=ensembles(modes=[0, 1, 2, 3, 4, 5], own_targets=True))
def test_forests_come_to_the_same_leaves_with_the_older_operator(made):
    trees, dtype = made
    assert unfit(trees, 3) == ()
    plain = onnx.ModelProto()
    plain.CopyFrom(trees)
    older(plain)
    plain.opset_import[1].version = 3
    assert "TreeEnsemble" not in {node.op_type for node in plain.graph.node}
    np.testing.assert_array_equal(run(plain, rows(dtype))[0], run(trees, rows(dtype))[0])


@pytest.mark.slow
def test_a_forest_of_ours_goes_to_where_no_tree_ensemble_is(store):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(80, 3))
    fitted = ensemble.RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
    hub = vitrify.convert(vitrify.save(fitted, "forest", example=X), to="onnx")
    result = vitrify.convert(hub, to="onnx", opset=17, name="old")
    assert versions(result)[0]["ai.onnx.ml"] == 3
    np.testing.assert_array_equal(result.session().predict(X)["label"], fitted.predict(X))


@pytest.mark.parametrize("own_targets", [False, True])
@pytest.mark.parametrize("aggregate", ["AVERAGE", "SUM"])
@settings(max_examples=20)
@given(data=st.data())
def test_sums_and_means_in_float64_are_made_beside_the_older_operator(data, aggregate, own_targets):
    trees, dtype = data.draw(ensembles(modes=[0, 1], own_targets=own_targets))
    trees.graph.node[0].attribute.append(helper.make_attribute("aggregate_function", AGGREGATES.index(aggregate)))
    assert unfit(trees, 3) == ()
    assert (unfit(trees, 2) == ()) == (dtype == np.float32)
    plain = onnx.ModelProto()
    plain.CopyFrom(trees)
    older(plain)
    plain.opset_import[1].version = 3
    given, wanted = run(plain, rows(dtype))[0], run(trees, rows(dtype))[0]
    assert given.dtype == wanted.dtype
    np.testing.assert_allclose(given, wanted, rtol=64 * np.finfo(dtype).eps, atol=64 * np.finfo(dtype).eps)


def test_attributes_that_an_older_ml_operator_lacks_are_listed(store):
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", name="codes",
        keys_tensor=helper.make_tensor("", TensorProto.INT64, [2], [1, 2]),
        values_tensor=helper.make_tensor("", TensorProto.INT64, [2], [3, 4]),
        default_tensor=helper.make_tensor("", TensorProto.INT64, [1], [0]),
    )  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    ids = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    saved = vitrify.save(helper.make_model(graph, opset_imports=ids, ir_version=10), "m", example={"x": np.arange(3)})
    with pytest.raises(UnsupportedModelError) as caught:
        vitrify.convert(saved, to="onnx", opset=17)
    assert [problem.place for problem in caught.value.problems] == ["codes"]
