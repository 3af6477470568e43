"""A pickled estimator becomes data, and predicts what it did."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model, pipeline, preprocessing

import vitrify
from vitrify.core.errors import UnsupportedModelError, UntrustedCodeError


def test_a_pickled_pipeline_becomes_a_skops_file_and_needs_no_permission(x, binary):
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()).fit(x, binary)
    source = vitrify.save(model, "pickled", example=x, format="pickle")
    result = vitrify.convert(source, to="skops")
    assert result.document.format == "skops"
    assert result.document.entry["call_methods"] == source.document.entry["call_methods"]
    expected, given = source.session().predict(x), result.session().predict(x)
    np.testing.assert_array_equal(given["probability"], expected["probability"])


def test_a_class_of_the_users_travels_on_with_its_source(side_module, x, store):
    module = side_module(
        "scales",
        """
        from sklearn.base import BaseEstimator, TransformerMixin

        class Twice(TransformerMixin, BaseEstimator):
            def fit(self, X, y=None):
                self.by_ = 2.0
                return self

            def transform(self, X):
                return X * self.by_
        """,
    )
    source = vitrify.save(module.Twice().fit(x), "twice", example=x, format="pickle")
    with pytest.raises(UntrustedCodeError):
        vitrify.convert(source, to="skops")
    result = vitrify.convert(source, to="skops", allow=["scales.Twice"])
    assert result.document.code.names == ("scales.Twice",)
    assert result.document.code.modules == {"scales": "code/scales.py"}
    assert result.files.read("code/scales.py") == source.files.read("code/scales.py")


def test_what_no_skops_file_can_keep_is_listed(x):
    model = preprocessing.FunctionTransformer(np.square).fit(x)
    model.handle_, model.other_ = iter([1]), (index for index in range(2))
    from vitrify.core.document import SCHEMA, Document
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Subject
    from vitrify.transforms.convert.skops import PickleToSkops

    document = Document(schema=SCHEMA, format="pickle", runtime="estimator")
    source = Subject(files=None, document=document, golden={}, native=model)
    step = Step(transform="pickle-to-skops", source="pickle", target="skops", fidelity="exact")
    found = PickleToSkops().problems(source, step)
    assert len(found) == 2
    assert all(finding.place and finding.message and finding.remedy for finding in found)
    with pytest.raises(UnsupportedModelError):
        PickleToSkops().apply(source, step, sink=None)
