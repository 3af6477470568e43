"""Fitted results of statsmodels, as data: what predicts for a row, and nothing of what fitting left behind.

``statsmodels.json`` holds the model's class, link and labels, ``params.npz`` the coefficients. Nothing is pickled, and
no formula is evaluated: of a formula, columns that stand for themselves are kept; a term that is computed is code and
is refused. Models of time series are refused as well: they forecast from a state.

Source: https://www.statsmodels.org/stable/
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vitrify.core import arrays as npz
from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Written
from vitrify.formats import _facts
from vitrify.reading import json as bounded
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._statsmodels.predictor import Predictor

STATE, PARAMS = "statsmodels.json", "params.npz"
_START = b'{"statsmodels": 1,'
_MAX = 1 << 24


class Statsmodels:
    """The format of what predicts of fitted results."""

    def detect(self, files: Files) -> bool:
        """Say whether it is a folder with our two files."""
        return set(files.names()) >= {STATE, PARAMS} and bytes(files.map(STATE)[: len(_START)]) == _START

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return class, link, labels, columns and the number of coefficients."""
        del entry
        one = _read(files)
        found: dict[str, Any] = {
            "library": "statsmodels",
            "class": one.model,
            "parameters": int(one.params.size),
            "link": one.link,
            "tensors": [_facts.tensor("params", str(one.params.dtype), one.params.shape, one.params.nbytes)],
        }
        if one.columns is not None:
            found["inputs"] = [_facts.port(name, "float64", [None]) for name in one.columns if name]
        else:
            found["inputs"] = [_facts.port("exog", "float64", [None, one.params.shape[0]])]
        return {**found, "classes": list(one.labels)} if one.labels else found

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield nothing: it is data, checked by reading it.

        Raises:
            MalformedError: It is not what :meth:`write` writes.
        """
        del entry
        _read(files)
        return ()

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write fitted results.

        Raises:
            UnsupportedModelError: They are of a kind that cannot be kept, or hold code; everything is listed.
        """
        del example
        from vitrify.formats._statsmodels.capture import capture

        one = capture(model)
        state = {
            "statsmodels": 1,
            "model": one.model,
            "link": one.link,
            "number": one.number,
            "distribution": one.distribution,
            "labels": list(one.labels),
            "columns": None if one.columns is None else list(one.columns),
        }
        with sink.open(STATE, "weight.config") as stream:
            stream.write(json.dumps(state).encode())
        kept = {"params": one.params} | ({} if one.thresholds is None else {"thresholds": one.thresholds})
        with sink.open(PARAMS, "weight") as stream:
            npz.dump(kept, stream)
        return Written()

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Predictor:
        """Return an object with ``predict``: the coefficients, and what statsmodels does with them.

        Raises:
            MalformedError: It is not what :meth:`write` writes.
        """
        del entry, allow
        return _read(files)


def _read(files: Files) -> Predictor:
    from vitrify.formats._statsmodels.predictor import CLASSES, DISTRIBUTIONS, LINKS, Predictor

    for name in (STATE, PARAMS):
        if name not in files.names():
            refuse(name, "is not there")
    state = bounded.parse(files.read(STATE), where=STATE)
    found = npz.load(files.read(PARAMS), where=PARAMS)
    if not isinstance(state, dict):
        refuse(STATE, "is no object")
    try:
        columns, labels = state["columns"], tuple(state["labels"])
        one = Predictor(
            model=str(state["model"]),
            params=found["params"],
            link=str(state["link"]),
            number=float(state["number"]),
            thresholds=found.get("thresholds"),
            distribution=str(state["distribution"]),
            labels=labels,
            columns=None if columns is None else tuple(map(str, columns)),
        )
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{STATE}: {error!r} is not as it should be"
        raise MalformedError(msg, remedy="save the results again") from error
    known = one.model in CLASSES and one.link in LINKS and (one.distribution in DISTRIBUTIONS | {""})
    several = one.model in {"MNLogit", "OrderedModel"}
    shapes = one.params.ndim == (2 if one.model == "MNLogit" else 1) and one.params.dtype == "float64"
    counted = one.columns is None or len(one.columns) == len(one.params)
    if one.model == "MNLogit":
        counted = counted and one.params.ndim == 2 and len(labels) == one.params.shape[1] + 1  # noqa: PLR2004 (rank)
    if one.model == "OrderedModel":
        ends = one.thresholds
        counted = counted and bool(one.distribution) and ends is not None and ends.shape == (len(labels) - 1,)
    if not (known and shapes and counted and bool(labels) == several):
        refuse(STATE, "says what does not fit together: class, link, labels, columns or coefficients")
    return one
