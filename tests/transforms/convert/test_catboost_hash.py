"""CatBoost's hash of whole numbers, held against the hashes that CatBoost writes."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from vitrify.transforms.convert._boosters.catboost import _hashes
from vitrify.transforms.convert._boosters.catboost_hash import hash_of_whole
from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import OPSET, to_model


def hashed(values):
    """Return what a graph makes of the values."""
    graph = Graph(OPSET)
    graph.output(graph.reserve("hash"), hash_of_whole(graph, graph.input("x", values.dtype, ("batch",))), ("batch",))
    model = to_model(graph, name="hash", properties={}).SerializeToString()
    return ort.InferenceSession(model).run(["hash"], {"x": values})[0]


def values_of(kind):
    """Return numbers of every length that a type has, its ends, and some at random."""
    ends = np.iinfo(kind)
    powers = [sign * 10**power + step for power in range(20) for step in (-1, 0, 1) for sign in (1, -1)]
    drawn = np.random.default_rng(0).integers(ends.min, ends.max, 100, dtype=kind, endpoint=True)
    named = [value for value in (ends.min, ends.max, *powers) if ends.min <= value <= ends.max]
    return np.unique(np.concatenate([np.array(named, kind), drawn]))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_every_whole_number_has_the_hash_that_catboost_gives_its_digits(kind):
    values = values_of(kind)
    known = _hashes([str(value) for value in values])
    assert hashed(values).tolist() == [known[str(value)] for value in values]


def test_a_flag_is_hashed_as_one_or_zero():
    known = _hashes(["0", "1"])
    assert hashed(np.array([False, True])).tolist() == [known["0"], known["1"]]


def test_no_rows_have_no_hashes():
    assert hashed(np.zeros(0, np.int64)).tolist() == []
