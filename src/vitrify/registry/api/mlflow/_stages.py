"""MLflow's words for stages and versions, and ours.

A version is known to MLflow by its counter: MLflow counts versions and has no other names for them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError
from vitrify.registry import requests as r

if TYPE_CHECKING:
    from vitrify.registry.values import Stage

TO_MLFLOW: dict[Stage, str] = {
    "development": "None",
    "staging": "Staging",
    "production": "Production",
    "archived": "Archived",
}
_FROM_MLFLOW: dict[str, Stage] = {theirs.lower(): ours for ours, theirs in TO_MLFLOW.items()}
_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_MODELS = re.compile(r"models:/+(?P<name>[^@]+?)(?:@(?P<alias>[^/@]+)|/(?P<which>[^/@]+))/?", re.DOTALL)


def stage_of(text: str) -> Stage:
    """Return our stage of one of MLflow's, in any case.

    Raises:
        UsageError: It is none.
    """
    if (found := _FROM_MLFLOW.get(text.lower())) is None:
        msg = f"not a stage: {text[:60]!r} (expected {', '.join(TO_MLFLOW.values())})"
        raise UsageError(msg)
    return found


def number_of(text: str) -> str:
    """Return a version's counter.

    Raises:
        UsageError: It is none.
    """
    if not _NUMBER.fullmatch(text):
        msg = f"not a version: {text[:60]!r} (MLflow counts versions: 1, 2, ...)"
        raise UsageError(msg)
    return text


def which_of(uri: str) -> r.GetVersion:
    """Return the request for what ``models:/name/1``, ``/latest``, ``/Production`` or ``models:/name@alias`` names.

    Raises:
        UsageError: It is none of these.
    """
    found = _MODELS.fullmatch(uri)
    if found is None:
        msg = f"not a registered model: {uri[:300]!r}"
        raise UsageError(msg, remedy="for example models:/churn/1 or models:/churn@champion")
    which = found["which"] or ""
    if found["alias"]:
        version = f"@{found['alias']}"
    elif which == "latest" or _NUMBER.fullmatch(which):
        version = which
    else:
        version = f"@{stage_of(which)}"
    return r.GetVersion(model=found["name"], version=version)
