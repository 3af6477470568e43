from __future__ import annotations

import pytest
from onnx import helper
from served_models import ROWS, multiplier, seal, signature, times

from vitrify.core.errors import CheckFailedError
from vitrify.serve.lanes import Batching
from vitrify.serve.models.opening import Sessions, open_session
from vitrify.serve.models.proving import prove
from vitrify.serve.settings import ModelSettings


def proven(artifact, batching=Batching()):  # noqa: B008 (it is frozen)
    settings = ModelSettings(reference="m", batching=batching)
    opened = Sessions(artifact, settings, open_session)
    try:
        return prove(artifact, opened, batching)
    finally:
        opened.close()


def test_a_model_that_is_the_same_in_batches_is_batched(store):
    batching, reason = proven(multiplier(store, "m", 2), Batching(rows=16))
    assert (batching.rows, reason) == (16, "")


def test_a_model_without_golden_samples_is_served_by_itself_and_says_so(store):
    batching, reason = proven(seal(store, "m", times(2), signature()))
    assert batching.rows == 1
    assert "no golden samples" in reason


def test_golden_outputs_that_do_not_come_again_are_an_error_with_the_report(store):
    with pytest.raises(CheckFailedError) as caught:
        proven(multiplier(store, "m", 2, promised=2.5))
    assert caught.value.report.check == "replay"


def test_a_model_whose_rows_look_at_each_other_is_not_batched(store):
    nodes = [
        helper.make_node("ReduceMax", ["X"], ["top"], keepdims=0),
        helper.make_node("Sub", ["X", "top"], ["Y"]),
        helper.make_node("ArgMax", ["Y"], ["L"], axis=1, keepdims=0),
    ]
    graph = times(1).graph
    made = helper.make_graph(nodes, "g", graph.input, graph.output)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    golden = ({"X": ROWS}, {"Y": ROWS - ROWS.max(), "L": ROWS.argmax(axis=1)})
    batching, reason = proven(seal(store, "m", model, signature(), golden))
    assert batching.rows == 1
    assert reason.startswith("not batched: output 'Y' differs")
