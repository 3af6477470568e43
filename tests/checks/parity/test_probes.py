from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance, rows
from vitrify.checks.parity.probes import batches, material, missing, numeric, probes, samples, text, thresholds
from vitrify.checks.parity.probes.jumps import Jumps
from vitrify.core.signature import Field, Signature


def named(family):
    return {probe.name: probe.arrays for probe in family if probe is not None}


@pytest.fixture
def stock(table):
    def make(count=20, **columns):
        signature = table(**{name: dtype for name, (dtype, _) in columns.items()})
        return material(signature, {name: values for name, (_, values) in columns.items()}, count, 0)

    return make


def test_large_integers_stand_on_both_sides_of_what_floats_hold(stock):
    found = named(numeric.probes(stock(4000, n=("int64", np.arange(5)), x=("float64", np.arange(5.0)))))
    values = set(found["large integers"]["n"].tolist())
    assert {2**24 - 1, 2**24, 2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)} <= values
    assert 2.0**53 in found["large integers"]["x"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_integers_of_every_width_reach_their_ends_and_no_further(stock, dtype):
    info = np.iinfo(dtype)
    found = named(numeric.probes(stock(4000, n=(dtype, np.arange(5).astype(dtype)))))
    assert {info.min, info.max} <= set(found["ends of the range"]["n"].tolist())
    assert all(arrays["n"].dtype == dtype for arrays in found.values())


def test_floats_reach_both_zeros_denormals_and_their_ends(stock):
    found = named(numeric.probes(stock(4000, x=("float32", np.arange(1, 6, dtype=np.float32)))))
    zeros = found["zeros"]["x"]
    assert {False, True} == set(np.signbit(zeros[zeros == 0]).tolist())
    ends = found["ends of the range"]["x"]
    assert {np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal} <= set(ends.tolist())
    assert np.isinf(found["infinities"]["x"]).any()
    assert (found["sign flips"]["x"] < 0).all()


def test_neighbouring_values_are_one_unit_away_in_float64_and_at_the_edges_of_float32(stock):
    value = 0.1
    found = named(numeric.probes(stock(4000, x=("float64", np.array([value])))))["neighbouring values"]["x"].tolist()
    assert {np.nextafter(value, 1), np.nextafter(value, 0)} <= set(found)
    near = np.float32(value)
    middle = (float(near) + float(np.nextafter(near, np.float32(1)))) / 2
    assert np.float32(np.nextafter(middle, 0)) != np.float32(np.nextafter(middle, 1))
    assert {np.nextafter(middle, 0), np.nextafter(middle, 1)} <= set(found)


def test_what_cannot_be_missing_is_not_made_so(stock):
    found = named(
        missing.probes(
            stock(
                400,
                x=("float64", np.arange(3.0)),
                n=("int64", np.arange(3)),
                m=("int64?", np.arange(3)),
                t=("string", np.array(["a", "b", "c"], object)),
                d=("datetime64[s]?", np.array([0, 1, 2], "datetime64[s]")),
            )
        )
    )
    assert np.isnan(found["missing: NaN"]["x"]).any()
    assert any(value is None for value in found["missing: None"]["t"])
    assert np.ma.getmaskarray(found["missing: masked"]["m"]).any()
    assert np.isnat(found["missing: NaT"]["d"]).any()
    assert not any(np.ma.getmaskarray(arrays["n"]).any() for arrays in found.values())


def test_samples_are_never_changed(stock):
    made = stock(
        500,
        x=("float64", np.arange(6.0)),
        m=("int64?", np.ma.MaskedArray(np.arange(6), [False, True] * 3)),
        t=("string", np.array(list("abcdef"), object)),
    )
    before = {name: array.copy() for name, array in made.samples.items()}
    for family in (numeric.probes(made), missing.probes(made), text.probes(made), samples.fill(made, 50)):
        list(family)
    for name, array in before.items():
        assert np.array_equal(np.ma.getdata(array), np.ma.getdata(made.samples[name]))
        assert np.array_equal(np.ma.getmaskarray(array), np.ma.getmaskarray(made.samples[name]))


def test_text_probes_hold_what_tokenisers_stumble_over(stock):
    found = named(text.probes(stock(4000, t=("string", np.array(["Glass pane", "rare", "Glass pane"], object)))))
    unusual = set(found["unusual text"]["t"].tolist())
    assert any("\u0308" in value for value in unusual)
    assert any("\u05d0" <= char <= "\u05ea" for value in unusual for char in value)
    assert max(map(len, unusual)) >= 2000
    assert {"", "nan", "None"} <= set(found["unseen categories"]["t"].tolist())
    assert {"GLASS PANE", "glass pane"} <= set(found["rewritten text"]["t"].tolist())
    for values in unusual:
        values.encode("utf-8")


def test_fixed_width_text_is_not_cut(table):
    made = material(table(t="string"), {"t": np.array(["a", "bc"])}, 4000, 0)
    assert "word " * 400 in named(text.probes(made))["unusual text"]["t"]


def test_thresholds_are_hit_exactly_and_from_both_sides(matrix, numbers):
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=2, random_state=0).fit(numbers, numbers[:, 1])
    made = material(matrix(3), {"X": numbers}, 4000, 0)
    values = np.concatenate([a["X"][:, 1] for a in named(thresholds.probes(made, model)).values()])
    for threshold in model.tree_.threshold[model.tree_.children_left >= 0]:
        for value in (threshold, np.nextafter(threshold, np.inf), np.nextafter(threshold, -np.inf)):
            assert value in values
        assert np.float64(np.nextafter(np.float32(threshold), np.float32(np.inf))) in values


