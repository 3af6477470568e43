"""What a pickle has once and gives to many calls, or lets pandas, NumPy and SciPy make more of than it looks."""

from __future__ import annotations

import fractions
import pickle
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from crafted import Crafted, Object
from measured import calls
from pandas.core.indexes.base import _new_Index
from scipy import stats

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import audit, load
from vitrify.pickles.older import Older

RECONSTRUCT = np.zeros(1).__reduce__()[0]
RECORDS = np.dtype([("a", "O")])
LARGE = b"\x80\x04B" + (500_000).to_bytes(4, "little") + bytes(500_000) + b"\x940"
LONG = b"\x80\x04](" + b"K\x01" * 250_000 + b"e\x940"


def dumped(*reduced):
    return memoryview(pickle.dumps(Crafted(*reduced), 4))


def read(content):
    return load(content, where="x", allow=Allow(), dialect=Older())


def doubled(value, times=60):
    for _ in range(times):
        value = (value, value)
    return value


def swapped():
    kind = np.dtype(">f8")
    content = bytes(80_000)
    return [Crafted(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (10_000,), kind, False, content)) for _ in range(500)]


COPIED = {
    "lists of a list": LONG + b"cbuiltins\nlist\n\x940](" + b"h\x01h\x00\x85R" * 2000 + b"e.",
    "sets of a list": LONG + b"cbuiltins\nset\n\x940](" + b"h\x01h\x00\x85R" * 2000 + b"e.",
    "bytes of bytes": LARGE + b"cbuiltins\nbytearray\n\x940](" + b"h\x01h\x00\x85R" * 2000 + b"e.",
    "arrays of bytes": pickle.dumps(swapped(), 4),
}
PRIME = (1 << 61) - 1
"""What Python takes the hash of a number by."""

ALIKE = {
    "fractions": [fractions.Fraction(number * PRIME) for number in range(1, 3000)],
    "fractions of small numbers": [fractions.Fraction(5 * n % PRIME + PRIME, n) for n in range(2, 3000)],
    "decimals": [Decimal(number * PRIME) for number in range(1, 3000)],
    "complex numbers": [complex(-1000003 * number, number) for number in range(1, 3000)],
    "pairs": [(number * PRIME, 1) for number in range(1, 3000)],
}
PATTERNS = {
    "wide ranges": ("[\0-\U0010ffff]" * 300, re.IGNORECASE),
    "wide ranges in escapes": (r"[\0-\U0010ffff]" * 200, re.IGNORECASE),
}
MISUSED = {
    "a time zone that is a file": dumped(pd.DatetimeTZDtype, ("ns", "dateutil//etc/hostname")),
    "a type with a time zone that is a file": dumped(pd.IntervalDtype, ("datetime64[ns, dateutil//etc/hostname]",)),
    "an index in a time zone that is a file": dumped(
        _new_Index, (pd.DatetimeIndex, {"data": 1, "dtype": "datetime64[ns, dateutil//etc/hostname]"})
    ),
    "categories that double": dumped(pd.CategoricalDtype, (doubled("a"),)),
    "an index that doubles": dumped(_new_Index, (pd.Index, {"data": list(doubled("a"))})),
    "a fraction of large numbers": dumped(fractions.Fraction, ((1 << 10**6) + 1, 3**10**5)),
}
EARLY = {
    "a scalar of an empty array": dumped(np.float64(1).__reduce__()[0], (RECORDS, np.empty(0, RECORDS))),
    "an index of a categorical that points outside": dumped(
        _new_Index,
        (
            pd.Index,
            {
                "data": Object(
                    pd.Categorical, {"_dtype": pd.Categorical([1]).dtype, "_ndarray": np.array([10**8], np.int32)}
                ),
                "dtype": "O",
            },
        ),
    ),
    "dates that have no array": memoryview(pickle.dumps(Object(pd.arrays.DatetimeArray), 4)),
    "an index of dates that have no array": dumped(_new_Index, (pd.Index, {"data": Object(pd.arrays.DatetimeArray)})),
}
SCRIPT = "print('run')"
TEMPLATES = {
    "another text": {"_parse_arg_template": SCRIPT},
    "another text behind": {"_parse_arg_template": stats.norm._parse_arg_template + SCRIPT},
    "another default": {"_parse_arg_template": stats.norm._parse_arg_template.replace("loc=0", "loc=print()")},
    "pairs that become keys": (("_parse_arg_template", SCRIPT), ("moment_type", 0)),
    "a dictionary that becomes a pair": ({"_parse_arg_template": 0, SCRIPT: 1}, ["ab"]),
}


@pytest.mark.parametrize("content", COPIED.values(), ids=COPIED)
def test_what_is_copied_for_every_call_is_limited(content):
    with pytest.raises(LimitExceededError):
        read(memoryview(content))


@pytest.mark.parametrize("name", ALIKE)
def test_keys_that_share_a_hash_are_limited(name):
    assert len(set(map(hash, ALIKE[name]))) == 1
    for content in (pickle.dumps(Crafted(set, (ALIKE[name],)), 4), pickle.dumps(dict.fromkeys(ALIKE[name]), 4)):
        with pytest.raises(LimitExceededError):
            read(memoryview(content))


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_patterns_that_take_long_are_limited(pattern):
    content = dumped(re.compile, pattern)

    def refused():
        with pytest.raises(LimitExceededError):
            read(content)

    assert calls(refused) < 10 * len(content) + 10_000


@pytest.mark.parametrize("content", MISUSED.values(), ids=MISUSED)
def test_what_pandas_would_make_more_of_is_found(content):
    assert "unsafe-arguments" in {one.rule for one in audit(content, where="x").findings}


@pytest.mark.parametrize("content", EARLY.values(), ids=EARLY)
def test_what_is_used_before_the_end_is_checked_before_it_is_used(content):
    with pytest.raises(MalformedError):
        read(content)


def test_a_frame_of_an_old_pandas_with_blocks_outside_is_refused():
    manager = type(pd.DataFrame()._mgr)
    axes = [pd.RangeIndex(2), pd.RangeIndex(3)]
    for places in (slice(0, 10**6), slice(-2, 0), np.array([0, 10**9])):
        blocks = [{"values": np.zeros((2, 3)), "mgr_locs": places}]
        state = ((), (), (), {"0.14.1": {"axes": axes, "blocks": blocks}})
        with pytest.raises(MalformedError):
            read(memoryview(pickle.dumps(Object(manager, state), 4)))


@pytest.mark.parametrize("state", TEMPLATES.values(), ids=TEMPLATES)
def test_source_text_in_a_distribution_is_found_unless_scipy_wrote_it(state):
    """Other programs run it, whatever loading here does."""
    content = memoryview(pickle.dumps(Object(type(stats.norm), state), 4))
    assert "unsafe-arguments" in {one.rule for one in audit(content, where="x").findings}
    for honest in (stats.norm, stats.gamma, stats.poisson, stats.norm(2, 3)):
        assert audit(memoryview(pickle.dumps(honest, 4)), where="x").findings == ()
