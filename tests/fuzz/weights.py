"""Readers of weights, trees and directories: safetensors, GGUF, boosters, PMML, PFA, Hugging Face, MLflow, orbax."""

from __future__ import annotations

import functools

from fuzz import _formats

FORMATS = (
    *("safetensors", "gguf", "xgboost", "lightgbm", "catboost", "pmml", "pfa"),
    *("hugging-face", "mlflow-model", "modelpack", "orbax"),
)
WORDS = (
    *(b"{", b"}", b"[", b"]", b'"', b": ", b"\n", b"\n  ", b"|", b"null", b"-1", b"1e999", b"<", b"/>", b"\xff"),
    *(b"99999999999999999999", b'"auto_map": {"a": "b.c"},', b"../../x", b"\0\0\0\0\0\0\0\x80", b"NaN", b"\\ud800"),
    *(b"Tree=0\n", b"{{ ", b"{% ", b"$", b"#", b"l", b"S", b"L\x7f\xff\xff\xff\xff\xff\xff\xff"),
)


@functools.cache
def seeds(*, quick=False):
    return _formats.samples(*FORMATS, quick=quick)


change = functools.partial(_formats.change, words=WORDS)
check = _formats.check
