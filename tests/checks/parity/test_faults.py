"""Seeded faults: each is one that a converter really makes, and one probe must find it."""

from __future__ import annotations

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance, compare_sessions
from vitrify.core.errors import ModelError
from vitrify.core.signature import Field, Signature

SAMPLES = 40


def probes_that_found(report):
    return {name for name, counts in report.details["probes"].items() if counts.get("failed")}


@pytest.fixture
def compare(session):
    def run(signature, right, wrong, samples, **options):
        candidate, source = session(signature, wrong), session(signature, right)
        options.setdefault("row_count", 2000)
        same = compare_sessions(source, source, samples, **options)
        assert same.verdict == "clean", str(same)
        return compare_sessions(candidate, source, samples, **options)

    return run


def test_identifiers_cut_to_float32_are_found_though_the_samples_are_small(table, compare):
    def parity(ids):
        return (ids % 2).astype(np.int64)

    report = compare(
        table(id="int64"),
        lambda a: {"odd": parity(a["id"])},
        lambda a: {"odd": parity(a["id"].astype(np.float32).astype(np.float64))},
        {"id": np.arange(SAMPLES)},
    )
    assert report.verdict == "found"
    assert "large integers" in probes_that_found(report)
    assert any("2**24" in finding.remedy for finding in report.findings)


def test_identifiers_cut_to_float64_are_found(table, compare):
    report = compare(
        table(id="int64"),
        lambda a: {"last": a["id"] % 10},
        lambda a: {
            "last": np.where(abs(a["id"]) > 2**53, a["id"].astype(np.float64).astype(np.int64, copy=False), a["id"])
            % 10
        },
        {"id": np.arange(SAMPLES)},
    )
    assert probes_that_found(report) >= {"large integers"}


def test_less_for_less_or_equal_is_found_on_a_tree_that_is_known(matrix, compare, numbers):
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(numbers, numbers[:, 0] * 100)
    tree = model.tree_

    def walk(x, less):
        node = np.zeros(len(x), int)
        for _ in range(4):
            inner = tree.children_left[node] >= 0
            value = x[np.arange(len(x)), np.maximum(tree.feature[node], 0)]
            left = (value < tree.threshold[node]) if less else (value <= tree.threshold[node])
            node = np.where(inner, np.where(left, tree.children_left[node], tree.children_right[node]), node)
        return {"y": tree.value[node, 0, 0]}

    report = compare(
        matrix(3),
        lambda a: walk(a["X"].astype(np.float32), less=False),
        lambda a: walk(a["X"].astype(np.float32), less=True),
        {"X": numbers},
        model=model,
    )
    found = probes_that_found(report)
    assert found & {"split thresholds", "split thresholds (2)"}
    assert not found & {"samples", "jittered", "shuffled"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda z: z <= 0.25,
        lambda z: z.astype(np.float32) < np.float32(0.25),
        lambda z: np.nextafter(z, np.inf) < 0.25,
    ],
    ids=["less or equal", "cast to float32", "another last bit"],
)
def test_a_step_behind_a_scaler_is_found_without_looking_inside(table, compare, numbers, wrong):
    def scaled(a):
        return a["x"] / 2 - 0.1

    report = compare(
        table(x="float64", other="float64"),
        lambda a: {"y": np.where(scaled(a) < 0.25, 1.0, 2.0) + a["other"]},
        lambda a: {"y": np.where(wrong(scaled(a)), 1.0, 2.0) + a["other"]},
        {"x": numbers[:, 0], "other": numbers[:, 1]},
    )
    assert report.verdict == "found"
    assert "jumps of the source" in probes_that_found(report)


def test_missing_values_that_take_the_other_branch_are_found(table, compare, numbers):
    report = compare(
        table(x="float64"),
        lambda a: {"y": np.where(a["x"] < 0, 1.0, 2.0)},
        lambda a: {"y": np.where(a["x"] >= 0, 2.0, 1.0)},
        {"x": numbers[:, 0]},
    )
    assert probes_that_found(report) == {"missing: NaN", "missing: NaN, many"}
    assert all("missing values" in finding.remedy for finding in report.findings)


