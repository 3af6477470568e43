"""Functions as steps: NumPy's and SciPy's, of columns and of targets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.special
from sklearn import compose, linear_model, pipeline, preprocessing

EVERYWHERE = (
    *(np.exp, np.expm1, np.absolute, np.fabs, np.square, np.sign, np.negative, np.positive, np.sin, np.cos, np.tan),
    *(np.sinh, np.cosh, np.tanh, np.arcsinh, np.arctan, np.floor, np.ceil, np.rint, np.trunc, np.cbrt, np.exp2),
    *(np.degrees, np.radians, np.isnan, np.isfinite, np.isinf, np.reciprocal),
    *(scipy.special.expit, scipy.special.log_expit, scipy.special.exp10),
)
POSITIVE = (np.log, np.log1p, np.log2, np.log10, np.sqrt)
UNIT = (np.arcsin, np.arccos, np.arctanh, scipy.special.logit)


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("function", EVERYWHERE, ids=lambda function: function.__name__)
def test_a_function_of_any_number_is_the_sources(function, numbers, proven):
    proven(preprocessing.FunctionTransformer(function), numbers)


@pytest.mark.parametrize("function", [*POSITIVE, np.arccosh], ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero")
def test_a_function_of_positive_numbers_is_the_sources(function, numbers, proven):
    proven(preprocessing.FunctionTransformer(function), np.abs(numbers) + (function is np.arccosh))


@pytest.mark.parametrize("function", UNIT, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero")
def test_a_function_of_the_unit_interval_is_the_sources(function, numbers, proven):
    proven(preprocessing.FunctionTransformer(function), 1 / (1 + np.exp(-numbers)))


@pytest.mark.parametrize("kind", ["bool", "int8", "int16", "int32", "int64", "uint8", "float32"])
@pytest.mark.parametrize("function", [np.sqrt, np.square, np.log1p], ids=lambda function: function.__name__)
def test_a_function_computes_in_the_type_that_numpy_takes(function, kind, convert):
    values = (np.arange(30).reshape(10, 3) % 11).astype(kind)
    if kind == "bool" and function is np.square:
        pytest.skip("NumPy multiplies no booleans")
    pair = convert(preprocessing.FunctionTransformer(function), values)
    pair.agree(values, ulps=4)


def test_the_columns_of_a_table_keep_a_type_each(proven):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 9, 50), "b": rng.random(50).astype(np.float32), "c": rng.random(50)})
    plain = preprocessing.FunctionTransformer(np.log1p)
    proven(plain, frame)
    table = preprocessing.FunctionTransformer(np.log1p, feature_names_out="one-to-one").set_output(transform="pandas")
    pair = proven(table.fit(frame), frame)
    assert [field.dtype for field in pair.document.signature.outputs] == ["float64", "float32", "float64"]
    proven(preprocessing.FunctionTransformer(np.log1p, validate=True).fit(frame), frame)


def test_a_ufunc_that_onnx_does_not_have_is_refused_by_name(numbers, problems):
    (finding,) = problems(preprocessing.FunctionTransformer(scipy.special.gamma), numbers)
    assert "gamma" in finding.message


TARGETS = {
    "log": {"func": np.log, "inverse_func": np.exp},
    "root": {"func": np.sqrt, "inverse_func": np.square},
    "minimum and maximum": {"transformer": preprocessing.MinMaxScaler()},
    "standard": {"transformer": preprocessing.StandardScaler()},
    "robust": {"transformer": preprocessing.RobustScaler()},
    "largest": {"transformer": preprocessing.MaxAbsScaler()},
    "power": {"transformer": preprocessing.PowerTransformer()},
    "box-cox": {"transformer": preprocessing.PowerTransformer("box-cox", standardize=False)},
    "quantiles": {"transformer": preprocessing.QuantileTransformer(n_quantiles=20)},
    "pipeline": {
        "transformer": pipeline.make_pipeline(
            preprocessing.FunctionTransformer(np.log1p, np.expm1), preprocessing.StandardScaler()
        )
    },
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("targets", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:invalid value|overflow|Some values in column")
def test_a_targets_transformation_is_taken_back(targets, name, numbers, proven):
    target = numbers[:, 0] + np.sin(numbers[:, 1]) + 10
    if targets:
        target = np.column_stack([target + shift for shift in range(targets)])
    model = compose.TransformedTargetRegressor(linear_model.Ridge(alpha=100), **TARGETS[name])
    proven(model.fit(numbers, target), numbers)


def test_a_target_that_cannot_be_taken_back_is_refused(numbers, problems):
    bins = preprocessing.KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf")
    model = compose.TransformedTargetRegressor(linear_model.Ridge(), transformer=bins, check_inverse=False)
    (finding,) = problems(model.fit(numbers, numbers[:, 0]), numbers)
    assert "KBinsDiscretizer" in finding.message
