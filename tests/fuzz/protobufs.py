"""Readers of Protocol Buffers: ONNX, SavedModel, GraphDef, checkpoints, Core ML."""

from __future__ import annotations

import functools

from fuzz import _formats, _look, _messages
from fuzz._run import Case

FORMATS = ("onnx", "saved-model", "graph-def", "tf-checkpoint", "coreml")
WORDS = (b"\xff" * 10, b"\x0a\0" * 8, b"\x80" * 8, b"\x0a\x02", b"\x12\x80\x80\x04")


@functools.cache
def seeds(*, quick=False):
    return _formats.samples(*FORMATS, quick=quick)


def change(case, honest, chance):
    changed = _formats.change(case, honest, chance, words=WORDS, within=_messages.changed)
    if chance.random() < 0.2:  # a part alone is a file of another kind, mostly
        name, data = chance.choice(list(changed.files.items()))
        return Case(case.kind, {name: data})
    return changed


def check(case):
    for name in FORMATS:
        _look.form(name).detect(_look.held(case))
    return _formats.check(case)
