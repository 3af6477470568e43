"""Readers of arrays: ``.npy``, ``.npz``, joblib, compressed streams, pickles of older releases. They are loaded too."""

from __future__ import annotations

import functools
from pathlib import Path

from fuzz import _formats, _look
from fuzz._run import Case
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import load
from vitrify.pickles.older import Older

FORMATS = ("numpy", "joblib", "compressed")
OLD = Path(__file__).parents[1] / "pickles" / "old"
OLDER = "older"


@functools.cache
def seeds(*, quick=False):
    old = [Case(OLDER, {path.name: path.read_bytes()}) for path in sorted(OLD.glob("*/*.pkl"))]
    return _formats.samples(*FORMATS, quick=quick) + old


change = _formats.change


def check(case):
    if case.kind == OLDER:
        [data] = case.files.values()
        return _look.ours(lambda: [load(memoryview(data), where="x", allow=Allow(), dialect=Older())]) is not None
    form = _look.form(case.kind)
    known = _look.ask(form, case)
    if hasattr(form, "read"):
        return _look.ours(lambda: [form.read(_look.held(case), case.entry, Allow())]) is not None
    return known
