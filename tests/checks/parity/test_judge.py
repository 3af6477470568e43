from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vitrify.checks.parity.judge import Judge
from vitrify.checks.parity.tolerance import Bound
from vitrify.core.signature import Field, Signature


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


SCORES = np.array([[0.5 + 1e-12, 0.5 - 1e-12, 0.0], [0.6, 0.4, 0.0], [0.3, 0.35, 0.35], [0.2, 0.2, 0.6]])


def answered(table, session, label, **scores):
    """Return a source that answers its rows by their numbers, and those numbers."""

    def answers(x):
        at = np.rint(x["a"]).astype(int)
        return {"label": label(x["a"], at) if callable(label) else label[at]} | {k: v[at] for k, v in scores.items()}

    return session(table(a="float64"), answers), {"a": np.arange(1.0 * len(next(iter(scores.values()))))}


def flips(table, session, given, scores, *, label=None):
    """Return the ruling on labels that a candidate gives with scores of its own, where the source has SCORES."""
    source, inputs = answered(table, session, label or SCORES.argmax(1), p=SCORES)
    got = {"label": np.array(given), "p": scores}
    return judge(source, atol=1e-9, name="p").rule(inputs, got, source.run(inputs))


def test_a_flip_is_a_tie_only_where_the_best_two_scores_are_within_their_tolerance(table, session):
    rulings = flips(table, session, [1, 1, 2, 2], SCORES + 1e-13)
    assert rulings["label"].ties.tolist() == [True, False, True, False]
    assert rulings["label"].failed.tolist() == [False, True, False, False]
    assert not rulings["p"].failed.any()


def test_a_tie_between_two_labels_excuses_no_third(table, session):
    rulings = flips(table, session, [2, 0, 0, 2], SCORES + 1e-13)
    assert rulings["label"].failed.tolist() == [True, False, True, False]


def test_the_same_scores_and_another_label_are_another_rule(table, session):
    assert flips(table, session, [1, 0, 2, 2], SCORES)["label"].failed.tolist() == [True, False, True, False]


def test_the_same_scores_excuse_a_label_that_rounding_turns(table, session):
    def label(a, at):
        return np.where(a > at, 1, SCORES.argmax(1)[at])

    rulings = flips(table, session, [1, 1, 1, 2], SCORES, label=label)
    assert rulings["label"].ties.tolist() == [True, False, False, False]


def test_scores_that_decide_nothing_excuse_no_flip(table, session):
    """A table's number that is zero says nothing about whole numbers in another column."""
    numbers = np.array([[0.0], [2.0], [-3.0], [0.5], [-1.0], [4.0]])
    codes = np.array([7, 8, 8, 9, 7, 9])
    source, inputs = answered(table, session, codes, n=numbers)
    got = {"n": numbers + 1e-13, "label": np.array([8, 8, 8, 8, 7, 9])}
    rulings = judge(source, atol=1e-9, name="n").rule(inputs, got, source.run(inputs))
    assert rulings["label"].failed.tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize("turn", [0.0, 0.5])
def test_a_single_score_ties_at_the_turn_that_the_answers_show(table, session, turn):
    score = turn + np.array([1e-12, 0.3, -0.3, 0.5 - 2 * turn])
    source, inputs = answered(table, session, (score > turn).astype(np.int64), s=score[:, None])
    got = {"label": 1 - (score > turn), "s": score[:, None] - 1e-13}
    ruling = judge(source, atol=1e-9, name="s").rule(inputs, got, source.run(inputs))["label"]
    assert ruling.ties.tolist() == [True, False, False, False]


def test_each_column_of_labels_needs_its_own_excuse(table, session):
    scores = np.array([[0.5 + 1e-12, 0.9], [0.1, 0.2], [0.8, 0.7], [0.3, 0.6]])
    source, inputs = answered(table, session, (scores > 0.5).astype(np.int64), p=scores)
    for wrong, ties in ([0, 1], True), ([1, 0], False), ([0, 0], False):
        given = (scores > 0.5).astype(np.int64)
        given[0] = wrong
        got = {"label": given, "p": scores - 1e-13}
        ruling = judge(source, atol=1e-9, name="p").rule(inputs, got, source.run(inputs))["label"]
        assert ruling.ties[0] == ties
        assert ruling.failed[0] != ties


def test_an_output_in_float32_excuses_none_in_float64(table, session):
    def answers(x):
        return {"narrow": x["a"].astype(np.float32), "wide": x["a"] * np.pi}

    source = session(table(a="float64"), answers)
    bounds = {
        name: Bound(kind, "test", 1e-9, np.zeros(1)) for name, kind in (("narrow", "float32"), ("wide", "float64"))
    }
    inputs = {"a": np.array([1.1, 3.3, 1e30])}
    right = source.run(inputs)
    got = {"narrow": right["narrow"], "wide": right["wide"].astype(np.float32).astype(np.float64)}
    got["wide"][2] = np.inf
    ruling = Judge(source, bounds, rowwise=True, seed=0).rule(inputs, got, right)["wide"]
    assert ruling.failed.tolist() == [True, True, True]


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


@pytest.mark.parametrize(
    ("shape", "nullable", "forgiven"), [((1, 2, 2), False, True), ((1, 2, 2), True, False), ((4,), False, False)]
)
def test_the_nan_of_a_picture_is_no_missing_value_that_of_a_table_is(shape, nullable, forgiven, session):
    field = Field(name="x", dtype="float64", shape=("batch", *shape), nullable=nullable)
    source = session(Signature(inputs=(field,)), lambda x: {"y": np.nanmax(x["x"].reshape(len(x["x"]), -1), axis=1)})
    x = np.arange(8.0).reshape(2, *shape)
    x[0].flat[1] = np.nan
    ruling = judge(source).rule({"x": x}, {"y": np.array([np.nan, 7.0])}, source.run({"x": x}))["y"]
    assert ruling.unanswered.tolist() == [forgiven, False]
    assert ruling.failed.tolist() == [not forgiven, False]
    wrong = judge(source).rule({"x": x}, {"y": np.array([3.0, 8.0])}, source.run({"x": x}))["y"]
    assert wrong.failed.tolist() == [False, True]


def test_a_row_is_a_tie_where_the_source_says_the_same_when_it_picks_the_first_of_equals(table, session):
    inputs = {"a": np.arange(4.0)}
    source = session(table(a="float64"), lambda x: {"y": x["a"] * 2, "label": x["a"] > 1})
    first = session(table(a="float64"), lambda x: {"y": x["a"] * 2 + (x["a"] < 3), "label": x["a"] > 1})
    got = {"y": np.array([1.0, 3.0 + 1e-6, 5.0, 7.0]), "label": np.array([False, False, False, True])}
    rulings = replace(judge(source), first=first).rule(inputs, got, source.run(inputs))
    # The second is near to neither, the third says another label than both, the fourth is no choice of the source.
    assert rulings["y"].ties.tolist() == [True, False, False, False]
    assert rulings["y"].failed.tolist() == [False, True, True, True]
    assert rulings["label"].failed.tolist() == [False, False, True, False]
    assert rulings["y"].measured.tolist() == [False, True, True, True]
