from __future__ import annotations

import numpy as np

from vitrify.checks.parity.judge import Judge
from vitrify.checks.parity.tolerance import Bound


def judge(source, precision="float64", rtol=1e-9, atol=0.0, name="y"):
    bound = Bound(precision, "test", rtol, np.array([atol]))
    return Judge(source, {name: bound}, rowwise=True, seed=0)


def difference_of_squares(x):
    return {"y": x["a"] * x["a"] - x["b"] * x["b"]}


def test_cancellation_is_forgiven_as_far_as_the_source_itself_moves(table, session):
    source = session(table(a="float64", b="float64"), difference_of_squares)
    inputs = {"a": np.array([1e8 + 1 / 3, 3.0]), "b": np.array([1e8, 1.0])}
    better = (inputs["a"] - inputs["b"]) * (inputs["a"] + inputs["b"])
    ruling = judge(source, rtol=1e-12).rule(inputs, {"y": better + np.array([0.0, 1e-6])}, source.run(inputs))["y"]
    assert ruling.ill.tolist() == [True, False]
    assert ruling.failed.tolist() == [False, True]


def test_an_error_far_beyond_the_condition_is_not_forgiven(table, session):
    source = session(table(a="float64", b="float64"), difference_of_squares)
    inputs = {"a": np.array([1e8 + 1 / 3]), "b": np.array([1e8])}
    wrong = {"y": source.run(inputs)["y"] + 1000.0}
    assert judge(source).rule(inputs, wrong, source.run(inputs))["y"].failed.tolist() == [True]


def test_a_threshold_is_no_condition(table, session):
    source = session(table(a="float64"), lambda x: {"y": np.where(x["a"] <= 0.5, 1.0, 2.0)})
    at = np.array([0.5, np.nextafter(0.5, 1)])
    wrong = {"y": np.array([2.0, 1.0])}
    assert judge(source).rule({"a": at}, wrong, source.run({"a": at}))["y"].failed.tolist() == [True, True]


def test_overflow_is_forgiven_where_squares_leave_the_range_and_only_infinities_are(table, session):
    source = session(table(a="float64"), lambda x: {"y": np.minimum(x["a"], 5.0)})
    inputs = {"a": np.array([1e200, 1e200, 2.0])}
    ruling = judge(source).rule(inputs, {"y": np.array([np.inf, 6.0, np.inf])}, source.run(inputs))["y"]
    assert ruling.overflowed.tolist() == [True, False, False]
    assert ruling.failed.tolist() == [False, True, True]


def test_a_flip_is_a_tie_only_where_the_best_two_scores_are_within_their_tolerance(table, session):
    scores = np.array([[0.5 + 1e-12, 0.5 - 1e-12, 0.0], [0.6, 0.4, 0.0], [0.3, 0.35, 0.35]])
    source = session(table(a="float64"), lambda x: {"label": scores.argmax(1)[: len(x["a"])], "p": scores})
    inputs = {"a": np.zeros(3)}
    got = {"label": np.array([1, 1, 2]), "p": scores}
    rulings = judge(source, atol=1e-9, name="p").rule(inputs, got, source.run(inputs))
    assert rulings["label"].ties.tolist() == [True, False, True]
    assert rulings["label"].failed.tolist() == [False, True, False]
    assert not rulings["p"].failed.any()


def test_a_flip_without_scores_is_a_flip(table, session):
    source = session(table(a="float64"), lambda x: {"label": (x["a"] > 0).astype(np.int64)})
    inputs = {"a": np.array([0.0])}
    ruling = Judge(source, {}, rowwise=True, seed=0).rule(inputs, {"label": np.array([1])}, source.run(inputs))
    assert ruling["label"].failed.tolist() == [True]


def test_a_source_that_refuses_moved_rows_forgives_nothing(table, session):
    def strict(x):
        if not np.all(x["a"] == 1.0):
            msg = "only ones"
            raise ValueError(msg)
        return {"y": x["a"]}

    source = session(table(a="float64"), strict)
    inputs = {"a": np.ones(1)}
    assert judge(source).rule(inputs, {"y": np.array([1.5])}, {"y": np.ones(1)})["y"].failed.tolist() == [True]


def test_a_source_without_an_answer_for_what_is_missing_proves_nothing_about_it(table, session):
    source = session(table(a="float64"), lambda x: {"y": x["a"] * 2})
    inputs = {"a": np.array([np.nan, np.nan, 1.0])}
    got = {"y": np.array([7.0, np.nan, 2.0])}
    ruling = judge(source).rule(inputs, got, source.run(inputs))["y"]
    assert ruling.unanswered.tolist() == [True, False, False]
    assert not ruling.failed.any()


def test_an_answer_for_what_is_missing_has_to_be_given(table, session):
    source = session(table(a="float64"), lambda x: {"y": np.nan_to_num(x["a"])})
    inputs = {"a": np.array([np.nan])}
    assert judge(source).rule(inputs, {"y": np.array([7.0])}, source.run(inputs))["y"].failed.tolist() == [True]
