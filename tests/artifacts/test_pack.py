from __future__ import annotations

import joblib
import lightgbm as lgb
import numpy as np
import onnx
import pytest
import torch
import xgboost as xgb
from onnx import helper
from safetensors.numpy import save_file
from sklearn.linear_model import LinearRegression
from skops.io import dump

import vitrify
from vitrify.core.errors import UnsupportedModelError, UntrustedCodeError, UsageError
from vitrify.inspection.identify import describe

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] * 2


def graph():
    value = helper.make_tensor_value_info
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    inputs, outputs = [value("x", 1, ["n", 3])], [value("y", 1, ["n", 3])]
    made = helper.make_graph([node], "square", inputs, outputs)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def file(tmp_path):
    """Return a path whose name says nothing about the content."""
    return tmp_path / "model.bin"


def test_a_booster_file_of_xgboost_is_packed(file, tmp_path):
    booster = xgb.train({"max_depth": 2}, xgb.DMatrix(X, Y), 3)
    booster.save_model(tmp_path / "b.ubj")
    (tmp_path / "b.ubj").rename(file)
    artifact = vitrify.pack(file, "m", example=X)
    assert artifact.document.format == "xgboost"
    np.testing.assert_array_equal(artifact.session().predict(X)["prediction"], booster.predict(xgb.DMatrix(X)))


def test_a_text_file_of_lightgbm_is_packed(file):
    booster = lgb.train({"verbose": -1, "min_data": 1}, lgb.Dataset(X, Y), 3)
    booster.save_model(file)
    artifact = vitrify.pack(file, "m", example=X)
    assert artifact.document.format == "lightgbm"
    np.testing.assert_array_equal(artifact.session().predict(X)["prediction"], booster.predict(X))


@pytest.mark.slow
def test_a_file_of_skops_is_packed(file):
    model = LinearRegression().fit(X, Y)
    dump(model, file)
    artifact = vitrify.pack(file, "m", example=X)
    assert artifact.document.format == "skops"
    np.testing.assert_array_equal(artifact.session().predict(X)["prediction"], model.predict(X))


def test_an_onnx_file_needs_no_example_because_the_graph_declares_its_inputs(file):
    onnx.save(graph(), file)
    artifact = vitrify.pack(file, "m")
    assert [str(field) for field in artifact.signature.inputs] == ["x: float32[batch, 3]"]
    assert [str(field) for field in artifact.signature.outputs] == ["y: float32[batch, 3]"]
    assert artifact.document.golden == 0
    np.testing.assert_array_equal(
        artifact.session().predict({"x": np.full((2, 3), 3, np.float32)})["y"], np.full((2, 3), 9)
    )
    assert vitrify.verify("m").passed


def test_an_onnx_file_with_an_example_has_golden_samples(file):
    onnx.save(graph(), file)
    artifact = vitrify.pack(file, "m", example={"x": X.astype(np.float32)})
    assert artifact.document.golden == 60
    assert vitrify.verify("m").details["bit_equal"] is True


def test_weights_in_safetensors_are_packed_from_a_file_or_a_directory(file, tmp_path):
    save_file({"w": X}, file)
    (tmp_path / "folder").mkdir()
    save_file({"w": X}, tmp_path / "folder" / "model.safetensors")
    for path in (file, tmp_path / "folder"):
        np.testing.assert_array_equal(vitrify.pack(path, "w").model()["w"], X)


@pytest.mark.slow
def test_an_exported_program_of_torch_is_packed(tmp_path):
    module = torch.nn.Linear(3, 2).eval()
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(module, (torch.ones(4, 3),), dynamic_shapes=(batch,))
    program.example_inputs = None
    torch.export.save(program, tmp_path / "m.pt2")
    try:
        artifact = vitrify.pack(tmp_path / "m.pt2", "m", example=torch.ones(4, 3))
    except vitrify.VitrifyError as error:
        assert "pickle" in str(error)  # noqa: PT017 (torch may pickle its example inputs)
    else:
        assert artifact.document.format == "torch-export"


def test_a_pickle_is_packed_only_with_its_names_allowed(file):
    import pickle
    from fractions import Fraction

    file.write_bytes(pickle.dumps(Fraction(1, 3)))
    with pytest.raises(UntrustedCodeError):
        vitrify.pack(file, "m", example=X)


def test_a_file_describes_itself_without_running(file):
    onnx.save(graph(), file)
    assert describe(file)["operators"] == {"Mul": 1}


def test_what_nobody_knows_is_refused_by_its_content_and_not_by_its_name(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(UnsupportedModelError, match="its content is of no format that is known here"):
        vitrify.pack(tmp_path / "model.onnx", "m")
    with pytest.raises(UsageError, match="no such file"):
        vitrify.pack(tmp_path / "absent.onnx", "m")


def test_a_joblib_file_is_not_taken_for_something_else(tmp_path):
    joblib.dump(LinearRegression().fit(X, Y), tmp_path / "m.joblib", compress=3)
    with pytest.raises(UnsupportedModelError):
        vitrify.pack(tmp_path / "m.joblib", "m", example=X)
