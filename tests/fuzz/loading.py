"""Safe loading: whatever a stranger's file is, making the live model of it gives that or an error of ours.

Libraries parse much of it in compiled code, which a file that was made for it may break; so it dies here, if at all.
"""

from __future__ import annotations

import functools

from fuzz import _formats, _look
from vitrify.core.protocols import Allow

FORMATS = ("catboost", "joblib", "lightgbm", "numpy", "onnx", "pickle", "safetensors", "skops", "torch", "xgboost")
SMALL = 1 << 16


@functools.cache
def seeds(*, quick=False):
    return [case for case in _formats.samples(*FORMATS, quick=quick) if case.size < SMALL]


change = _formats.change


def check(case):
    form = _look.form(case.kind)
    return _look.ours(lambda: [form.read(_look.held(case), case.entry, Allow())]) is not None
