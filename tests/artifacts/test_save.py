from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

import vitrify
from vitrify.core.attestation import SLSA, TRIAL
from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import (
    CheckFailedError,
    ModelError,
    SignatureError,
    StoreError,
    UnsupportedModelError,
    UsageError,
)
from vitrify.stores.oci_layout import OciLayout

pytestmark = pytest.mark.cold
CLIPPER = """
    import numpy as np
    from sklearn.base import BaseEstimator, TransformerMixin

    class Clipper(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.high_ = np.max(np.asarray(X), axis=0)
            return self

        def transform(self, X):
            return np.minimum(np.asarray(X), self.high_)
"""


def test_a_saved_model_holds_its_document_its_golden_samples_and_its_own_file(model, table):
    artifact = vitrify.save(model, "m", example=table)
    assert set(artifact.manifest.files) == {DOCUMENT, GOLDEN, "model.skops"}
    document = artifact.document
    assert (document.format, document.runtime, document.golden) == ("skops", "estimator", 40)
    assert [str(field) for field in artifact.signature.inputs] == ["age: int64[batch]", "income: float64[batch]"]
    assert artifact.signature.output("label").classes == ("no", "yes")


def test_the_same_model_saved_twice_has_the_same_digest_wherever_it_is_saved(model, table, tmp_path):
    first = vitrify.save(model, "one", example=table)
    second = vitrify.save(model, "two:9", example=table, store=OciLayout(tmp_path / "elsewhere"))
    assert first.digest == second.digest


def test_the_environment_is_what_the_clean_process_imported(model, table):
    distributions = vitrify.save(model, "m", example=table).document.environment.distributions
    assert {"scikit-learn", "numpy", "pandas"} <= set(distributions)
    assert not {"torch", "pytest", "vitrify"} & set(distributions)


def test_the_trial_and_the_provenance_are_attested(model, table):
    evidence = {item.predicate_type: item.predicate for item in vitrify.save(model, "m", example=table).attestations}
    assert evidence[TRIAL]["verdict"] == "clean"
    assert evidence[TRIAL]["details"] == {"bit_equal": True}
    assert {"finishedOn", "vitrify_who"} <= set(evidence[SLSA]["runDetails"]["metadata"])


def test_saving_over_a_name_moves_it_and_keeps_the_old_artifact_under_its_digest(model, table):
    first = vitrify.save(model, "m", example=table)
    second = vitrify.save(make_pipeline(LogisticRegression()).fit(table, table["age"] > 50), "m", example=table)
    assert vitrify.open("m").digest == second.digest != first.digest
    assert vitrify.open(str(first.digest)).digest == first.digest


def test_a_class_of_a_side_module_travels_with_the_model(side_module, table):
    cls = side_module("side_clip", CLIPPER).Clipper
    pipeline = make_pipeline(cls(), LinearRegression()).fit(table, table["age"])
    artifact = vitrify.save(pipeline, "m", example=table)
    assert artifact.document.code.names == ("side_clip.Clipper",)
    assert "code/side_clip.py" in artifact.manifest.files


def test_a_class_that_no_production_machine_could_import_is_refused_at_save_time(table, store):
    cls = type("Local", (LinearRegression,), {"__module__": "__main__"})
    model = cls().fit(table, table["age"])
    with pytest.raises(UnsupportedModelError, match="Local"):
        vitrify.save(model, "m", example=table)
    assert store.names.all() == {}


def test_a_module_that_cannot_find_its_data_in_a_clean_process_is_refused_and_nothing_is_saved(
    side_module, table, store, monkeypatch, tmp_path
):
    (tmp_path / "here.txt").write_text("2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIAL_SECRET", "set in this process")
    module = side_module(
        "side_cwd",
        """
        import sys

        def twice(X):
            if not sys.flags.isolated:
                return X * 2
            raise RuntimeError("this is production")
        """,
    )
    with pytest.raises(CheckFailedError, match="this is production"):
        vitrify.save(module.twice, "m", example=np.ones((2, 2)))
    assert store.names.all() == {}


def test_a_model_that_predicts_otherwise_in_a_clean_process_is_refused(side_module, store):
    module = side_module(
        "side_state",
        """
        import sys

        def predict(X):
            return X + (not sys.flags.isolated)
        """,
    )
    with pytest.raises(CheckFailedError, match="predicts otherwise") as caught:
        vitrify.save(module.predict, "m", example=np.ones((2, 2)))
    assert caught.value.report.verdict == "found"
    assert store.names.all() == {}


def test_a_model_that_predicts_needs_an_example(model):
    with pytest.raises(UsageError, match="an example is needed"):
        vitrify.save(model, "m")


def test_an_empty_example_is_refused(model, table):
    with pytest.raises(SignatureError):
        vitrify.save(model, "m", example=table[:0])


def test_an_example_that_the_model_rejects_is_the_models_error(model, table):
    with pytest.raises(ModelError):
        vitrify.save(model, "m", example=table.rename(columns={"age": "other"}))


def test_a_model_that_was_never_fitted_is_refused(table):
    with pytest.raises(ModelError, match="never fitted") as caught:
        vitrify.save(LogisticRegression(), "m", example=table)
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["", "a b", "../x", "a:", "UPPER", "a" * 300, "a:b:c", "a//b", "ä"])
def test_a_name_is_kept_or_refused_before_any_work(name, model, table):
    if name in {"", "UPPER", "a:"}:
        assert vitrify.save(model, name or None, example=table).digest
    else:
        with pytest.raises(UsageError, match="not a valid artifact name"):
            vitrify.save(model, name, example=table)


def test_an_object_that_no_format_takes_is_refused_with_the_way_out():
    with pytest.raises(UnsupportedModelError, match="no format takes") as caught:
        vitrify.save(object(), "m", example=np.ones(1))
    assert "pickle" in caught.value.remedy


def test_a_store_that_cannot_be_written_to_is_a_store_error(model, table, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError):
        vitrify.save(model, "m", example=table, store=OciLayout(tmp_path / "file"))


def test_pickle_is_used_only_when_asked_for_and_is_marked_as_code(side_module):
    module = side_module(
        "side_object",
        """
        class Adder:
            def __init__(self, amount):
                self.amount = amount

            def predict(self, X):
                return X + self.amount
        """,
    )
    model = module.Adder(3)
    with pytest.raises(UnsupportedModelError):
        vitrify.save(model, "m", example=np.ones((2, 2)))
    artifact = vitrify.save(model, "m", example=np.ones((2, 2)), format="pickle")
    assert artifact.document.code.names == ("side_object.Adder",)
    assert artifact.document.entry["code"] is True


def test_a_function_that_is_an_object_of_its_librarys_own_is_kept_by_name():
    artifact = vitrify.save(np.linalg.norm, "m", example=np.ones((2, 2)))
    assert artifact.document.entry["object"] == "numpy.linalg:norm"


def test_bare_weights_need_no_example_and_have_no_signature():
    artifact = vitrify.save({"w": np.arange(6.0).reshape(2, 3).T}, "w")
    assert artifact.document.signature is None
    np.testing.assert_array_equal(artifact.model()["w"], np.arange(6.0).reshape(2, 3).T)