def test_masked_integers_read_as_zero_are_found(table, compare):
    report = compare(
        table(n="int64?"),
        lambda a: {"y": np.where(np.ma.getmaskarray(a["n"]), -5, np.ma.getdata(a["n"]))},
        lambda a: {"y": np.where(np.ma.getmaskarray(a["n"]), 0, np.ma.getdata(a["n"]))},
        {"n": np.arange(SAMPLES)},
    )
    assert probes_that_found(report) == {"missing: masked", "missing: masked, many"}


def test_the_text_nan_taken_for_a_missing_value_is_found(table, compare):
    def right(a):
        return {"y": np.array([isinstance(v, str) for v in a["t"]], np.int64)}

    def wrong(a):
        return {"y": np.array([isinstance(v, str) and v != "nan" for v in a["t"]], np.int64)}

    report = compare(table(t="string"), right, wrong, {"t": np.array(["red", "blue"] * 20, object)})
    assert probes_that_found(report) == {"unseen categories"}


def test_an_unseen_category_taken_for_the_first_is_found(table, compare):
    colors = {"red": 0, "green": 1}
    report = compare(
        table(color="string"),
        lambda a: {"code": np.array([colors.get(v, -1) for v in a["color"]], np.int64)},
        lambda a: {"code": np.array([colors.get(v, 0) for v in a["color"]], np.int64)},
        {"color": np.array(["red", "green"] * 20, object)},
    )
    assert report.verdict == "found"
    assert "unseen categories" in probes_that_found(report)
    assert not probes_that_found(report) & {"samples", "shuffled"}


def test_an_unseen_category_number_is_tried_where_categories_are_numbers(session):
    field = Field(name="c", dtype="int64", categories=(1, 2, 3))
    signature = Signature(inputs=(field,))
    source = session(signature, lambda a: {"y": np.where(np.isin(a["c"], (1, 2, 3)), a["c"], -1)})
    candidate = session(signature, lambda a: {"y": np.where(np.isin(a["c"], (1, 2, 3)), a["c"], 1)})
    report = compare_sessions(candidate, source, {"c": np.array([1, 2, 3] * 5)}, row_count=500)
    assert probes_that_found(report) == {"unseen categories"}


def test_lower_case_of_ascii_only_is_found(table, compare):
    def ascii_lower(text):
        return "".join(c.lower() if c.isascii() else c for c in text)

    def lengths(texts, lower):
        hashes = [sum(map(ord, lower(v))) if isinstance(v, str) else -1 for v in texts]
        return {"y": np.array(hashes, np.int64)}

    report = compare(
        table(t="string"),
        lambda a: lengths(a["t"], str.lower),
        lambda a: lengths(a["t"], ascii_lower),
        {"t": np.array(["Glass", "window pane", "Solid"] * 10, object)},
    )
    assert probes_that_found(report) & {"unusual text", "rewritten text"}
    assert not probes_that_found(report) & {"samples", "unseen categories"}


def test_minus_zero_is_not_zero_to_a_model_that_looks_at_signs(table, compare):
    report = compare(
        table(x="float64"),
        lambda a: {"y": np.signbit(a["x"])},
        lambda a: {"y": a["x"] < 0},
        {"x": np.linspace(-1, 1, SAMPLES)},
    )
    assert "zeros" in probes_that_found(report)


def test_a_baked_batch_size_is_found(table, compare):
    def fixed(a):
        if len(a["x"]) not in {0, SAMPLES}:
            msg = f"got {len(a['x'])} rows, expected {SAMPLES}"
            raise ModelError(msg)
        return {"y": a["x"] * 2}

    report = compare(table(x="float64"), lambda a: {"y": a["x"] * 2}, fixed, {"x": np.linspace(0, 1, SAMPLES)})
    assert any("batch of 33" in finding.place and "refuses" in finding.message for finding in report.findings)


