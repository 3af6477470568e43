"""MLflow model directories: an unmodified MLflow loads ours, and its own become artifacts that predict the same."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnx
import pandas as pd
import pytest
import yaml
from onnx import TensorProto, helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import vitrify
from vitrify import package
from vitrify.core.errors import (
    CheckFailedError,
    ConflictError,
    CorruptError,
    MalformedError,
    ModelError,
    UnsupportedModelError,
    UntrustedCodeError,
    UsageError,
    VitrifyError,
)
from vitrify.package import mlflow as ours
from vitrify.package import mlflow_loader
from vitrify.package._origin import origin

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow warns of its own type hints while it is imported
    theirs = pytest.importorskip("mlflow")
    for flavour in ("onnx", "pyfunc", "sklearn", "xgboost"):
        importlib.import_module(f"mlflow.{flavour}")

FRAME = pd.DataFrame({"a": np.arange(20), "b": np.linspace(0, 1, 20)})
LABELS = np.where(FRAME["b"] > 0.5, 1, 0)


# MLflow warns of pickles, of integer columns and of much else; none of it is about us.
pytestmark = pytest.mark.filterwarnings("ignore")


def keep(flavour, model, folder, **options):
    """Let MLflow save a model; what it needs is given, because finding that out takes MLflow ten seconds."""
    getattr(theirs, flavour).save_model(model, folder, **{"pip_requirements": ["numpy"], **options})


def relu():
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def edit(folder, change):
    """Change the MLmodel file of a directory."""
    place = folder / "MLmodel"
    value = yaml.safe_load(place.read_text())
    change(value)
    place.write_text(yaml.safe_dump(value))


# Ours, opened by MLflow.


def test_mlflow_loads_an_estimator_in_its_own_flavour_and_predicts_the_same(churn, frame, tmp_path):
    package.export(churn, tmp_path / "out", "mlflow")
    model = theirs.pyfunc.load_model(str(tmp_path / "out"))
    assert model.loader_module == "mlflow.sklearn"
    assert (model.predict(frame) == churn.session().predict(frame)["label"]).all()
    assert [one.name for one in model.metadata.signature.inputs] == ["age", "income"]
    assert (model.predict(model.input_example) == churn.session().predict(frame)["label"][:5]).all()
    assert hasattr(theirs.sklearn.load_model(str(tmp_path / "out")), "coef_")


def test_mlflow_checks_a_call_against_the_signature(churn, tmp_path):
    package.export(churn, tmp_path / "out", "mlflow")
    model = theirs.pyfunc.load_model(str(tmp_path / "out"))
    with pytest.raises(theirs.exceptions.MlflowException, match="income"):
        model.predict(pd.DataFrame({"age": [1]}))


def test_what_mlflow_has_no_flavour_for_is_opened_by_our_loader(scaler, frame, tmp_path):
    package.export(scaler, tmp_path / "out", "mlflow")
    model = theirs.pyfunc.load_model(str(tmp_path / "out"))
    assert model.loader_module == "vitrify.package.mlflow_loader"
    expected = scaler.session().predict(frame.to_numpy())["transformed"]
    assert (model.predict(frame.to_numpy())["transformed"] == expected).all()


def test_an_exported_directory_says_what_it_needs(churn, tmp_path):
    package.export(churn, tmp_path / "out", "mlflow")
    needs = (tmp_path / "out" / "requirements.txt").read_text().split()
    assert "skops" in needs
    assert any(one.startswith("scikit-learn==") for one in needs)
    assert not any("+" in one for one in needs)
    conda = yaml.safe_load((tmp_path / "out" / "conda.yaml").read_text())
    assert conda["dependencies"][-1]["pip"] == needs
    assert yaml.safe_load((tmp_path / "out" / "python_env.yaml").read_text())["dependencies"] == ["-r requirements.txt"]
    metadata = theirs.models.Model.load(str(tmp_path / "out")).metadata
    assert metadata["vitrify.digest"] == str(churn.digest)


@pytest.mark.parametrize("which", ["churn", "scaler"])
def test_the_same_artifact_gives_the_same_directory(which, request, tmp_path, tree):
    artifact = request.getfixturevalue(which)
    for name in ("one", "two"):
        package.export(artifact, tmp_path / name, "mlflow")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_an_artifact_that_travelled_whole_comes_back_with_its_digest_and_name(scaler, tmp_path, store):
    package.export(scaler, tmp_path / "out", "mlflow")
    assert package.import_(tmp_path / "out").digest == scaler.digest
    assert set(store.names.all()) == {"scaler:latest"}
    assert package.import_(tmp_path / "out", "other").name == "other:latest"


def test_a_directory_that_nobody_may_write_to_is_loaded(scaler, tmp_path, tree):
    package.export(scaler, tmp_path / "out", "mlflow")
    before = tree(tmp_path / "out")
    theirs.pyfunc.load_model(str(tmp_path / "out"))
    assert tree(tmp_path / "out") == before


def test_a_changed_byte_of_the_artifact_inside_stops_the_loader(scaler, tmp_path):
    package.export(scaler, tmp_path / "out", "mlflow")
    blob = max((tmp_path / "out" / "artifact" / "blobs" / "sha256").iterdir(), key=lambda one: one.stat().st_size)
    blob.chmod(0o644)
    data = bytearray(blob.read_bytes())
    data[100] ^= 1
    blob.write_bytes(data)
    with pytest.raises(CorruptError):
        theirs.pyfunc.load_model(str(tmp_path / "out"))


def test_categories_go_through_our_loader_because_mlflow_has_no_word_for_them(tmp_path):
    frame = FRAME.assign(kind=pd.Categorical(["x", "y"] * 10))
    encoded = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=2, min_child_samples=2, verbose=-1)
    artifact = vitrify.save(encoded.fit(frame, LABELS), "categories", example=frame)
    package.export(artifact, tmp_path / "out", "mlflow")
    model = theirs.pyfunc.load_model(str(tmp_path / "out"))
    assert model.metadata.signature is None
    found = model.predict(frame)
    for name, values in artifact.session().predict(frame).items():
        assert (found[name] == values).all()


def test_a_frame_gives_a_frame_where_each_output_is_one_value_a_row():
    class Fake:
        def predict(self, data):
            return {"one": np.arange(len(data)), "two": np.zeros(len(data))}

    found = mlflow_loader.Model(Fake()).predict(FRAME[5:8])
    assert list(found.columns) == ["one", "two"]
    assert list(found.index) == [5, 6, 7]
    assert isinstance(mlflow_loader.Model(Fake()).predict(FRAME.to_numpy()), dict)


def test_code_in_an_artifact_has_to_be_allowed_by_name(side_module, tmp_path):
    module = side_module(
        "own_steps",
        """
        import numpy as np
        from sklearn.base import BaseEstimator

        class Twice(BaseEstimator):
            def fit(self, X, y=None):
                self.fitted_ = True
                return self
            def predict(self, X):
                return np.asarray(X)[:, 0] * 2
        """,
    )
    X = np.arange(6.0).reshape(3, 2)
    artifact = vitrify.save(module.Twice().fit(X), "twice", example=X)
    package.export(artifact, tmp_path / "out", "mlflow")
    with pytest.raises(UntrustedCodeError, match=r"own_steps\.Twice"):
        theirs.pyfunc.load_model(str(tmp_path / "out"))
    allowed = {"allow": ["own_steps.Twice"]}
    model = theirs.pyfunc.load_model(str(tmp_path / "out"), model_config=allowed)
    assert model.predict(X)["prediction"].tolist() == [0, 4, 8]


@pytest.mark.parametrize("config", [{"allow": "everything"}, {"other": 1}, {"runtime": 3}])
def test_the_loader_refuses_settings_that_it_does_not_know(scaler, tmp_path, config):
    package.export(scaler, tmp_path / "out", "mlflow")
    with pytest.raises(UsageError, match="model_config takes"):
        mlflow_loader._load_pyfunc(str(tmp_path / "out" / "artifact"), config)


def test_bare_weights_are_no_mlflow_model(tmp_path):
    artifact = vitrify.save({"w": np.zeros(2, np.float32)}, "bare")
    with pytest.raises(UnsupportedModelError, match="no signature"):
        package.export(artifact, tmp_path / "out", "mlflow")
    assert not (tmp_path / "out").exists()


# Theirs, taken in.


def test_an_estimator_that_mlflow_saved_predicts_the_same(tmp_path):
    model = RandomForestClassifier(5, random_state=0).fit(FRAME, LABELS)
    options = {"pip_requirements": ["scikit-learn", "x==1"], "skops_trusted_types": ["sklearn.tree._tree.Tree"]}
    keep("sklearn", model, tmp_path / "m", input_example=FRAME[:3], **options)
    artifact = package.import_(tmp_path / "m", "forest")
    assert artifact.document.format == "skops"
    assert [str(one) for one in artifact.signature.inputs] == ["a: int64[batch]", "b: float64[batch]"]
    assert artifact.document.golden == 3
    assert (artifact.session().predict(FRAME)["label"] == model.predict(FRAME)).all()
    known = origin(artifact)
    assert known["example"] == "input_example.json"
    assert known["mlflow_version"] == theirs.__version__
    assert {"scikit-learn", "x==1"} <= {*known["requirements"]}
    assert json.loads(known["signature"]["inputs"])[0]["name"] == "a"
    package.export(artifact, tmp_path / "again", "mlflow")
    assert {"scikit-learn", "x==1", "skops"} <= {*(tmp_path / "again" / "requirements.txt").read_text().split()}
    assert (theirs.pyfunc.load_model(str(tmp_path / "again")).predict(FRAME) == model.predict(FRAME)).all()


def test_a_pickled_estimator_becomes_a_safe_one(tmp_path):
    model = LogisticRegression().fit(FRAME, LABELS)
    signature = theirs.models.infer_signature(FRAME, LABELS)
    keep("sklearn", model, tmp_path / "m", serialization_format="pickle", signature=signature)
    artifact = package.import_(tmp_path / "m", "logistic")
    assert artifact.document.format == "skops"
    assert origin(artifact)["example"] == "made up from the signature"
    assert [one.dtype for one in artifact.signature.inputs] == ["int64", "float64"]
    assert (artifact.session().predict(FRAME)["label"] == model.predict(FRAME)).all()


def test_a_matrix_of_an_estimator_has_the_types_of_the_tensor_that_the_signature_describes(tmp_path):
    X = FRAME.to_numpy(np.float32)
    model = LinearRegression().fit(X, LABELS)
    signature = theirs.models.infer_signature(X, model.predict(X))
    keep("sklearn", model, tmp_path / "m", signature=signature)
    artifact = package.import_(tmp_path / "m", "matrix")
    assert [str(one) for one in artifact.signature.inputs] == ["X: float32[batch, 2]"]
    assert (artifact.session().predict(X)["prediction"] == model.predict(X)).all()


@pytest.mark.parametrize("native", [False, True])
def test_boosted_trees_that_mlflow_saved_predict_the_same(tmp_path, native):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=3).fit(FRAME, LABELS)
    saved = model.get_booster() if native else model
    signature = theirs.models.infer_signature(FRAME, LABELS)
    keep("xgboost", saved, tmp_path / "m", signature=signature, model_format="json" if native else "ubj")
    artifact = package.import_(tmp_path / "m", "trees")
    expected = theirs.pyfunc.load_model(str(tmp_path / "m")).predict(FRAME)
    found = artifact.session().predict(FRAME)
    assert (next(iter(found.values())) == expected).all()
    package.export(artifact, tmp_path / "again", "mlflow")
    again = theirs.pyfunc.load_model(str(tmp_path / "again"))
    assert again.loader_module == "mlflow.xgboost"
    assert (again.predict(FRAME) == expected).all()


def test_a_graph_that_mlflow_saved_predicts_the_same(tmp_path):
    X = np.float32([[-1, 2, 3], [4, -5, 6]])
    keep("onnx", relu(), tmp_path / "m", input_example=X)
    artifact = package.import_(tmp_path / "m", "relu")
    assert artifact.document.golden == 2
    expected = theirs.pyfunc.load_model(str(tmp_path / "m")).predict(X)["y"]
    assert (artifact.session().predict(X)["y"] == expected).all()
    package.export(artifact, tmp_path / "again", "mlflow")
    again = theirs.pyfunc.load_model(str(tmp_path / "again"))
    assert again.loader_module == "mlflow.onnx"
    assert (again.predict({"x": X})["y"] == expected).all()


def test_a_python_model_is_refused_because_it_is_code(tmp_path, store):
    class Sum(theirs.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return model_input["a"] * 2

    theirs.pyfunc.save_model(tmp_path / "m", python_model=Sum(), pip_requirements=["numpy"])
    with pytest.raises((UntrustedCodeError, CheckFailedError), match="python_model"):
        package.import_(tmp_path / "m", "python")
    assert not list(store.digests())


def test_a_model_with_code_of_its_own_is_kept_whole_when_it_is_allowed(tmp_path):
    (tmp_path / "helper.py").write_text("X = 1\n")
    keep("sklearn", LogisticRegression().fit(FRAME, LABELS), tmp_path / "m", code_paths=[tmp_path / "helper.py"])
    with pytest.raises(UntrustedCodeError) as caught:
        package.import_(tmp_path / "m", "coded")
    artifact = package.import_(tmp_path / "m", "coded", allow=caught.value.names)
    assert artifact.document.format == "mlflow-model"
    package.export(artifact, tmp_path / "again", "mlflow")
    assert (tmp_path / "again" / "code" / "helper.py").read_text() == "X = 1\n"
    assert (theirs.pyfunc.load_model(str(tmp_path / "again")).predict(FRAME) == LABELS).mean() > 0.8


def test_the_only_model_in_a_folder_is_taken(saved):
    (saved / "data").mkdir()
    (saved / "data" / "model.onnx").write_bytes(relu().SerializeToString())
    (saved / "data" / "keras_module.txt").write_text("keras")
    edit(saved, lambda value: value.update(flavors={"keras": {"data": "data"}}, signature=None))
    (saved / "input_example.json").unlink()
    assert package.import_(saved, "x").document.format == "onnx"


def test_an_example_of_ones_own_must_fit(tmp_path):
    keep("sklearn", LogisticRegression().fit(FRAME, LABELS), tmp_path / "m")
    artifact = package.import_(tmp_path / "m", "given", example=FRAME[:4])
    assert (artifact.document.golden, origin(artifact)["example"]) == (4, "given")
    with pytest.raises(ModelError):
        package.import_(tmp_path / "m", "wrong", example=FRAME[["a"]])


def test_without_any_example_the_model_is_kept_without_a_signature(tmp_path):
    keep("sklearn", LogisticRegression().fit(FRAME, LABELS), tmp_path / "m")
    artifact = package.import_(tmp_path / "m", "bare")
    assert artifact.document.signature is None
    assert "example" not in origin(artifact)


# Made to do harm.


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest") / "m"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keep("sklearn", LogisticRegression().fit(FRAME, LABELS), folder, input_example=FRAME[:3])
    return folder


@pytest.fixture
def saved(honest, tmp_path):
    """Return a copy of a directory that MLflow saved, to be spoilt."""
    shutil.copytree(honest, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    "path", ["../../secret.pkl", "/etc/passwd", "a\\b", "C:model", "absent.skops", "", None, 3, ["x"]]
)
def test_a_flavour_that_names_a_file_elsewhere_is_refused(saved, store, path):
    edit(saved, lambda value: value["flavors"]["sklearn"].update(pickled_model=path))
    with pytest.raises(MalformedError):
        package.import_(saved, "x")
    assert not list(store.digests())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "flavors: {}",
        "flavors: 3",
        "flavors: {sklearn: 3}",
        "a: &x [1]\nb: *x\nflavors: {a: {}}",
        "flavors: !!python/object/apply:os.system ['true']",
        "flavors:\n" + "".join(f"{'  ' * depth}a:\n" for depth in range(1, 400)),
    ],
)
def test_an_mlmodel_file_that_is_none_is_refused(saved, text):
    (saved / "MLmodel").write_text(text)
    with pytest.raises(MalformedError):
        package.import_(saved, "x")


@pytest.mark.parametrize(
    "inputs",
    [
        "{",
        '{"a": 1}',
        "[1]",
        '[{"type": 3, "name": "a"}]',
        '[{"type": "tensor"}]',
        '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-2, 3]}}]',
        '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": ["n"]}}]',
        "[" * 1000 + "]" * 1000,
    ],
)
def test_a_signature_that_is_none_is_refused(saved, inputs):
    edit(saved, lambda value: value["signature"].update(inputs=inputs))
    with pytest.raises(MalformedError):
        package.import_(saved, "x")


def test_a_tensor_of_enormous_size_is_not_made_up(saved):
    huge = '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 1000000000000]}}]'
    (saved / "input_example.json").unlink()
    edit(saved, lambda value: value["signature"].update(inputs=huge))
    assert package.import_(saved, "x").document.signature is None


@pytest.mark.parametrize(
    "text", ["{", '{"columns": ["a"], "data": [[1, 2]]}', '{"columns": ["a", "b"], "data": [["x", "y"]]}']
)
def test_an_input_example_that_does_not_fit_is_refused(saved, text):
    (saved / "input_example.json").write_text(text)
    with pytest.raises(MalformedError):
        package.import_(saved, "x")


def test_a_link_out_of_the_directory_is_refused(saved):
    (saved / "model.skops").unlink()
    (saved / "model.skops").symlink_to("/etc/hostname")
    with pytest.raises(CheckFailedError, match="link"):
        package.import_(saved, "x")


def test_a_pickle_with_code_does_not_run(saved, tmp_path):
    (saved / "model.pkl").write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")
    edit(saved, lambda value: value["flavors"]["sklearn"].update(pickled_model="model.pkl"))
    with pytest.raises(UntrustedCodeError, match=r"os\.system"):
        package.import_(saved, "x")
    assert not (tmp_path / "ran").exists()


def test_a_booster_that_would_crash_its_library_is_refused_before_it(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    keep("xgboost", xgboost.XGBClassifier(n_estimators=2).fit(FRAME, LABELS), tmp_path / "m", model_format="json")
    text = (tmp_path / "m" / "model.json").read_text()
    (tmp_path / "m" / "model.json").write_text(text.replace('"left_children":[1', '"left_children":[99', 1))
    with pytest.raises(CheckFailedError, match="child 99"):
        package.import_(tmp_path / "m", "x")


def test_a_loader_of_ours_that_names_a_layout_elsewhere_is_refused(scaler, tmp_path):
    package.export(scaler, tmp_path / "m", "mlflow")
    edit(tmp_path / "m", lambda value: value["flavors"]["python_function"].update(data="../m/artifact"))
    with pytest.raises(MalformedError):
        package.import_(tmp_path / "m", "x")


def test_the_name_is_checked_before_any_work(saved):
    with pytest.raises(UsageError, match="not a valid artifact name"):
        package.import_(saved, "not a name")


def test_nothing_of_mlflow_is_imported_to_read_its_directories(saved):
    program = f"""
import sys
from pathlib import Path
from vitrify.package import _mlflow_read, mlflow_loader
assert _mlflow_read.read(Path({str(saved)!r})).said()["flavours"]["sklearn"]
sys.exit("mlflow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_encrypted_artifact_is_not_written_in_the_clear(churn, tmp_path, store):
    from vitrify.artifacts.encrypt import encrypt
    from vitrify.trust.encryption.recipients import Passphrase

    package.export(churn, tmp_path / "plain", "directory")
    package.import_(tmp_path / "plain", "open")
    locked = encrypt("open", [Passphrase("correct horse battery staple")], name="locked", store=store)
    package.export(locked, tmp_path / "kept", "directory")
    assert package.import_(tmp_path / "kept").digest == locked.digest
    assert churn.files.read("model.skops") not in [
        one.read_bytes() for one in (tmp_path / "kept").rglob("*") if one.is_file()
    ]
    with pytest.raises(UsageError, match="encrypted"):
        package.export(locked, tmp_path / "out", "mlflow")


def test_the_graph_of_the_tests_is_valid():
    onnx.checker.check_model(relu())
    assert issubclass(ConflictError, VitrifyError)
    assert ours.FILE == "MLmodel"
