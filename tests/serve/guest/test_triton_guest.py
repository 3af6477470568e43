"""What Triton's Python backend calls; its own module, which exists only inside of Triton, has a stand-in of its shape.

The real server was run on an export by hand: docs/how-to/deploy.md says which.
"""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
from served_models import ROWS, outputs, seal, signature, times

import vitrify
from vitrify import package
from vitrify.core.errors import CheckFailedError, UsageError
from vitrify.serve.guest.triton import TritonPythonModel, allowed
from vitrify.stores.oci_layout import OciLayout


class Tensor:
    def __init__(self, name, array):
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array


class Response:
    def __init__(self, tensors, error=None):
        self.tensors = {one.name(): one.as_numpy() for one in tensors}
        self.error = error


class Request:
    def __init__(self, arrays, wanted=("Y", "L")):
        self._arrays, self._wanted = arrays, wanted

    def inputs(self):
        return [Tensor(name, array) for name, array in self._arrays.items()]

    def requested_output_names(self):
        return set(self._wanted)

    def request_id(self):
        return ""


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    module = types.ModuleType("triton_python_backend_utils")
    module.Tensor, module.InferenceResponse, module.TritonError = Tensor, Response, str
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def repository(tmp_path):
    store = OciLayout(tmp_path / "store")

    def make(golden):
        seal(store, "times:3", times(2), signature(), ({"X": ROWS}, golden))
        folder = tmp_path / "repository"
        package.export(vitrify.open("times:3", store=store), folder, "triton", backend="python")
        return folder

    return make


def opened(folder, **parameters):
    model = TritonPythonModel()
    told = {"max_batch_size": 32, "parameters": {key: {"string_value": value} for key, value in parameters.items()}}
    model.initialize(
        {
            "model_config": json.dumps(told),
            "model_repository": str(folder / "times"),
            "model_version": "3",
            "model_name": "times",
        }
    )
    return model


def test_requests_are_answered_each_with_its_own_rows_and_outputs(repository):
    model = opened(repository(outputs(2)))
    try:
        asked = [Request({"X": ROWS[:3]}), Request({"X": ROWS[3:4]}, ("L",)), Request({"X": ROWS})]
        first, second, third = model.execute(asked)
    finally:
        model.finalize()
    for response, rows in ((first, ROWS[:3]), (third, ROWS)):
        assert response.error is None
        for name, expected in outputs(2, rows).items():
            assert np.array_equal(response.tensors[name], expected)
    assert second.tensors.keys() == {"L"}


def test_a_request_that_does_not_fit_fails_alone(repository):
    model = opened(repository(outputs(2)))
    try:
        wrong, right = model.execute([Request({"X": ROWS[:, :2]}), Request({"X": ROWS})])
    finally:
        model.finalize()
    assert "X" in wrong.error
    assert right.error is None


def test_a_name_that_the_model_does_not_have_fails_alone(repository):
    model = opened(repository(outputs(2)))
    try:
        wrong, right = model.execute([Request({"Z": ROWS}), Request({"X": ROWS})])
    finally:
        model.finalize()
    assert "Z" in wrong.error
    assert right.error is None


def test_a_model_that_no_longer_gives_its_golden_outputs_is_not_served(repository):
    with pytest.raises(CheckFailedError, match="golden"):
        opened(repository(outputs(3)))


@pytest.mark.parametrize("text", ["acme.Scale", "{}", "[1]", ""])
def test_what_allows_nothing_is_refused(text):
    with pytest.raises(UsageError, match=r"vitrify\.allow"):
        allowed({"vitrify.allow": {"string_value": text}})


def test_names_of_code_are_a_list():
    assert allowed({"vitrify.allow": {"string_value": '["acme.Scale"]'}}) == ("acme.Scale",)
    assert allowed({}) == ()
