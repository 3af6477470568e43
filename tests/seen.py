"""Batches as watchers see them, for tests of what watches."""

from __future__ import annotations

import numpy as np

from vitrify.serve.values import Done, Part


def part(rows, *, client="", id_="", waited=0.0):
    return Part(id_, client, rows, waited)


def done(outputs, inputs=None, *, model="m", version="1", parts=(), seconds=0.001):
    rows = sum(one.rows for one in parts)
    inputs = {"X": np.arange(float(rows))} if inputs is None else inputs
    return Done(model, version, f"sha256:{version}", inputs, outputs, lambda: tuple(parts), seconds)
