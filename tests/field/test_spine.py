"""Cases after public bug reports; each test is the case and the kind that it stands for."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import vitrify
from vitrify.core.errors import CheckFailedError, StoreError, UnsupportedModelError


def both(source, result, data):
    return source.session().predict(data), result.session().predict(data)


@pytest.mark.parametrize("missing", [-999.0, 0.0, 1e10])
def test_f05_a_missing_value_of_ones_own_is_kept_natively_and_proven_in_onnx(missing, rng, proven):
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int)
    X[rng.random(X.shape) < 0.2] = missing
    model = xgb.XGBClassifier(missing=missing, n_estimators=10).fit(X, y)
    source, result, _ = proven(model, X)
    assert source.model().missing == missing
    with_both = np.vstack([X, np.where(missing == X, np.nan, X)])
    native, converted = both(source, result, with_both)
    np.testing.assert_array_equal(native["probability"], model.predict_proba(with_both))
    np.testing.assert_allclose(converted["probability"], native["probability"], atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("base_score", [0.1, 0.5, None])
def test_f07_the_base_score_is_in_every_prediction(classes, base_score, rng, proven):
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, classes, 300)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = xgb.XGBClassifier(n_estimators=8, base_score=base_score).fit(X, y)
    source, result, _ = proven(model, X)
    native, converted = both(source, result, X)
    np.testing.assert_allclose(converted["probability"], native["probability"], atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_f08_what_float32_cannot_hold_is_rejected_and_the_sources_precision_is_taken_and_noted(rng, proven):
    X = rng.uniform(0, 100, size=(300, 3))
    model = GaussianProcessRegressor(alpha=1e-6).fit(X, X[:, 0])
    source, result, _ = proven(model, X, precision="float32")
    assert any("float32 was asked for and did not hold" in note for note in result.document.notes)
    native, converted = both(source, result, X)
    np.testing.assert_allclose(converted["prediction"], native["prediction"], atol=1e-6)


def test_f08_without_a_remedy_there_is_an_error_and_no_artifact(rng, store):
    class Always:
        def run(self, subject, reference):
            del subject, reference
            return vitrify.Report(check="parity", verdict="found")

    X = rng.normal(size=(50, 2))
    vitrify.save(LinearRegression().fit(X, X[:, 0]), "source", example=X)
    with pytest.raises(CheckFailedError, match="does not predict what its source predicts"):
        vitrify.convert("source", precision="float32", checks=[Always()])
    assert list(store.names.all()) == ["source:latest"]


@pytest.mark.parametrize(
    "model", [RandomForestRegressor(20, random_state=0), GradientBoostingRegressor(random_state=0)]
)
def test_f11_an_absolute_error_that_is_small_for_its_scale_is_no_alarm(model, rng, proven):
    X = rng.normal(size=(300, 4)) * 1000
    y = 1e6 + 1e5 * (X[:, 0] > 0) + rng.normal(size=300) * 1e4
    source, result, report = proven(model.fit(X, y), X)
    assert report["verdict"] == "clean"
    native, converted = both(source, result, X)
    np.testing.assert_allclose(converted["prediction"], native["prediction"], rtol=1e-6)


def test_f17_every_step_that_cannot_go_is_listed_at_once_before_any_work(rng, store, side_module):
    module = side_module(
        "side_wave",
        """
        import numpy as np

        def wave(X):
            return np.sin(np.asarray(X)) + np.fft.fft(np.asarray(X), axis=1).real

        def ripple(X):
            return np.cos(np.asarray(X)) + np.fft.fft(np.asarray(X), axis=1).real
        """,
    )
    X = np.abs(rng.normal(size=(60, 3)))
    steps = FunctionTransformer(module.wave), StandardScaler(), FunctionTransformer(module.ripple), LinearRegression()
    vitrify.save(make_pipeline(*steps).fit(X, X[:, 0]), "source", example=X)
    with pytest.raises(UnsupportedModelError) as caught:
        vitrify.convert("source", allow=["side_wave.wave", "side_wave.ripple"])
    places = " ".join(problem.place for problem in caught.value.problems)
    assert len(caught.value.problems) == 2
    assert "[0]" in places
    assert "[2]" in places
    assert list(store.names.all()) == ["source:latest"]


def test_f17_a_transformed_target_is_converted_right_or_refused(rng, proven):
    X = np.abs(rng.normal(size=(60, 3))) + 1
    model = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp).fit(X, X[:, 0])
    try:
        source, result, _ = proven(model, X)
    except UnsupportedModelError as error:
        assert "TransformedTargetRegressor" in str(error)  # noqa: PT017 (either answer is right)
    else:
        native, converted = both(source, result, X)
        np.testing.assert_allclose(converted["prediction"], native["prediction"], rtol=1e-9)


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [False, True], [3, 7], ["ä", "b", "c"]], ids=["text", "bool", "int", "three"]
)
def test_f18_labels_keep_their_type_and_probabilities_are_a_plain_tensor_with_ordered_classes(labels, rng, proven):
    X = rng.normal(size=(90, 3))
    y = np.array(labels)[np.argsort(np.argsort(X[:, 0])) * len(labels) // 90]
    source, result, _ = proven(LogisticRegression().fit(X, y), X)
    native, converted = both(source, result, X)
    assert converted["label"].tolist() == native["label"].tolist()
    assert converted["label"].dtype == native["label"].dtype
    assert converted["probability"].shape == (90, len(labels))
    for artifact in (source, result):
        assert artifact.signature.output("probability").classes == tuple(sorted(labels))


def test_f19_zero_rows_in_give_zero_rows_out_on_every_runtime(rng, proven):
    X = rng.normal(size=(90, 3))
    source, result, _ = proven(RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0), X)
    native, converted = both(source, result, X[:0])
    for name, array in native.items():
        assert array.shape[0] == 0
        assert (array.shape, array.dtype) == (converted[name].shape, converted[name].dtype)
    assert native["probability"].shape == (0, 2)


def test_f20_integers_may_be_missing_later_and_no_column_is_lost(rng):
    frame = pd.DataFrame({2: rng.integers(0, 9, 50), 0: rng.integers(0, 9, 50), 1: rng.integers(0, 9, 50)})
    model = make_pipeline(SimpleImputer(), LinearRegression()).fit(frame, frame[2])
    session = vitrify.save(model, "m", example=frame).session()
    assert [field.name for field in session.signature.inputs] == ["2", "0", "1"]
    holes = frame.astype(float)
    holes.loc[3, 0] = np.nan
    expected = model.predict(holes)
    np.testing.assert_array_equal(session.predict(holes)["prediction"], expected)
    np.testing.assert_array_equal(session.predict(holes[[0, 1, 2]].astype("Int64"))["prediction"], expected)


def test_f20_a_nullable_column_in_the_example_stays_nullable(rng, proven):
    frame = pd.DataFrame({"a": pd.array(rng.integers(0, 9, 50), "Int64"), "b": rng.normal(size=50)})
    frame.loc[[1, 5], "a"] = pd.NA
    model = make_pipeline(
        ColumnTransformer([("numbers", SimpleImputer(), ["a", "b"])]), RandomForestRegressor(5, random_state=0)
    ).fit(frame, frame["b"])
    source, result, _ = proven(model, frame)
    assert source.signature.input("a").nullable
    native, converted = both(source, result, frame)
    np.testing.assert_array_equal(native["prediction"], model.predict(frame))
    np.testing.assert_array_equal(converted["prediction"], native["prediction"])


def test_f21_a_transformer_of_a_side_module_loads_where_that_module_is_not(rng, side_module, tmp_path):
    module = side_module(
        "side_shift",
        """
        from sklearn.base import BaseEstimator, TransformerMixin

        class Shift(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                self.by_ = X.mean(axis=0)
                return self

            def transform(self, X):
                return X - self.by_
        """,
    )
    X = rng.normal(size=(50, 2))
    vitrify.save(make_pipeline(module.Shift(), LinearRegression()).fit(X, X[:, 0]), "m", example=X)
    script = (
        "import numpy, vitrify; s = vitrify.load('m', allow=['side_shift.Shift']); print(s.predict(numpy.ones((1, 2))))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_f21_a_transformer_of_the_main_script_is_refused_at_save_time(tmp_path):
    (tmp_path / "train.py").write_text(
        "import numpy as np, vitrify\n"
        "from sklearn.base import BaseEstimator, TransformerMixin\n"
        "class Shift(TransformerMixin, BaseEstimator):\n"
        "    def fit(self, X, y=None):\n"
        "        self.fitted_ = True\n"
        "        return self\n"
        "    def transform(self, X):\n"
        "        return X\n"
        "vitrify.save(Shift().fit(np.ones((3, 2))), 'm', example=np.ones((3, 2)))\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "train.py"], capture_output=True, text=True, check=False)
    assert "UnsupportedModelError" in done.stderr
    assert "__main__.Shift: is defined in the main script or notebook (move it to a module of its own)" in done.stderr


def test_f24_a_module_in_training_mode_is_exported_in_eval_mode_and_says_so(rng):
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    module = torch.nn.Sequential(*layers).train()
    X = torch.tensor(rng.normal(size=(6, 4)), dtype=torch.float32)
    artifact = vitrify.save(module, "m", example=X)
    assert module.training
    assert any("eval" in note for note in artifact.document.notes)
    session = artifact.session()
    once, again = session.predict(X)["output"], session.predict(X)["output"]
    np.testing.assert_array_equal(once, again)
    module.eval()
    np.testing.assert_allclose(once, module(X).detach().numpy(), rtol=1e-6)


def test_f25_a_full_disk_while_saving_over_a_name_leaves_the_old_artifact(rng, store):
    X = rng.normal(size=(200, 5))
    small = vitrify.save(LinearRegression().fit(X, X[:, 0]), "m", example=X)
    large = RandomForestRegressor(60, random_state=0).fit(X, X[:, 0])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(StoreError):
            vitrify.save(large, "m", example=X)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert vitrify.open("m").digest == small.digest
    assert vitrify.verify("m").passed
    assert set(store.names.all()) == {"m:latest"}


def test_f27_strided_transposed_and_tied_tensors_come_back_equal():
    a = np.arange(10.0)
    matrix = np.arange(6.0).reshape(2, 3)
    arrays = {"strided": a[::2], "reversed": a[::-1], "transposed": matrix.T, "fortran": np.asfortranarray(matrix)}
    loaded = vitrify.save(arrays, "arrays").model()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
    weight = torch.randn(3, 4)
    tied = vitrify.save({"embed": weight, "head": weight, "view": weight.T, "empty": weight[:0]}, "tied").model()
    assert tied["embed"].data_ptr() == tied["head"].data_ptr()
    assert torch.equal(tied["view"], weight.T)
    assert tied["empty"].shape == (0, 4)
