"""What a worker of TorchServe calls, with the archive that was exported for it."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from dataclasses import dataclass, field

import numpy as np
import pytest
from served_models import ROWS, outputs, seal, signature, times

import vitrify
from vitrify import package
from vitrify.stores.oci_layout import OciLayout


@dataclass
class Context:
    """The parts of TorchServe's context that a handler of ours uses."""

    manifest: dict
    system_properties: dict
    statuses: dict = field(default_factory=dict)
    types: dict = field(default_factory=dict)

    def set_response_status(self, code=200, phrase="", idx=0):
        del phrase
        self.statuses[idx] = code

    def set_response_content_type(self, index, value):
        self.types[index] = value


@pytest.fixture
def worker(tmp_path):
    """Return the handler's function and its context, loaded as a worker loads them."""
    store = OciLayout(tmp_path / "store")
    seal(store, "times:3", times(2), signature(), ({"X": ROWS}, outputs(2)))
    package.export(vitrify.open("times:3", store=store), tmp_path / "models", "torchserve")
    place = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "models" / "times.mar") as archive:
        archive.extractall(place)
    manifest = json.loads((place / "MAR-INF" / "MANIFEST.json").read_text())
    spec = importlib.util.spec_from_file_location("vitrify_handler", place / manifest["model"]["handler"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = Context(manifest, {"model_dir": str(place)})
    assert module.handle(None, context) == []
    yield module.handle, context
    module.handle.__self__.close()


def asked(rows):
    return {"inputs": [{"name": "X", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}]}


def read(answer):
    return {one["name"]: np.reshape(one["data"], one["shape"]) for one in json.loads(answer)["outputs"]}


@pytest.mark.parametrize("form", [lambda value: {"body": json.dumps(value).encode()}, lambda value: {"data": value}])
def test_a_batch_is_answered_request_by_request(worker, form):
    handle, context = worker
    answers = handle([form(asked(ROWS[:2])), form(asked(ROWS[2:3]))], context)
    for answer, rows in zip(answers, (ROWS[:2], ROWS[2:3]), strict=True):
        for name, expected in outputs(2, rows).items():
            assert np.array_equal(read(answer)[name], expected)
    assert context.statuses == {0: 200, 1: 200}
    assert context.types[0].startswith("application/json")


def test_a_request_that_is_none_fails_alone(worker):
    handle, context = worker
    answers = handle([{"body": b"{"}, {"body": json.dumps(asked(ROWS)).encode()}, {}], context)
    assert context.statuses == {0: 400, 1: 200, 2: 400}
    assert json.loads(answers[0])["error"]
    assert read(answers[1])["L"].shape == (len(ROWS),)
