"""scikit-learn to ONNX: pipelines, column transformers and estimators, in scikit-learn's own arithmetic."""

from __future__ import annotations

from vitrify.transforms.convert._building.estimator import EstimatorToOnnx


class SklearnToOnnx(EstimatorToOnnx):
    """The converters stand in the files ``_sklearn``, one a family of estimators."""
