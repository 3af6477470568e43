from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
import scipy.special

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._building.model import to_model
from vitrify.transforms.convert._numerics.ufuncs import _FUNCTIONS, apply_function

TYPES = ["bool", "int8", "int64", "uint16", "float16", "float32", "float64"]
REFUSED = {("reciprocal", kind) for kind in ("bool", "int8", "int64", "uint16")} | {("negative", "uint16")}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", sorted(_FUNCTIONS))
def test_every_function_gives_what_numpy_gives_for_every_element_type(name, kind):
    function = getattr(np, name, None) or getattr(scipy.special, name)
    values = (np.arange(1, 7) % 5).astype(kind)
    try:
        with np.errstate(all="ignore"):
            wanted = function(values)
    except TypeError:
        pytest.skip("NumPy has no loop for it")
    graph = Graph(21)
    x = graph.input("x", np.dtype(kind), ("n",))
    if (name, kind) in REFUSED:
        with pytest.raises(UnsupportedModelError, match=name):
            apply_function(graph, function, x)
        return
    graph.output("y", apply_function(graph, function, x), ("n",))
    model = to_model(graph, name="m", properties={}).SerializeToString()
    (given,) = ort.InferenceSession(model).run(None, {"x": values})
    assert given.dtype == wanted.dtype
    np.testing.assert_allclose(
        given.astype(np.float64), wanted.astype(np.float64), rtol=8 * np.finfo(np.promote_types(kind, "e")).eps
    )