def test_an_answer_that_depends_on_the_batch_is_found(table, compare):
    report = compare(
        table(x="float64"),
        lambda a: {"y": a["x"] * 2},
        lambda a: {"y": a["x"] * 2 + (len(a["x"]) == 5)},
        {"x": np.linspace(0, 1, SAMPLES)},
    )
    assert probes_that_found(report) == {"batch of 5"}


def test_an_empty_batch_of_another_type_is_found(table, compare):
    report = compare(
        table(x="float32"),
        lambda a: {"y": a["x"] * 2},
        lambda a: {"y": a["x"] * 2 if len(a["x"]) else np.zeros(0)},
        {"x": np.linspace(0, 1, SAMPLES).astype(np.float32)},
    )
    assert [finding.message for finding in report.findings] == ["is float64, expected float32, in probe 'batch of 0'"]


def test_a_single_row_that_loses_its_dimension_is_found(table, compare):
    report = compare(
        table(x="float64"),
        lambda a: {"y": np.stack([a["x"], a["x"]], axis=1)},
        lambda a: {"y": np.stack([a["x"], a["x"]], axis=1).squeeze()},
        {"x": np.linspace(0, 1, SAMPLES)},
    )
    assert any("has shape (2), expected (1, 2)" in finding.message for finding in report.findings)


def test_a_constant_offset_is_found_and_named(table, compare, numbers):
    report = compare(
        table(x="float64"),
        lambda a: {"y": a["x"] ** 2},
        lambda a: {"y": a["x"] ** 2 + 0.4},
        {"x": numbers[:, 0]},
    )
    assert report.verdict == "found"
    assert "same amount (0.4)" in report.findings[0].remedy


def test_a_constant_factor_is_found_and_named(table, compare, numbers):
    report = compare(table(x="float64"), lambda a: {"y": 15 * a["x"]}, lambda a: {"y": a["x"]}, {"x": numbers[:, 0]})
    assert "same factor (0.0666667)" in report.findings[0].remedy


def test_swapped_columns_are_found_and_named(table, compare, numbers):
    def shares(a):
        p = 1 / (1 + np.exp(-np.clip(a["x"], -50, 50)))
        return np.stack([p, 1 - p], axis=1)

    report = compare(
        table(x="float64"), lambda a: {"p": shares(a)}, lambda a: {"p": shares(a)[:, ::-1]}, {"x": numbers[:, 0]}
    )
    assert "another order: [1, 0]" in report.findings[0].remedy


def test_class_labels_in_another_order_are_found_in_the_signature_alone(session, table, numbers):
    def output(classes):
        return table(x="float64").replace(outputs=(Field(name="y", dtype="float64", classes=classes),))

    right = session(output(("no", "yes")), lambda a: {"y": a["x"]})
    wrong = session(output(("yes", "no")), lambda a: {"y": a["x"]})
    report = compare_sessions(wrong, right, {"x": numbers[:, 0]}, row_count=100)
    assert [finding.place for finding in report.findings] == ["output 'y'"]


def test_labels_of_another_type_are_found(table, compare):
    report = compare(
        table(x="float64"),
        lambda a: {"y": a["x"] > 0},
        lambda a: {"y": (a["x"] > 0).astype(np.int64)},
        {"x": np.linspace(-1, 1, SAMPLES)},
    )
    assert "is int64, expected bool" in report.findings[0].message


def test_a_missing_output_is_found(table, compare):
    report = compare(
        table(x="float64"),
        lambda a: {"y": a["x"], "z": a["x"]},
        lambda a: {"y": a["x"]},
        {"x": np.linspace(-1, 1, SAMPLES)},
    )
    assert report.findings[0].place == "output 'z'"
    assert "is missing" in report.findings[0].message


