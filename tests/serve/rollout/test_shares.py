"""Which version a request falls to; the native plane says the same."""

from __future__ import annotations

import http.client
import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.serve.planes._library import missing
from vitrify.serve.rollout.shares import Shares, among, position, with_canary
from vitrify.testing.lane_models import LIMIT, spec, twice

WEIGHTS = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=8).filter(lambda some: sum(some) > 0)


def test_the_hash_is_fnv1a():
    # Published vectors of FNV-1a with 64 bits: "" and "a".
    assert position("") == (0xCBF29CE484222325 >> 11) / 2**53
    assert position("a") == (0xAF63DC4C8601EC8C >> 11) / 2**53


@given(st.text())
def test_every_key_has_one_position_from_0_to_below_1(key):
    assert 0 <= position(key) < 1
    assert position(key) == position(key)


def test_weights_are_shares_in_their_order_and_need_not_add_up_to_one():
    shares = Shares((("1", 3.0), ("2", 0.0), ("3", 1.0)))
    assert [shares.at(where) for where in (0.0, 0.7499, 0.75, 0.9999)] == ["1", "1", "3", "3"]
    assert shares.fractions() == {"1": 0.75, "3": 0.25}


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_every_position_has_a_version_with_a_weight(weights, where):
    named = tuple((str(at), weight) for at, weight in enumerate(weights))
    assert dict(named)[Shares(named).at(where)] > 0
    assert sum(Shares(named).fractions().values()) == pytest.approx(1)


def test_keys_spread_as_the_weights_say():
    shares = Shares((("1", 0.9), ("2", 0.1)))
    counts = Counter(shares.at(position(f"user-{number}")) for number in range(10_000))
    assert 800 < counts["2"] < 1200


def test_the_shares_of_those_that_do_not_answer_go_to_the_rest():
    weights = {"1": 0.5, "2": 0.3, "3": 0.2, "4": 0.0}
    assert among(weights, ["2", "3", "4"]) == (("2", 0.3), ("3", 0.2))
    assert among(weights, ["4"]) == ()
    assert among({}, ["1"]) == ()


@given(st.floats(0.001, 1), WEIGHTS)
def test_a_canary_has_its_fraction_and_the_others_keep_their_proportions(fraction, weights):
    old = {str(at): weight for at, weight in enumerate(weights)}
    shared = with_canary({**old, "new": 7.0}, "new", fraction)
    assert shared["new"] == fraction
    total = sum(old.values())
    for version, weight in old.items():
        assert shared.get(version, 0.0) == pytest.approx(weight / total * (1 - fraction))


def test_a_canary_without_others_has_all():
    assert Shares(tuple(with_canary({}, "new", 0.01).items())).fractions() == {"new": 1.0}


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_both_planes_choose_the_same_version_for_thousands_of_keys():
    from native_serving import INFER, served

    weights = (("1", 0.1), ("2", 0.2), ("3", 0.30000000000000004), ("4", 1 / 3))
    shares = Shares(weights)
    draw = random.Random(7)
    keys = [f"{draw.getrandbits(64):x}" for _ in range(2000)] + [f"user-{number}" for number in range(500)]
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})
    with served() as serving:
        lanes = [serving.plane.lane(replace(spec(), version=version), twice, None) for version, _ in weights]
        serving.plane.weigh("glass", weights)
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=LIMIT)
        for key in keys:
            connection.request("POST", INFER, body, {"x-vitrify-key": key})
            assert json.loads(connection.getresponse().read())["model_version"] == shares.at(position(key)), key
        connection.close()
        for lane in lanes:
            lane.close(LIMIT)
