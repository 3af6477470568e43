"""The error function in double, against SciPy's."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from scipy import special

from vitrify.transforms.convert._building.graph import F64, Graph
from vitrify.transforms.convert._building.model import OPSET, to_model
from vitrify.transforms.convert._numerics.erf import erf


def test_it_is_within_a_few_ulps_everywhere():
    graph = Graph(OPSET)
    x = graph.input("x", F64, ("rows",))
    graph.reserve("y")
    graph.output("y", erf(graph, x), ("rows",))
    session = ort.InferenceSession(to_model(graph, name="erf", properties={}).SerializeToString())
    values = np.concatenate([np.linspace(-7, 7, 20_001), np.geomspace(1e-300, 1e300, 2001), [0.0, np.inf, -np.inf]])
    expected = special.erf(values)
    (got,) = session.run(None, {"x": values})
    assert (np.abs(got - expected) <= 4 * np.spacing(np.abs(expected))).all()
