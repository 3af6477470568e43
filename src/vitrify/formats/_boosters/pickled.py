"""Boosters inside pickles: the native model in an object's state, checked before its library parses it.

``CHECKS`` is what a dialect of the pickle machine has as ``checks``
(:class:`vitrify.pickles.dialect.Dialect`): a function for each class that holds native models.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_MAX_DEPTH = 4


def _xgboost(state: Any) -> None:
    from vitrify.formats._boosters import ubjson, xgboost_model

    where = "a pickled xgboost.core.Booster"
    handle = _state(state, where).get("handle")
    if not isinstance(handle, bytearray):
        refuse(where, "no model in it")
    raw = ubjson.parse(memoryview(handle), where=where)
    if not isinstance(raw, dict) or raw.keys() != {"Model", "Config"}:
        refuse(where, "not what XGBoost keeps in a pickle (expected: Model and Config)")
    xgboost_model.check(raw["Model"], where=where)


def _lightgbm(state: Any) -> None:
    from vitrify.formats._boosters import lightgbm_model

    where = "a pickled lightgbm.basic.Booster"
    held = _state(state, where)
    model = held.get("_handle", held.get("handle"))
    if not isinstance(model, str):
        refuse(where, "no model in it")
    lightgbm_model.parse(model.encode(), where=where)


def _catboost(state: Any) -> None:
    from vitrify.formats._boosters import catboost_model

    where = "a pickled model of CatBoost"
    held = _state(state, where)
    model = held.get("__model")
    if model is not None:
        if not isinstance(model, bytes):
            refuse(where, "no model in it")
        catboost_model.parse(memoryview(model), where=where)
    if not all(_numbers(held.get(name, [])) for name in ("_test_eval", "_test_evals")):
        refuse(where, "evaluations that are no numbers")


def _numbers(value: Any, depth: int = 0) -> bool:
    """Whether a value is a number, or lists of numbers: by set, by output, by row."""
    if isinstance(value, list | tuple):
        return depth < _MAX_DEPTH and all(_numbers(part, depth + 1) for part in value)
    return isinstance(value, int | float)


def _state(state: Any, where: str) -> dict[Any, Any]:
    if not isinstance(state, dict):
        refuse(where, "a state that is no dictionary")
    return state


CHECKS: Mapping[str, Callable[[Any], None]] = MappingProxyType(
    {
        "xgboost.core.Booster": _xgboost,
        "lightgbm.basic.Booster": _lightgbm,
        "catboost.core._CatBoostBase": _catboost,
    }
)
