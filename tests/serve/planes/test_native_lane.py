"""The native lane: the conformance suites, and what only it does."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from vitrify.core.errors import ModelError, SignatureError, UnavailableError
from vitrify.core.signature import BATCH, Field
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.planes._library import missing
from vitrify.serve.planes.native_lane import NativeLane
from vitrify.serve.ports import BYTES
from vitrify.serve.values import Infer
from vitrify.testing.lane_models import LIMIT, Model, answer, ask, error, opened, plug, same, spec, twice, until
from vitrify.testing.lanes import GeneralLaneConformance, LaneConformance, PaddingConformance

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


@pytest.fixture(scope="module")
def plane():
    from vitrify.serve.planes.native import NativePlane

    plane = NativePlane()
    yield plane
    plane.close()


def plain(spec):
    """Whether a lane could be hot, if the engine had said so: text, of which some may be missing, only goes out."""
    ends = [(port, "bytes") for port in spec.inputs] + [(port, "string") for port in spec.outputs]
    return not spec.batching.pad and all(
        port.field.shape[:1] == (BATCH,)
        and not port.field.nullable
        and (port.datatype != BYTES or port.field.dtype in {"bytes", text})
        for port, text in ends
    )


@pytest.fixture(scope="module")
def make(plane):
    return lambda spec, run, watch: plane.lane(replace(spec, hot=plain(spec)), run, watch)


class TestNativeLane(LaneConformance):
    @pytest.fixture
    def make(self, make):
        return make


class TestPlaneLanes(GeneralLaneConformance, PaddingConformance):
    @pytest.fixture
    def make(self, make):
        return make


def test_what_is_no_plain_tensor_has_a_lane_in_threads(plane):
    lane = plane.lane(replace(spec(), hot=False), twice, None)
    lane.close(LIMIT)
    assert isinstance(lane, ThreadLane)


def test_inputs_and_outputs_that_there_are_none_of_are_refused(make):
    with opened(make, twice) as lane:
        with pytest.raises(SignatureError, match="no input 'w'"):
            lane.submit(Infer("glass", {"w": np.zeros((1, 3), np.float32)}))
        with pytest.raises(SignatureError, match="no output 'w'"):
            lane.submit(ask(1, outputs=("w",)))
        assert lane.figures().ok == 0


def test_an_output_that_the_model_does_not_give_is_its_error(make):
    with opened(make, lambda inputs: {"twice": inputs["x"]}) as lane:
        raised = error(lane.submit(ask(1)))
    assert isinstance(raised, ModelError)
    assert "no output 'first'" in str(raised)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint64", "float16", "bfloat16", "float64"])
def test_every_element_type_keeps_its_bits(make, dtype):
    import ml_dtypes

    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    fields = (Field(name="x", dtype=dtype, shape=(BATCH, 2)),)
    values = np.arange(6).astype(element).reshape(3, 2)
    with opened(make, lambda inputs: {"x": inputs["x"]}, inputs=fields, outputs=fields, rows=2) as lane:
        got = answer(lane.submit(Infer("glass", {"x": values})))["x"]
    assert (got.dtype, got.tobytes()) == (element, values.tobytes())


@pytest.mark.parametrize("values", [["a", "", "é😀"], [b"\0\xff", b"", b"x" * 1000]])
def test_texts_and_bytes_travel_in_pieces(make, values):
    inputs = (Field(name="x", dtype="bytes", shape=(BATCH,)),)
    outputs = (Field(name="x", dtype="string" if isinstance(values[0], str) else "bytes", shape=(BATCH,)),)
    sent = np.array([value.encode() if isinstance(value, str) else value for value in values], object)

    def run(batch):
        text = [value.decode() if isinstance(values[0], str) else value for value in batch["x"]]
        return {"x": np.array(text, object)}

    with opened(make, run, inputs=inputs, outputs=outputs, rows=2) as lane:
        assert isinstance(lane, NativeLane)
        got = answer(lane.submit(Infer("glass", {"x": sent})))["x"]
    assert got.tolist() == values


def test_inputs_that_a_model_keeps_stay_what_they_are(make):
    kept = []

    def run(inputs):
        kept.append(inputs["x"])
        return twice(inputs)

    with opened(make, run) as lane:
        for value in range(20):
            same(answer(lane.submit(ask(value))), value)
    gc.collect()
    assert [array[0, 0] for array in kept] == list(range(20))


def test_an_output_may_be_the_input_itself(make):
    with opened(make, lambda inputs: {"twice": inputs["x"], "first": inputs["x"][:, 0].astype(np.int64)}) as lane:
        outputs = answer(lane.submit(ask(1, 2)))
    assert outputs["twice"][:, 0].tolist() == [1, 2]


def test_a_model_may_write_into_its_inputs(make):
    def run(inputs):
        inputs["x"] *= 2
        return {"twice": inputs["x"], "first": (inputs["x"][:, 0] / 2).astype(np.int64)}

    with opened(make, run) as lane:
        same(answer(lane.submit(ask(3))), 3)


def test_a_lane_in_the_place_of_another_lets_that_one_answer_what_it_has(make):
    model = Model(held=True)
    with opened(make, model) as old, opened(make, twice) as new:
        first = plug(old, model)
        same(answer(new.submit(ask(1))), 1)
        assert not first.done()
        model.release()
        same(answer(first), -1)


def test_a_cancelled_request_is_counted_and_forgotten(make):
    model = Model(held=True)
    with opened(make, model) as lane:
        plug(lane, model)
        future = lane.submit(ask(1))
        future.cancel()
        until(lambda: lane.figures().failed == {"CancelledError": 1}, "it was counted")
        model.release()
        same(answer(lane.submit(ask(2))), 2)
    assert model.firsts == [[-1], [2]]


def test_a_lane_that_was_closed_takes_nothing(make):
    with opened(make, twice) as lane:
        lane.close(LIMIT)
        with pytest.raises(UnavailableError, match="unloaded"):
            lane.submit(ask(1))


def test_a_lane_is_forgotten_when_it_was_closed(make):
    model = Model()
    lane = make(spec(), model, None)
    answer(lane.submit(ask(1)))
    lane.close(LIMIT)
    gone = weakref.ref(lane)
    del lane
    gc.collect()
    assert gone() is None
