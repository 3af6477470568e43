"""What every lane must do, as tests that its author can run; they need pytest and Hypothesis.

>>> class TestMyLane(LaneConformance):                         # doctest: +SKIP
...     @pytest.fixture
...     def make(self):
...         return MyLane

``make`` is a :data:`vitrify.serve.lanes.MakeLane`. The models of ``LaneConformance`` take plain tensors, and their
``LaneSpec`` is hot. ``GeneralLaneConformance`` has text, missing values, times, filled-up inputs and models without a
batch: for lanes that take everything.
"""

# ruff: noqa: D102 (a test's name is its sentence)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vitrify.core.errors import ModelError, UsageError
from vitrify.core.signature import BATCH, Field
from vitrify.serve.values import Infer
from vitrify.testing._lane_batches import BatchConformance
from vitrify.testing._lane_bounds import BoundConformance
from vitrify.testing.lane_models import LaneSuite, Model, answer, error, opened, spec, twice

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import Lane, MakeLane


class LaneConformance(BatchConformance, BoundConformance):
    """Subclass it with a fixture ``make``; see the module's text."""


class GeneralLaneConformance(LaneSuite):
    """For lanes that take everything; subclass it with a fixture ``make``."""

    @pytest.mark.parametrize(
        ("dtype", "arrays"),
        [
            ("string", [np.array(values, object) for values in (["hold"], ["a", None], ["", "z" * 99, float("nan")])]),
            ("datetime64[s]", [np.array(values, "M8[s]") for values in ([1], [2, 3], ["NaT"])]),
            ("timedelta64[ns]", [np.array(values, "m8[ns]") for values in ([1], [-2, 3], ["NaT"])]),
            ("bool", [np.array(values) for values in ([True], [False, True], [True])]),
            ("complex64", [np.array(values, np.complex64) for values in ([1j], [2, -3j], [complex("nan")])]),
            ("uint64", [np.array(values, np.uint64) for values in ([0], [2**64 - 1, 2**53 + 1], [1])]),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_every_element_type_is_put_together_right(self, make: MakeLane, dtype: str, arrays: list[Any]) -> None:
        fields = (Field(name="x", dtype=dtype, shape=(BATCH,)),)
        model = Model(lambda inputs: {"x": inputs["x"]}, held=True)
        with opened(make, model, inputs=fields, outputs=fields) as lane:
            got = _together(lane, model, [{"x": array} for array in arrays])
        for outputs, array in zip(got, arrays, strict=True):
            assert (outputs["x"].dtype, outputs["x"].shape) == (array.dtype, array.shape)
            assert list(map(repr, outputs["x"].tolist())) == list(map(repr, array.tolist()))  # NaN is not equal to NaN
        assert [len(batch["x"]) for batch in model.batches] == [1, len(arrays[1]) + len(arrays[2])]

    def test_missing_values_stay_missing_and_are_not_mixed_with_plain_arrays(self, make: MakeLane) -> None:
        fields = (Field(name="x", dtype="int64", shape=(BATCH,), nullable=True),)
        model = Model(lambda inputs: {"x": inputs["x"]}, held=True)
        asked = [
            np.ma.MaskedArray([0], [False]),
            np.ma.MaskedArray([1, 2], [True, False]),
            np.array([3, 4]),
            np.ma.MaskedArray([5], [True]),
        ]
        with opened(make, model, inputs=fields, outputs=fields) as lane:
            got = [outputs["x"] for outputs in _together(lane, model, [{"x": array} for array in asked])]
        assert [array.tolist() for array in got] == [[0], [None, 2], [3, 4], [None]]
        assert [isinstance(array, np.ma.MaskedArray) for array in got] == [True, True, False, True]
        assert [batch["x"].tolist() for batch in model.batches] == [[0], [None, 2, None], [3, 4]]

    def test_a_model_without_a_batch_is_asked_by_each_by_itself(self, make: MakeLane) -> None:
        inputs = (Field(name="x", dtype="float32", shape=("length",)), Field(name="k", dtype="float32", shape=()))
        outputs = (Field(name="sum", dtype="float32", shape=()),)
        model = Model(lambda arrays: {"sum": np.asarray(arrays["x"].sum() * arrays["k"])}, held=True)
        asked = [{"x": np.ones(size, np.float32), "k": np.array(2, np.float32)} for size in (1, 50, 0)]
        with opened(make, model, inputs=inputs, outputs=outputs) as lane:
            got = _together(lane, model, asked)
            assert lane.figures().rows == len(asked)
        assert [outputs["sum"].tolist() for outputs in got] == [2, 100, 0]
        assert len(model.batches) == len(asked)

    def test_an_output_without_a_batch_keeps_requests_apart(self, make: MakeLane) -> None:
        inputs = (Field(name="x", dtype="float32", shape=(BATCH,)),)
        outputs = (Field(name="mean", dtype="float32", shape=()),)
        model = Model(lambda arrays: {"mean": np.asarray(arrays["x"].mean())}, held=True)
        with opened(make, model, inputs=inputs, outputs=outputs, rows=2) as lane:
            asked: list[Arrays] = [{"x": np.array(values, np.float32)} for values in ([1], [2, 4], [1, 2, 3, 4, 5])]
            got = _together(lane, model, asked)
        assert [outputs["mean"].tolist() for outputs in got] == [1, 3, 3]

    def test_a_large_request_whose_pieces_do_not_fit_together_is_the_models_error(self, make: MakeLane) -> None:
        inputs = (Field(name="x", dtype="int64", shape=(BATCH,)),)
        outputs = (Field(name="y", dtype="int64", shape=(BATCH, "found")),)
        with opened(
            make,
            lambda arrays: {"y": np.repeat(arrays["x"][:, None], arrays["x"].max(), 1)},
            inputs=inputs,
            outputs=outputs,
            rows=2,
        ) as lane:
            assert isinstance(error(lane.submit(Infer("glass", {"x": np.array([1, 2, 3])}))), ModelError)
            assert answer(lane.submit(Infer("glass", {"x": np.array([3, 1])})))["y"].shape == (2, 3)


class PaddingConformance(LaneSuite):
    """For lanes that fill up; subclass it with a fixture ``make``."""

    INPUTS = (
        Field(name="ids", dtype="int64", shape=(BATCH, "length")),
        Field(name="mask", dtype="float32", shape=(BATCH, "length")),
        Field(name="bias", dtype="float32", shape=(BATCH, "width")),
    )
    OUTPUTS = (
        Field(name="tokens", dtype="int64", shape=(BATCH, "length", 2)),
        Field(name="sum", dtype="float32", shape=(BATCH, "width")),
    )

    @staticmethod
    def embed(arrays: Arrays) -> Arrays:
        """Be a model whose outputs tell what was filled up with what."""
        ids, mask = arrays["ids"], arrays["mask"]
        return {"tokens": np.stack([ids, ids * 2], axis=2), "sum": arrays["bias"] + (ids * mask).sum(1, keepdims=True)}

    @staticmethod
    def asked(rows: int, length: int, width: int = 2) -> Arrays:
        """Return a request."""
        return {
            "ids": np.arange(1, rows * length + 1).reshape(rows, length),
            "mask": np.ones((rows, length), np.float32),
            "bias": np.full((rows, width), length, np.float32),
        }

    def test_inputs_are_filled_up_and_outputs_cut_back(self, make: MakeLane) -> None:
        model = Model(self.embed, held=True)
        requests = [self.asked(1, 1), self.asked(2, 3), self.asked(1, 5), self.asked(1, 0), self.asked(1, 2, width=3)]
        pad = {"ids": 7, "mask": 0.0}
        with opened(make, model, inputs=self.INPUTS, outputs=self.OUTPUTS, pad=pad) as lane:
            got = _together(lane, model, requests)
        for outputs, inputs in zip(got, requests, strict=True):
            for name, array in self.embed(inputs).items():
                np.testing.assert_array_equal(outputs[name], array)
        assert [batch["ids"].shape for batch in model.batches] == [(1, 1), (4, 5), (1, 2)]
        assert model.batches[1]["ids"][0].tolist() == [1, 2, 3, 7, 7]
        assert model.batches[1]["mask"][3].tolist() == [0] * 5

    def test_an_output_that_is_not_as_long_as_it_says_is_asked_for_alone(self, make: MakeLane) -> None:
        fields = (Field(name="x", dtype="float32", shape=(BATCH, "length")),)
        model = Model(lambda arrays: {"x": np.ones((len(arrays["x"]), 9), np.float32)}, held=True)
        requests: list[Arrays] = [{"x": np.ones((1, length), np.float32)} for length in (1, 2, 3)]
        with opened(make, model, inputs=fields, outputs=fields, pad={"x": 0.0}) as lane:
            got = _together(lane, model, requests)
        assert [outputs["x"].shape for outputs in got] == [(1, 9)] * 3
        assert [len(batch["x"]) for batch in model.batches] == [1, 2, 1, 1]

    @pytest.mark.parametrize(
        ("pad", "said"),
        [
            ({"nothing": 0.0}, "'nothing', which is no input"),
            ({"x": 0.0}, "another that may change"),
            ({"word": 0.0}, "plain numbers"),
            ({"ids": 0.5}, "no int64"),
        ],
    )
    def test_what_cannot_be_filled_up_is_refused_when_the_lane_is_made(
        self, make: MakeLane, pad: dict[str, float], said: str
    ) -> None:
        fixed = Field(name="x", dtype="float32", shape=(BATCH, 3))
        word = Field(name="word", dtype="string", shape=(BATCH, "length"))
        with pytest.raises(UsageError, match=said):
            make(spec((*self.INPUTS, fixed, word), self.OUTPUTS, pad=pad), twice, None)


def _together(lane: Lane, model: Model, requests: list[Arrays]) -> list[Arrays]:
    """Submit the first request, and all others while it is being run."""
    futures = [lane.submit(Infer("glass", requests[0]))]
    model.entered()
    futures += [lane.submit(Infer("glass", inputs)) for inputs in requests[1:]]
    model.release()
    return [answer(future) for future in futures]
