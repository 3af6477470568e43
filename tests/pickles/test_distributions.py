"""A distribution of SciPy is made again from its parameters: the source text in its attributes is never run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.distributions import set_state
from vitrify.pickles.machine import audit, load


def forged(**changed):
    """A normal distribution whose state is changed behind its back."""
    made = stats.norm(1, 2).dist
    vars(made).update(changed)
    return memoryview(pickle.dumps(made, 4))


def read(content):
    return load(content, where="x", allow=Allow())


def test_the_text_of_its_methods_is_not_run(tmp_path):
    marker = tmp_path / "ran"
    text = f"open({str(marker)!r}, 'w').close()\n" + stats.norm._parse_arg_template
    content = forged(_parse_arg_template=text)
    assert [one.rule for one in audit(content, where="x").findings] == ["unsafe-arguments"]
    with pytest.raises(MalformedError):
        read(content)
    made = type(stats.norm).__new__(type(stats.norm))
    set_state(made, {**vars(stats.norm), "_parse_arg_template": text}, where="x")
    assert made._parse_arg_template == stats.norm._parse_arg_template
    assert not marker.exists()
    pickle.loads(content)
    assert marker.exists()  # it would have


PARAMETERS = {
    "source as its shapes": {"shapes": "a):\n  pass\nprint('ran'"},
    "a keyword as its shape": {"shapes": "lambda"},
    "a shape that is no text": {"shapes": ["a"]},
    "no name": {"name": ""},
    "a name without an end": {"name": "n" * 10_000},
    "a bound that is no number": {"a": "0"},
    "an argument of another": {"values": ([1], [1.0])},
    "what none has": {"extra": 1},
}


@pytest.mark.parametrize("changed", PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_that_no_distribution_was_made_with_are_refused(changed):
    with pytest.raises(MalformedError):
        read(forged(_ctor_param={**stats.norm._ctor_param, **changed}))


@pytest.mark.parametrize("state", [None, {}, {"_ctor_param": 3}, ({},), {"_ctor_param": {}, "_random_state": "x"}])
def test_a_state_that_is_none_is_refused(state):
    cls = type(stats.norm)
    content = f"\x80\x02c{cls.__module__}\n{cls.__name__}\n)\x81".encode("latin1")
    content += pickle.dumps(state, 2)[2:-1] + b"b."
    with pytest.raises(MalformedError):
        read(memoryview(content))


def test_the_state_of_the_first_releases_is_its_parameters_and_its_random_numbers():
    cls, source = type(stats.norm), np.random.RandomState(3)
    content = f"\x80\x02c{cls.__module__}\n{cls.__name__}\n)\x81".encode("latin1")
    content += pickle.dumps((stats.norm._ctor_param, source), 2)[2:-1] + b"b."
    assert read(memoryview(content)).rvs() == np.random.RandomState(3).normal()
