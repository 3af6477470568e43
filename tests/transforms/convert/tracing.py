"""A traced function and the same function in NumPy, side by side."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort

from vitrify.transforms.convert._building.graph import TEXT, Graph
from vitrify.transforms.convert._building.model import to_model
from vitrify.transforms.convert._trace.tracing import trace


def answers(function, x, opset=21):
    """Return what NumPy and what the traced graph answer."""
    graph = Graph(opset)
    tensor = graph.input("x", x.dtype if x.dtype.kind not in "US" else TEXT, ("batch", *x.shape[1:]))
    (value,) = trace(graph, function, tensor).values
    name = graph.reserve("y")
    graph.output(name, value.tensor, tuple(size if isinstance(size, int) else "batch" for size in value.shape))
    model = to_model(graph, name="traced", properties={})
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"x": x})
    with np.errstate(all="ignore"):
        return np.asarray(function(x)), given


def same(function, x):
    """Assert that both are the same to the bit."""
    expected, given = answers(function, x)
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(given, expected)


def near(function, x, ulps=4, atol=0.0):
    """Assert that both are the same to some ulps of their type."""
    expected, given = answers(function, x)
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(np.isnan(given), np.isnan(expected))
    known = np.isfinite(expected)
    np.testing.assert_array_equal(given[~known], expected[~known])
    apart = np.abs(given[known].astype(np.float64) - expected[known].astype(np.float64))
    assert np.all(apart <= atol + ulps * np.spacing(np.abs(expected[known])).astype(np.float64)), apart.max()
