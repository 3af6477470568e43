"""scikit-learn's estimators that skl2onnx converts well in double: its graph becomes a part of ours.

These are the ones whose operators skl2onnx keeps in double throughout and whose arithmetic is smooth: a last bit
does not flip a decision.

Source: https://onnx.ai/sklearn-onnx/supported.html
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from vitrify.transforms.convert._data import Data, matrix
from vitrify.transforms.convert._graph import F32, F64, Graph, Tensor
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse

if TYPE_CHECKING:
    from onnx import ModelProto


@converts(
    "sklearn.GaussianProcessRegressor",
    "sklearn.KNeighborsRegressor",
    "sklearn.KernelPCA",
    "sklearn.QuantileTransformer",
)
def library_regressor(steps: Steps, model: Any, data: Data) -> Outcome:
    """Convert by skl2onnx; one output."""
    graph = steps.graph
    (answer,) = _inlined(graph, model, matrix(graph, data, F64), {})
    if hasattr(model, "transform"):
        return Outcome(features=answer)
    flat = not hasattr(model, "_y") or np.ndim(model._y) == 1  # noqa: SLF001 (what the target's shape was)
    return Outcome(prediction=graph.reshape(answer, -1) if flat else answer)


@converts("sklearn.KNeighborsClassifier", "sklearn.QuadraticDiscriminantAnalysis", "sklearn.GaussianProcessClassifier")
def library_classifier(steps: Steps, model: Any, data: Data) -> Outcome:
    """Convert by skl2onnx; the largest probability."""
    graph = steps.graph
    _, probability = _inlined(graph, model, matrix(graph, data, F64), {"zipmap": False})
    return Outcome(index=graph.argmax(probability), classes=np.asarray(model.classes_), probability=probability)


def _inlined(graph: Graph, model: Any, x: Tensor, options: dict[str, Any]) -> tuple[Tensor, ...]:
    """Return the outputs of skl2onnx's graph, its nodes now among ours."""
    proto = _converted(graph, model, x, options)
    inner = proto.graph
    if any(value.domain not in {"", "ai.onnx.ml", "com.microsoft"} for value in proto.opset_import):
        refuse("needs operators of another domain", "use another estimator")
    names = {inner.input[0].name: x.name}
    for value in inner.initializer:
        array = numpy_helper.to_array(value)
        names[value.name] = graph.constant(array, value.name).name
    for node in inner.node:
        graph.adopt(node, names)
    return tuple(
        Tensor(names[value.name], helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value in inner.output
    )


def _converted(graph: Graph, model: Any, x: Tensor, options: dict[str, Any]) -> ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside skl2onnx
        import skl2onnx
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

        kind = FloatTensorType if x.dtype == F32 else DoubleTensorType
        return skl2onnx.convert_sklearn(
            model,
            initial_types=[("X", kind([None, model.n_features_in_]))],
            options={id(model): options} if options else None,
            target_opset={"": graph.opset, "ai.onnx.ml": 3},
        )
