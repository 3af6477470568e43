"""Models that do harm, for tests of the server: ``rogue_source.py``, sealed without a trial as the module ``rogue``.

And one that remembers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from served_models import seal

from vitrify.core.document import Code
from vitrify.core.signature import Field, Signature
from vitrify.serve.settings import ModelSettings

SOURCE = (Path(__file__).parent / "rogue_source.py").read_bytes()
PAIR = ("batch", 2)


def rogue_settings(name="rogue", function="predict", **more):
    """Return settings that allow what :func:`seal_rogue` has sealed."""
    return ModelSettings(reference=name, allow=(f"rogue.{function}",), **more)


def seal_rogue(store, name="rogue", function="predict", golden=({}, {})):
    """Seal one function of ``rogue.py``, which has to be allowed by its exact name."""
    inputs, outputs = (Field(name=name, dtype="float64", shape=PAIR) for name in ("x", "output"))
    return seal(
        store,
        name,
        {"callable.json": b'{"object": "rogue:%s"}' % function.encode(), "code/rogue.py": SOURCE},
        Signature(inputs=(inputs,), outputs=(outputs,), container="numpy"),
        golden,
        kind="python",
        runtime="python",
        entry={"call_style": "argument", "call_batched": True},
        code=Code(modules={"rogue": "code/rogue.py"}, names=(f"rogue.{function}",)),
    )


SUM = {
    "input": "double",
    "output": "double",
    "cells": {"n": {"type": "double", "init": 0}},
    "action": [
        {
            "if": {"<": ["input", 0]},
            "then": {"error": "less than nothing"},
            "else": {"cell": "n", "to": {"params": [{"n": "double"}], "ret": "double", "do": {"+": ["n", "input"]}}},
        }
    ],
}


def seal_sum(store, name="sum"):
    """Seal a model that adds up what it is given, from call to call."""
    fields = [Field(name=one, dtype="float64") for one in ("input", "output")]
    rows = np.ones(3)
    files = {"model.pfa": json.dumps(SUM).encode()}
    return seal(
        store,
        name,
        files,
        Signature(inputs=(fields[0],), outputs=(fields[1],), container="dict"),
        ({"input": rows}, {"output": np.cumsum(rows)}),
        kind="pfa",
        runtime="pfa",
        entry={"file": "model.pfa"},
    )
