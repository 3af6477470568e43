from __future__ import annotations

import os
import pickle
import zipfile

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
from vitrify.core.attestation import SCAN
from vitrify.core.errors import CheckFailedError, UnsupportedModelError, UntrustedCodeError, UsageError
from vitrify.formats._openvino.silent import openvino
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
    file.write_bytes(pickle.dumps({"weights": [1.0], "path": zipfile.Path}))
    with pytest.raises(UntrustedCodeError) as caught:
        vitrify.pack(file, "m")
    assert caught.value.names == ("zipfile.Path",)
    assert "reads or writes files (zipfile.Path)" in str(caught.value)
    artifact = vitrify.pack(file, "m", allow=caught.value.names)
    assert artifact.model(allow=caught.value.names)["path"] is zipfile.Path
    with pytest.raises(UntrustedCodeError):
        artifact.model()


def test_a_file_describes_itself_without_running(file):
    onnx.save(graph(), file)
    assert describe(file)["operators"] == {"Mul": 1}


def test_what_nobody_knows_is_refused_by_its_content_and_not_by_its_name(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\xff\x00 nothing of the kind")
    with pytest.raises(UnsupportedModelError, match="its content is of no format that is known here"):
        vitrify.pack(tmp_path / "model.onnx", "m")
    with pytest.raises(UsageError, match="no such file"):
        vitrify.pack(tmp_path / "absent.onnx", "m")


def test_what_is_no_model_is_sealed_only_when_its_format_is_named(file):
    file.write_text("a word about the model\n")
    with pytest.raises(UnsupportedModelError, match="is a text file, which says nothing about a model"):
        vitrify.pack(file, "m")
    assert vitrify.pack(file, "m", format="text").files.read("model.bin") == b"a word about the model\n"


@pytest.mark.parametrize("dump", [joblib.dump, lambda model, path: path.write_bytes(pickle.dumps(model))])
def test_a_pickled_model_becomes_a_safe_artifact_that_predicts_the_same(dump, tmp_path):
    model = LinearRegression().fit(X, Y)
    dump(model, tmp_path / "m.bin")
    artifact = vitrify.pack(tmp_path / "m.bin", "m", example=X)
    assert (artifact.document.format, artifact.document.code.names) == ("skops", ())
    np.testing.assert_array_equal(artifact.session().predict(X)["prediction"], model.predict(X))
    assert vitrify.verify("m").passed


def test_a_pickled_model_without_an_example_is_kept_safely_but_cannot_predict(tmp_path):
    joblib.dump(LinearRegression().fit(X, Y), tmp_path / "m.joblib", compress=3)
    artifact = vitrify.pack(tmp_path / "m.joblib", "m")
    assert artifact.document.format == "skops"
    np.testing.assert_array_equal(artifact.model().predict(X), LinearRegression().fit(X, Y).predict(X))
    with pytest.raises(UsageError, match="no signature, so it cannot predict"):
        artifact.session()


def test_a_graph_that_takes_what_numpy_has_not_says_which_input_when_it_is_asked(tmp_path):
    places = [
        helper.make_tensor_value_info(name, kind, ["n"])
        for name, kind in (("deep", onnx.TensorProto.BFLOAT16), ("y", onnx.TensorProto.FLOAT))
    ]
    cast = helper.make_node("Cast", ["deep"], ["y"], to=onnx.TensorProto.FLOAT)
    made = helper.make_graph([cast], "g", places[:1], places[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    artifact = vitrify.pack(tmp_path / "m.onnx", "m")
    with pytest.raises(UsageError, match=r"no signature, so it cannot predict; .*deep: tensor\(bfloat16\)"):
        artifact.session()


def test_a_state_dict_becomes_safetensors_and_a_checkpoint_stays_what_it_is_with_a_note(tmp_path):
    weights = {"w": torch.arange(6.0).reshape(2, 3)}
    torch.save(weights, tmp_path / "state.pt")
    artifact = vitrify.pack(tmp_path / "state.pt", "state")
    assert artifact.document.format == "safetensors"
    assert torch.equal(artifact.model()["w"], weights["w"])
    torch.save({"epoch": 3, "model": weights}, tmp_path / "checkpoint.pt")
    artifact = vitrify.pack(tmp_path / "checkpoint.pt", "checkpoint")
    assert artifact.document.format == "torch"
    assert "sealed as it is" in artifact.document.notes[0]
    assert torch.equal(artifact.model()["model"]["w"], weights["w"])


def test_a_file_that_is_only_looked_at_is_sealed_byte_for_byte_with_its_scan(file):
    file.write_bytes(gguf_file())
    artifact = vitrify.pack(file, "m")
    assert (artifact.document.format, artifact.document.runtime, artifact.document.golden) == ("gguf", None, 0)
    assert artifact.files.read("model.bin") == gguf_file()
    (found,) = [item for item in artifact.attestations if item.predicate_type == SCAN]
    assert found.predicate["verdict"] == "clean"
    assert vitrify.verify("m").passed


def gguf_file():
    """A file of GGUF without tensors and metadata."""
    return b"GGUF" + (3).to_bytes(4, "little") + bytes(16) + bytes(8)


def test_a_hostile_file_is_not_packed_whatever_is_allowed(file):
    file.write_bytes(gguf_file() + pickle.dumps(os.system))
    with pytest.raises((CheckFailedError, UntrustedCodeError), match="because of what its scan found"):
        vitrify.pack(file, "m", allow=["os.system"])


def test_a_name_that_cannot_be_is_refused_before_the_file_is_looked_at(tmp_path):
    with pytest.raises(UsageError, match="not a valid artifact name"):
        vitrify.pack(tmp_path / "absent", "a--b")


def test_another_format_is_for_pickles_and_refused_for_what_is_kept_as_it_is(file):
    onnx.save(graph(), file)
    with pytest.raises(UsageError, match="is of the format onnx and is kept in it") as caught:
        vitrify.pack(file, "m", to="skops")
    assert "vitrify convert NAME --to skops" in caught.value.remedy


@pytest.mark.parametrize(("example", "why"), [(None, "arrays, not how to predict"), (X, "arrays, not how to predict")])
def test_the_note_says_why_there_is_no_signature_with_and_without_an_example(file, example, why):
    save_file({"w": X}, file)
    (note,) = vitrify.pack(file, "w", example=example).document.notes
    assert why in note


def test_a_file_that_is_changed_after_its_scan_is_not_packed(file, monkeypatch):
    """A file that grows, or is written over, is another one than was scanned; what lies in the store is scanned."""
    from vitrify.artifacts import pack as packing

    look = packing.scan_files
    file.write_bytes(b"{{ messages }}")

    def scan_then_change(files, **options):
        report = look(files, **options)
        with file.open("r+b") as stream:
            stream.write(b"{{ x.__mro__}}")
        return report

    monkeypatch.setattr(packing, "scan_files", scan_then_change)
    with pytest.raises(CheckFailedError, match="changed while"):
        vitrify.pack(file, "m")


def beside(folder, name):
    """Write an ONNX model and an OpenVINO one whose weights lie beside them, and return what they multiply by."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    value = helper.make_tensor_value_info
    node, held = helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.numpy_helper.from_array(weights, "w")
    made = helper.make_graph([node], "g", [value("x", 1, ["n", 3])], [value("y", 1, ["n", 4])], [held])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    openvino.save_model(
        openvino.Core().read_model(model.SerializeToString()), folder / f"{name}.xml", compress_to_fp16=False
    )
    folders = {"save_as_external_data": True, "location": f"data/{name}.w", "size_threshold": 0}
    (folder / "data").mkdir()
    onnx.save(model, folder / f"{name}.onnx", **folders)
    return weights


@pytest.mark.parametrize("ending", ["onnx", "xml"])
def test_a_graph_named_alone_brings_the_weights_beside_it(ending, tmp_path):
    weights = beside(tmp_path, "mödel 1")
    artifact = vitrify.pack(tmp_path / f"mödel 1.{ending}", "m")
    (given,) = artifact.session().predict({"x": X.astype(np.float32)}).values()
    np.testing.assert_allclose(given, X.astype(np.float32) @ weights, rtol=1e-5)


def test_weights_behind_a_link_are_not_followed(tmp_path):
    beside(tmp_path, "m")
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedCodeError, match="behind a link"):
        vitrify.pack(tmp_path / "m.onnx", "m")


def test_weights_that_are_gone_are_told_of(tmp_path):
    beside(tmp_path, "m")
    (tmp_path / "data" / "m.w").unlink()
    notes = " ".join(vitrify.pack(tmp_path / "m.onnx", "m").document.notes)
    assert "data/m.w" in notes
    assert "not checked" in notes
