"""From fitted results of statsmodels to what predicts; what cannot be kept is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._statsmodels.predictor import (
    BINARY,
    CLASSES,
    COUNTS,
    DISTRIBUTIONS,
    LINKED,
    LINKS,
    Predictor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = "statsmodels"


def capture(results: Any) -> Predictor:
    """Return what predicts.

    Raises:
        UnsupportedModelError: It is of a kind that cannot be kept, or holds code; everything is listed.
    """
    if isinstance(results, Predictor):
        return results
    model = getattr(results, "model", None)
    kind = type(model)
    if model is None or kind.__name__ not in CLASSES or kind.__module__.partition(".")[0] != _OWN:
        msg = f"results of a {kind.__module__}.{kind.__qualname__} cannot be kept as data"
        remedy = f"there are: {', '.join(sorted(CLASSES))}; what forecasts has a state, and is kept by format='pickle'"
        raise UnsupportedModelError(msg, remedy=remedy)
    problems = list(_problems(model))
    if problems:
        msg = f"{len(problems)} part(s) of this {kind.__name__} cannot be kept as data"
        raise UnsupportedModelError(msg, problems=problems)
    return _captured(results, model)


def _captured(results: Any, model: Any) -> Predictor:
    name, params = type(model).__name__, np.asarray(results.params, np.float64)
    columns = _columns(model)
    if name in LINKED:
        link = model.family.link
        number = getattr(link, "power", getattr(link, "alpha", 1.0))
        return Predictor(name, params, type(link).__name__, float(number), columns=columns)
    if name in BINARY:
        return Predictor(name, params, BINARY[name], columns=columns)
    if name in COUNTS:
        return Predictor(name, params[: model.exog.shape[1]], "Log", columns=columns)
    if name == "MNLogit":
        labels = tuple(model._ynames_map[key] for key in sorted(model._ynames_map))  # noqa: SLF001 (no public name)
        return Predictor(name, params, labels=labels, columns=columns)
    if name == "OrderedModel":
        ends = model.transform_threshold_params(params)[1:-1]
        labels = tuple(np.asarray(model.labels).tolist())
        split = len(params) - len(ends)
        distribution = model.distr.name
        return Predictor(
            name, params[:split], thresholds=ends, distribution=distribution, labels=labels, columns=columns
        )
    return Predictor(name, params, columns=columns)


def _problems(model: Any) -> Iterator[Finding]:
    if type(model).__name__ in LINKED:
        link = type(model.family.link)
        if link.__name__ not in LINKS or link.__module__.partition(".")[0] != _OWN:
            message = f"the link {link.__module__}.{link.__qualname__} is code"
            yield Finding(place="family.link", message=message, remedy=f"use one of {', '.join(sorted(LINKS))}")
    if type(model).__name__ == "OrderedModel" and model.distr.name not in DISTRIBUTIONS:
        message = f"the distribution {model.distr.name!r} of the latent variable"
        yield Finding(place="distr", message=message, remedy="use 'logit' or 'probit'")
    if hasattr(model, "formula"):
        for name, found in _factors(model):
            if found is None:
                message = f"the term {name!r} of the formula is computed: that is code"
                remedy = "compute the column before the model, and name it in the formula"
                yield Finding(place="formula", message=message, remedy=remedy)


def _factors(model: Any) -> list[tuple[str, str | None]]:
    """Return each column of the matrix and what it is taken from: a column of the table; None for all else."""
    given = set(getattr(model.data.frame, "columns", ()))
    every: list[tuple[str, str | None]] = []
    for name in model.exog_names:
        plain = name in given and name.isidentifier()
        every.append((name, "" if name in {"Intercept", "1"} else name if plain else None))
    return every


def _columns(model: Any) -> tuple[str, ...] | None:
    return tuple(str(found) for _, found in _factors(model)) if hasattr(model, "formula") else None