def test_integer_columns_stand_on_either_side_of_a_threshold(stock):
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=1).fit(np.arange(10)[:, None], np.arange(10) > 4)
    found = named(thresholds.probes(stock(400, n=("int64", np.arange(10))), model))
    assert {4, 5} == {value for arrays in found.values() for value in arrays["n"].tolist()}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_a_jump_is_pinned_between_neighbours(stock, session, dtype):
    values = np.linspace(-50, 50, 30).astype(dtype)
    made = stock(2000, x=(dtype, values))
    source = session(made.signature, lambda a: {"y": np.where(a["x"] < dtype_value(dtype), 0.0, 1.0)})
    outputs = source.run(made.samples)["y"]
    probe = Jumps(source, {"y": Tolerance().bound(outputs, None, columns=False)}, made).probe()
    low, high = np.unique(probe.arrays["x"])
    assert high == dtype_value(dtype)
    assert high == (low + 1 if dtype == "int64" else np.nextafter(low, np.array(np.inf, dtype)))


def dtype_value(dtype):
    return np.array(17 if dtype == "int64" else 0.3, dtype)


def test_a_smooth_source_has_no_jumps(stock, session):
    made = stock(2000, x=("float64", np.linspace(-5, 5, 30)), z=("float64", np.linspace(3, -3, 30)))
    source = session(made.signature, lambda a: {"y": np.exp(np.minimum(a["x"], 5)) * a["z"]})
    outputs = source.run(made.samples)["y"]
    assert Jumps(source, {"y": Tolerance().bound(outputs, None, columns=False)}, made).probe() is None


def test_an_edge_that_leans_across_columns_is_nobodys_fault(stock, session):
    rng = np.random.default_rng(0)
    made = stock(2000, x=("float64", rng.normal(size=40)), z=("float64", rng.normal(size=40)))
    source = session(made.signature, lambda a: {"y": np.where(a["x"] / 3 + a["z"] / 7 < 0.1, 0.0, 1.0)})
    outputs = source.run(made.samples)["y"]
    assert Jumps(source, {"y": Tolerance().bound(outputs, None, columns=False)}, made).probe() is None


def test_batches_have_the_sizes_they_say(stock):
    made = stock(100, x=("float64", np.arange(3.0)))
    assert {int(n.split()[-1]): rows.count(a) for n, a in named(batches.probes(made)).items()} == {
        size: size for size in batches.SIZES
    }


def test_dimensions_that_share_a_name_change_together():
    shapes = {"a": ("batch", "length"), "b": ("batch", "length", 2)}
    signature = Signature(inputs=tuple(Field(name=n, dtype="float32", shape=s) for n, s in shapes.items()))
    arrays = {"a": np.zeros((3, 4), np.float32), "b": np.zeros((3, 4, 2), np.float32)}
    lengths = []
    for probe in batches.dimensions(material(signature, arrays, 100, 0)):
        assert probe.arrays["a"].shape[1] == probe.arrays["b"].shape[1]
        lengths.append(probe.arrays["a"].shape[1])
    assert lengths == [1, 2, 8]


@pytest.mark.parametrize("wanted", [1, 50, 2000])
def test_the_number_of_rows_is_about_what_was_asked_for(stock, session, wanted):
    made = stock(wanted, x=("float64", np.linspace(0, 1, 10)), t=("string", np.array(list("ab" * 5), object)))
    source = session(made.signature, lambda a: {"y": a["x"]})
    total = sum(rows.count(probe.arrays) for probe in probes(made, source, {}, None))
    assert total <= wanted + 41 + 16 * 3
    assert total >= min(wanted - 10, 1990)


def test_wide_tensors_are_probed_at_evenly_spaced_places():
    signature = Signature(inputs=(Field(name="x", dtype="float32", shape=("batch", 3, 40, 40)),))
    made = material(signature, {"x": np.ones((2, 3, 40, 40), np.float32)}, 100, 0)
    places = [column.index for column in made.columns]
    assert (len(places), places[0], places[-1]) == (64, 0, 4799)
    gaps = [b - a for a, b in pairwise(places)]
    assert max(gaps) - min(gaps) <= 1