def test_a_candidate_that_refuses_what_the_source_accepts_is_found(table, compare, numbers):
    def strict(a):
        if not np.isfinite(a["x"]).all():
            raise ModelError("no NaN, please")
        return {"y": a["x"] * 2}

    report = compare(table(x="float64"), lambda a: {"y": a["x"] * 2}, strict, {"x": numbers[:, 0]})
    assert any("refuses" in finding.message and "no NaN" in finding.message for finding in report.findings)


def test_a_candidate_is_not_asked_what_the_source_refuses_and_the_report_counts_it(table, session, numbers):
    def brittle(a):
        assert not np.isnan(a["x"]).any(), "a native engine would be gone"
        return {"y": a["x"] * 2}

    def strict(a):
        if np.isnan(a["x"]).any():
            raise ModelError("no NaN, please")
        return {"y": a["x"] * 2}

    signature = table(x="float64")
    report = compare_sessions(
        session(signature, brittle), session(signature, strict), {"x": numbers[:, 0]}, row_count=500
    )
    assert report.verdict == "clean"
    counts = report.details["probes"]["missing: NaN"]
    assert counts["refused"] == counts["rows"] > 0


def test_a_source_that_throws_dice_cannot_be_proven(table, session, numbers):
    rng = np.random.default_rng(0)
    dice = session(table(x="float64"), lambda a: {"y": rng.normal(size=len(a["x"]))})
    report = compare_sessions(dice, dice, {"x": numbers[:, 0]}, Tolerance(rtol=1e-5), row_count=200)
    assert report.verdict == "found"
    assert any("different answers" in finding.message for finding in report.findings)
    assert report.details["noise"]["y"] > 0.01


def test_a_fixed_dimension_that_should_change_is_found(session):
    signature = Signature(inputs=(Field(name="ids", dtype="int64", shape=("batch", "length")),))
    source = session(signature, lambda a: {"y": a["ids"].sum(axis=1)})
    candidate = session(signature, lambda a: {"y": a["ids"][:, :6].sum(axis=1)})
    report = compare_sessions(candidate, source, {"ids": np.arange(60).reshape(10, 6)}, row_count=500)
    assert probes_that_found(report) == {"dimension length: double"}


def test_a_model_without_a_batch_is_compared_call_by_call(session):
    signature = Signature(inputs=(Field(name="x", dtype="float32", shape=(2, 3)),))
    samples = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    source = session(signature, lambda a: {"y": a["x"] @ np.ones((3, 4), np.float32)})
    assert compare_sessions(source, source, samples).verdict == "clean"
    frozen = session(signature, lambda a: {"y": samples["x"] @ np.ones((3, 4), np.float32)})
    report = compare_sessions(frozen, source, samples)
    assert {"sign flips", "zeros"} <= probes_that_found(report)
    assert "samples" not in probes_that_found(report)


def test_without_samples_nothing_is_called_clean(table, session):
    signature = table(x="float64")
    echo = session(signature, lambda a: {"y": a["x"]})
    for samples in ({}, {"x": np.zeros(0)}):
        report = compare_sessions(echo, echo, samples)
        assert report.verdict == "not checked"
        assert report.findings[0].remedy


def test_a_source_whose_rows_are_as_wide_as_the_batch_is_found_and_breaks_nothing(matrix, session, numbers):
    source = session(matrix(3), lambda a: {"y": a["X"] @ a["X"].T})
    report = compare_sessions(source, source, {"X": numbers}, row_count=300)
    assert report.verdict == "found"
    assert "depends on the other rows" in str(report)


def test_a_row_that_is_wider_for_some_values_only_is_found(matrix, session, numbers):
    def wider(a):
        x = a["X"]
        return {"y": np.hstack([x, x]) if np.abs(x).max() > 1e6 else x}

    source = session(matrix(3), wider)
    report = compare_sessions(source, source, {"X": numbers}, row_count=300)
    assert report.verdict == "found"
    assert "depends on the other rows" in str(report)
