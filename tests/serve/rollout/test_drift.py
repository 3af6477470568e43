"""How far predictions are apart, and what of it is chance."""

from __future__ import annotations

import numpy as np
import pytest

from vitrify.serve.rollout.drift import LEAST, distance


def normal(seed, rows=2000, shift=0.0, columns=1):
    return np.random.default_rng(seed).normal(shift, size=(rows, columns)).astype(np.float32)


def classes(seed, shares, rows=2000):
    return np.random.default_rng(seed).choice(len(shares), size=(rows, 1), p=shares)


def between(old, new):
    return distance({"Y": old}, {"Y": new})


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rows", [LEAST, 100, 1000, 4000])
def test_two_samples_of_the_same_numbers_are_within_chance(seed, rows):
    found = between(normal(seed, rows), normal(seed + 100, rows))
    assert found.kind == "population stability index"
    assert found.value < found.noise


@pytest.mark.parametrize("rows", [200, 1000, 4000])
def test_numbers_that_have_moved_are_surely_apart(rows):
    found = between(normal(1, rows), normal(2, rows, shift=1.0))
    assert found.value - found.noise > 0.2


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.05, 0.05), (0.25,) * 4])
@pytest.mark.parametrize("kind", [np.int64, object, bool])
def test_classes_and_texts_are_counted_by_value(shares, kind):
    old, same, moved = classes(1, shares), classes(2, shares), classes(3, shares[::-1] if len(shares) == 3 else (1.0,))
    as_given = (lambda array: np.array([[f"c{value}"] for value in array[:, 0]], object)) if kind is object else None
    old, same, moved = ((as_given or (lambda array: array.astype(kind)))(one) for one in (old, same, moved))
    alike, apart = between(old, same), between(old, moved)
    assert alike.kind == apart.kind == "Jensen-Shannon distance"
    assert alike.value < alike.noise
    assert 1 >= apart.value > 0.2 + apart.noise


def test_probabilities_are_held_against_each_other_by_their_likeliest_class():
    draw = np.random.default_rng(1)
    old, same = draw.dirichlet([5, 1, 1], 500), draw.dirichlet([5, 1, 1], 500)
    assert between(old, same).kind == "Jensen-Shannon distance"
    assert between(old, same).value < 0.2
    assert between(old, old[:, ::-1]).value > 0.5


def test_the_distance_is_that_of_disjoint_classes():
    assert between(np.zeros((50, 1), int), np.ones((50, 1), int)).value == pytest.approx(1)
    assert between(np.zeros((50, 1), int), np.zeros((50, 1), int)).value == 0


def test_what_is_no_number_is_a_bin_of_its_own():
    old = normal(1, 500)
    new = old.copy()
    new[::3] = np.nan
    assert between(old, old).value == pytest.approx(0, abs=1e-9)
    assert between(old, new).value > 0.2 + between(old, new).noise
    assert between(np.full((50, 1), np.nan), normal(1, 50)).value > 1
    assert between(np.full((50, 1), np.inf), np.full((50, 1), np.inf)).value == pytest.approx(0, abs=1e-9)


def test_a_constant_that_changes_a_little_is_seen():
    old, new = np.full((200, 1), 0.5), np.full((200, 1), 0.50001)
    assert between(old, old).value == pytest.approx(0, abs=1e-9)
    assert between(old, new).value > 1


def test_the_column_and_the_output_that_are_furthest_apart_are_named():
    old = normal(1, 500, columns=3)
    new = normal(2, 500, columns=3) + np.array([0, 2, 0], np.float32)
    assert between(old, new).output == "Y[1]"
    found = distance({"A": old, "B": old, "C": old}, {"A": old, "B": new, "D": new})
    assert found.output == "B[1]"


def test_of_few_rows_nothing_can_be_said():
    assert between(normal(1, LEAST - 1), normal(2)) is None
    assert distance({"A": normal(1)}, {"B": normal(1)}) is None
    assert distance({}, {}) is None
