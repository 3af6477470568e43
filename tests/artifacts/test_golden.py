from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vitrify
from vitrify import containers
from vitrify.artifacts import golden
from vitrify.core.document import GOLDEN


def chosen(native):
    example = containers.example(native)
    return golden.choose(example.arrays, example.signature)


def test_a_long_example_is_thinned_evenly_with_both_ends_kept():
    rows = chosen(pd.DataFrame({"a": np.arange(10_000)}))["a"]
    assert len(rows) == golden.MAX_ROWS
    assert (rows[0], rows[-1]) == (0, 9_999)


def test_large_rows_are_kept_within_the_limit_of_bytes_and_at_least_one():
    assert len(chosen(np.zeros((50, 1 << 14)))["X"]) == 8
    assert len(chosen(np.zeros((3, 1 << 20)))["X"]) == 1


def test_what_is_awkward_survives_in_the_file_to_the_bit():
    values = {
        "text": np.array(["a", None, float("nan"), "", "nan", "ä\N{GRINNING FACE}"], object),
        "large": np.array([2**63 - 1, -(2**63), 2**53 + 1, 0, 1, 2]),
        "holes": np.ma.MaskedArray([2**60 + 1] * 6, mask=[0, 1, 0, 0, 0, 1]),
        "floats": np.array([np.nan, -0.0, np.inf, 5e-324, 1.0, -np.inf]),
    }
    data = golden.dump(values, {"out": values["floats"]})
    assert data == golden.dump(values, {"out": values["floats"]})

    class Files:
        def names(self):
            return (GOLDEN,)

        def read(self, name):
            return data

    inputs, outputs = golden.load(Files())
    assert [type(value) for value in inputs["text"]] == [str, type(None), float, str, str, str]
    assert inputs["large"].tolist() == values["large"].tolist()
    assert inputs["holes"].tolist() == values["holes"].tolist()
    assert inputs["floats"].tobytes() == outputs["out"].tobytes() == values["floats"].tobytes()


@pytest.mark.parametrize("rows", [1, 2, 101])
def test_an_artifact_holds_its_golden_samples_and_says_how_many(rows):
    from sklearn.dummy import DummyRegressor

    X = np.arange(2.0 * rows).reshape(rows, 2)
    artifact = vitrify.save(DummyRegressor().fit(X, X[:, 0]), "m", example=X)
    inputs, outputs = artifact.golden()
    assert artifact.document.golden == len(inputs["X"]) == len(outputs["prediction"]) == min(rows, golden.MAX_ROWS)


def test_a_call_without_a_batch_is_one_sample_however_long_its_arrays(tmp_path):
    import onnx
    from onnx import helper

    value = helper.make_tensor_value_info
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "square", [value("x", 1, [7])], [value("y", 1, [7])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    example = {"x": np.arange(7, dtype=np.float32)}
    artifact = vitrify.save(model, "m", example=example, dynamic={"x": {0: 7}})
    assert artifact.document.golden == 1
    onnx.checker.check_model(artifact.model())
