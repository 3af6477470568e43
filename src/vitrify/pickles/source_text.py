"""The source text that SciPy keeps in the state of a distribution, and runs when it takes that state.

Loading here does not take it (:mod:`vitrify.pickles.distributions`); but other programs do, so a file is only clean
where the text is the one that SciPy writes, with nothing but names of parameters put in.
Source: ``rv_generic.__setstate__`` and ``parse_arg_template`` in ``scipy/stats/_distn_infrastructure.py``.
"""

from __future__ import annotations

import re
from typing import Any

from vitrify.pickles.inert import Dict, text

_KEY = "_parse_arg_template"
_PARAMETERS = frozenset(
    {
        *("a", "b", "badvalue", "extradoc", "inc", "longname", "moment_tol", "momtype", "name", "seed", "shapes"),
        *("values", "xtol"),
    }
)
_TEXT = re.compile(
    r"\ndef _parse_args\(self, (?P<shapes>(?:[A-Za-z_][A-Za-z_0-9]*, )*) (?P<given>loc=0(?:, scale=1)?)\):"
    r"\n    return \((?P=shapes)\), (?P<taken>loc, (?:scale|1))\n"
    r"\ndef _parse_args_rvs\(self, (?P=shapes) (?P=given), size=None\):"
    r"\n    return self\._argcheck_rvs\((?P=shapes) (?P=taken), size=size\)\n"
    r"\ndef _parse_args_stats\(self, (?P=shapes) (?P=given), moments='mv'\):"
    r"\n    return \((?P=shapes)\), (?P=taken), moments\n"
)


def fits(state: Any) -> bool:
    """Say whether an inert state holds no source text, or SciPy's own.

    Before 1.6 a state was a pair of parameters and random numbers. As ``dict.update`` takes pairs for keys and
    values, such a pair must be what it says.
    """
    if isinstance(state, Dict):
        written = [value for key, value in state.pairs if text(key) == _KEY]
        return all(_TEXT.fullmatch(text(value) or "") for value in written)
    if type(state) is tuple:
        parameters = state[0] if state else None
        return isinstance(parameters, Dict) and all(
            type(key) is str and key in _PARAMETERS for key in parameters.flat[::2]
        )
    return state is None
