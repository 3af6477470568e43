from __future__ import annotations

import pytest

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.row import Row
from vitrify.transforms.planner import plan, reachable


def road(name, source, destination, cost=1, fidelity="exact"):
    target = "somewhere:Something"
    return Row(
        kind="transform",
        name=name,
        target=target,
        source=source,
        destination=destination,
        cost=cost,
        fidelity=fidelity,
    )


def names(found):
    return [step.transform for step in found.steps]


def test_the_cheapest_road_is_taken_even_if_it_has_more_steps():
    rows = [road("direct", "skops", "onnx", cost=5), road("a", "skops", "pickle"), road("b", "pickle", "onnx")]
    assert names(plan("skops", "onnx", rows=rows)) == ["a", "b"]


def test_between_equal_costs_the_first_by_name_is_taken_whatever_the_order_of_the_rows():
    rows = [road("zebra", "skops", "onnx"), road("ant", "skops", "onnx")]
    assert names(plan("skops", "onnx", rows=rows)) == names(plan("skops", "onnx", rows=rows[::-1])) == ["ant"]


def test_a_step_that_may_lose_something_is_taken_only_when_allowed():
    rows = [road("squeeze", "skops", "onnx", fidelity="lossy")]
    with pytest.raises(UnsupportedModelError, match="no road leads from skops to onnx within fidelity 'numeric'"):
        plan("skops", "onnx", rows=rows)
    assert names(plan("skops", "onnx", rows=rows, fidelity="lossy")) == ["squeeze"]


def test_roads_that_go_in_circles_end():
    rows = [road("there", "skops", "pickle"), road("back", "pickle", "skops")]
    with pytest.raises(UnsupportedModelError, match="from skops one gets to: pickle"):
        plan("skops", "onnx", rows=rows)


def test_a_plan_to_where_one_already_is_has_no_steps():
    found = plan("onnx", "onnx")
    assert found.steps == ()
    assert str(found) == "onnx (nothing to do)"


def test_a_format_that_nobody_knows_is_a_usage_error_that_lists_those_there_are():
    with pytest.raises(UsageError, match=r"no format is called 'onyx'.*onnx"):
        plan("skops", "onyx")


@pytest.mark.parametrize("source", ["skops", "xgboost", "lightgbm", "catboost", "torch-export"])
def test_every_native_format_has_a_road_to_onnx_that_keeps_all_but_rounding(source):
    found = plan(source, "onnx", options={"precision": "source"})
    assert names(found) == [f"{source}-to-onnx"]
    assert found.steps[0].options == {"precision": "source"}
    assert str(found) == f"{source} --{source}-to-onnx (numeric)--> onnx"


def test_a_road_passes_what_it_is_told_to_pass():
    rows = [
        road("direct", "skops", "tflite"),
        road("a", "skops", "onnx"),
        road("b", "onnx", "saved-model"),
        road("c", "saved-model", "tflite"),
    ]
    assert names(plan("skops", "tflite", rows=rows)) == ["direct"]
    assert names(plan("skops", "tflite", rows=rows, via=["saved-model"])) == ["a", "b", "c"]
    with pytest.raises(UnsupportedModelError, match="no road leads from tflite to onnx"):
        plan("skops", "onnx", rows=rows, via=["tflite"])
    with pytest.raises(UsageError, match="no format is called 'tflight'"):
        plan("skops", "onnx", rows=rows, via=["tflight"])


def test_another_operator_set_is_reason_enough_for_a_step_from_onnx_to_onnx():
    assert names(plan("onnx", "onnx", options={"opset": 13})) == ["onnx-opset"]
    assert names(plan("onnx", "onnx", options={"precision": "source"})) == []


@pytest.mark.parametrize("source", ["skops", "xgboost", "torch-export", "saved-model", "jax-export", "hugging-face"])
@pytest.mark.parametrize("options", [{"opset": 17}, {"ir_version": 8}, {"opset": 20, "ir_version": 9}])
def test_versions_that_are_asked_for_are_a_step_of_their_own_on_every_road_to_onnx(source, options):
    found = plan(source, "onnx", options={**options, "precision": "source"})
    *before, last = found.steps
    assert names(found) == [*names(plan(source, "onnx")), "onnx-opset"]
    assert last.options == {**options, "precision": "source"}
    native = {"opset": 20} if "ir_version" in options and "opset" in options else {}  # a converter writes that itself
    assert before[-1].options == {**native, "precision": "source"}


def test_versions_are_those_of_the_last_onnx_on_the_road():
    found = plan("skops", "ort", options={"opset": 18})
    assert names(found) == ["skops-to-onnx", "onnx-opset", "onnx-to-ort"]
    assert found.steps[-1].options == {}


def test_versions_where_there_is_no_onnx_are_an_error():
    with pytest.raises(UsageError, match="opset asked for, but the road from skops to pmml does not pass ONNX"):
        plan("skops", "pmml", options={"opset": 18})


@pytest.mark.parametrize("options", [{"opset": 99}, {"ir_version": 2}])
def test_versions_that_nobody_has_are_refused_before_any_work(options):
    with pytest.raises(UsageError, match="cannot be written"):
        plan("skops", "onnx", options=options)


def test_what_is_within_reach_is_every_format_that_steps_lead_to():
    rows = [road("a", "skops", "onnx"), road("b", "onnx", "ort", fidelity="lossy"), road("c", "keras", "tflite")]
    assert list(reachable("skops", rows=rows)) == ["onnx"]
    found = reachable("skops", rows=rows, fidelity="lossy")
    assert {name: names(road_) for name, road_ in found.items()} == {"onnx": ["a"], "ort": ["a", "b"]}


def test_every_framework_gets_to_onnx_and_from_there_to_every_target():
    sources = [
        *("skops", "xgboost", "lightgbm", "catboost", "statsmodels", "torch-export", "torchscript", "hugging-face"),
        *("keras", "saved-model", "jax-export", "stablehlo", "tflite", "pickle"),
    ]
    targets = {
        *("onnx", "ort", "saved-model", "tflite", "openvino", "coreml", "pfa", "torch-export", "torchscript"),
        *("stablehlo", "safetensors"),
    }
    for source in sources:
        assert reachable(source, fidelity="lossy").keys() | {source} >= targets
