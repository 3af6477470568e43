"""What every REST protocol does with a call: deadlines, keys, what made an answer, and large bodies."""

from __future__ import annotations

import json
import math
import threading
import time

import numpy as np
import pytest
from rest_serving import served_by

from vitrify.core.errors import ReferenceNotFoundError, UnavailableError
from vitrify.core.signature import Field
from vitrify.serve.protocols import _asking
from vitrify.serve.values import Reply
from vitrify.serve.web import Call


@pytest.mark.parametrize(
    ("own", "header", "expected"), [(0, math.inf, math.inf), (0, 5.0, 5.0), (10**15, 5.0, 5.0), (1, math.inf, None)]
)
def test_the_earlier_deadline_counts(own, header, expected):
    before = time.monotonic()
    infer = _asking.ask(Call("POST", "/", deadline=header), "m", {}, timeout_us=own)
    if expected is None:
        assert before <= infer.deadline <= time.monotonic() + 1e-6
    else:
        assert infer.deadline == expected


def test_a_sequence_sticks_to_its_version_and_so_does_a_key():
    call = Call("POST", "/", headers={_asking.STICKY: "ann"}, client="web")
    assert _asking.ask(call, "m", {}).key == "ann"
    assert _asking.ask(call, "m", {}, key="sequence-7").key == "sequence-7"
    assert _asking.ask(call, "m", {}).client == "web"


class Told:
    """An engine that knows one version."""

    def __init__(self, served):
        self._served = served

    def served(self, name, version=""):
        if self._served is None:
            msg = f"no {name} {version}"
            raise ReferenceNotFoundError(msg)
        return self._served


def test_a_model_that_was_never_loaded_is_not_ready_rather_than_wrong():
    import dataclasses

    unloaded = dataclasses.replace(served_by(), state="UNAVAILABLE", reason="no such artifact")
    with pytest.raises(UnavailableError, match="'m' is not loaded: no such artifact"):
        _asking.askable(Told(unloaded), "m")


@pytest.mark.parametrize("gone", [True, False])
def test_outputs_are_known_though_the_version_is_gone(gone):
    told = Told(None if gone else served_by(Field(name="x", dtype="float32"), outputs=()))
    known = _asking.answered(told, Reply("m", "1", {"y": np.zeros((1, 2), np.float32)}))
    assert known["y"].datatype == "FP32"


@pytest.mark.parametrize("size", [0, _asking.LARGE, _asking.LARGE + 1])
def test_only_what_is_large_leaves_the_event_loop(rest, size):
    async def where():
        return await _asking.aside(size, threading.get_ident), threading.get_ident()

    worked, loop = rest.run(where())
    assert (worked != loop) == (size > _asking.LARGE)


def test_a_large_request_is_answered(rest):
    array = np.arange(300, dtype=np.float32).reshape(-1, 3)
    tensor = {"name": "x", "shape": list(array.shape), "datatype": "FP32", "data": array.tolist()}
    body = json.dumps({"inputs": [tensor]}) + " " * _asking.LARGE
    status, answer = rest.post("/v2/models/doubled/infer", body)
    assert status == 200
    assert np.array_equal(np.float32(answer["outputs"][0]["data"]), 2 * array.ravel())
