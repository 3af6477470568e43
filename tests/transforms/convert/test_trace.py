"""Functions written in NumPy become graphs that answer to the bit as NumPy does, or are refused where they cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from transforms.convert.tracing import near, same

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.convert._building.graph import Graph
from vitrify.transforms.convert._trace.tracing import trace

WIDTH = 11
DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint16, np.bool_]
UNARY = [np.negative, np.absolute, np.sign, np.square, np.floor, np.ceil, np.trunc, np.rint, np.sqrt, np.positive]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.fmax, np.fmin]
TOTAL = [ufunc for ufunc in BINARY if ufunc is not np.divide]
"""A quotient shows the sign of a zero, which ONNX Runtime's Where does not keep."""
DIVIDING = [np.floor_divide, np.remainder, np.fmod]
TESTS = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]
FOLDS = ["sum", "mean", "max", "min", "prod", "std", "var"]


def rows(dtype, seed=0):
    """Return rows with everything that arithmetic trips over."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, WIDTH)) * 10.0 ** rng.integers(-3, 3, (40, WIDTH))
    x[rng.random(x.shape) < 0.1] = 0
    if np.dtype(dtype).kind == "f":
        x[rng.random(x.shape) < 0.05] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
        x[rng.random(x.shape) < 0.05] = -0.0
        return x.astype(dtype)
    if dtype == np.bool_:
        return x > 0
    limits = np.iinfo(dtype)
    whole = rng.integers(max(limits.min, -100), 100, x.shape).astype(dtype)
    whole[rng.random(x.shape) < 0.05] = limits.min
    whole[rng.random(x.shape) < 0.05] = limits.max
    return whole


NUMBERS = st.sampled_from([-2.5, -1.0, 0.5, 2.0, 3, 7, 100])


def expressions():
    """Return functions of a matrix, each made of others."""
    plain = st.just(lambda x: x) | NUMBERS.map(lambda number: lambda x: x + number)

    def grown(inner):
        return st.one_of(
            st.tuples(st.sampled_from(UNARY), inner).map(lambda p: lambda x: p[0](p[1](x))),
            st.tuples(st.sampled_from(TOTAL), inner, inner).map(lambda p: lambda x: p[0](p[1](x), p[2](x))),
            st.tuples(st.sampled_from(DIVIDING), inner, NUMBERS).map(lambda p: lambda x: p[0](p[1](x), p[2])),
            st.tuples(st.sampled_from(TESTS), inner, inner, inner, NUMBERS).map(
                lambda p: lambda x: np.where(p[0](p[1](x), p[4]), p[2](x), p[3](x))
            ),
            st.tuples(inner, st.integers(0, WIDTH - 1)).map(lambda p: lambda x: p[0](x)[:, [p[1]]] - p[0](x)),
            st.tuples(inner, st.sampled_from(["float64", "float32"])).map(lambda p: lambda x: p[0](x).astype(p[1])),
            st.tuples(inner, st.sampled_from(FOLDS[:4])).map(
                lambda p: lambda x: getattr(p[0](x), p[1])(1, keepdims=True) + x
            ),
            inner.map(lambda f: lambda x: np.clip(f(x), 0, 5)),
            inner.map(lambda f: lambda x: np.concatenate([f(x)[:, :4], x[:, 4:]], axis=1)),
        )

    return st.recursive(plain, grown, max_leaves=6)


@settings(max_examples=120)
@given(expressions(), st.sampled_from(DTYPES), st.integers(0, 100))
def test_a_random_expression_is_equal_to_the_bit_or_refused(function, dtype, seed):
    x = rows(dtype, seed)
    try:
        with np.errstate(all="ignore"):
            function(x)
    except (TypeError, OverflowError):  # NumPy itself will not
        return
    try:
        same(function, x)
    except UnsupportedModelError as error:
        assert error.remedy, error  # noqa: PT017 (either answer is right)


@pytest.mark.parametrize("dtype", DTYPES[:-1])
@pytest.mark.parametrize("ufunc", [*BINARY, *DIVIDING, *TESTS], ids=lambda ufunc: ufunc.__name__)
def test_arithmetic_is_equal_to_the_bit_in_every_element_type(ufunc, dtype):
    same(lambda x: ufunc(x[:, :5], x[:, 5:10]), rows(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, np.bool_])
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("width", [1, 7, 8, 19, 130])
def test_a_fold_of_a_row_adds_in_the_order_of_numpy(name, dtype, width):
    x = np.tile(rows(dtype), (1, 12))[:, :width]
    same(lambda x: getattr(x, name)(axis=1), x)


SMOOTH = [
    *(np.exp, np.log, np.log1p, np.expm1, np.sin, np.cos, np.tanh, np.arctan, np.sinh, np.cosh, np.arcsinh, np.cbrt),
    *(special.expit, special.log1p, special.entr),
]


@pytest.mark.parametrize("ufunc", SMOOTH, ids=lambda ufunc: ufunc.__name__)
def test_transcendental_functions_are_near(ufunc):
    x = np.random.default_rng(0).normal(size=(200, 3)) * 3
    near(ufunc, x, ulps=16, atol=1e-15)


@pytest.mark.parametrize("ufunc", [np.log1p, np.expm1], ids=lambda ufunc: ufunc.__name__)
def test_nothing_overflows_on_the_way_to_a_finite_answer(ufunc):
    x = np.array([[1.7976931348623157e308, 709.5], [700.0, -1e-20], [5e-324, -0.5], [-800.0, 0.0]])
    x = x if ufunc is np.expm1 else np.abs(x)
    near(ufunc, x)


def test_functions_of_two_numbers_are_near():
    x = np.random.default_rng(0).normal(size=(300, 2)) * 3
    x[:4] = [[0, 1], [0, -1], [1, 0], [-1, 0]]
    near(lambda x: np.arctan2(x[:, 0], x[:, 1]), x, ulps=8)
    near(lambda x: np.hypot(x[:, 0], x[:, 1]), x)
    near(lambda x: np.logaddexp(x[:, 0], x[:, 1]), np.abs(x), ulps=8)
    near(lambda x: special.xlogy(np.abs(x[:, 0]), np.abs(x[:, 1])), x, ulps=8)
    near(lambda x: np.abs(x[:, 0]) ** 1.7, x, ulps=8)


def assigned(x):
    x = x.copy()
    x[:, 0] = x[:, 1] * 2
    x[x < 0] = 0
    x[:, 2:4] += 1
    view = x[:, 5]
    view *= 3
    x[:, [1, 3]] = x[:, [3, 1]]
    x[np.isnan(x[:, 4]), 4] = -1
    return x + view[:, None]


def aliased(x):
    x = x + 0.0
    whole = x
    whole -= 1
    first = x[:, 0]
    x *= 2
    return first + whole[:, 1]


MOVING = {
    "slices": lambda x: x[:, ::-2] - x[:, 1:12:2][:, :6][:, :6] if x.shape[1] > 11 else x[:, ::-2],
    "assignment": assigned,
    "aliases see what is written": aliased,
    "transposed and back": lambda x: (x.T[1:4] * 2).T,
    "a new axis": lambda x: (x[:, None, :] - np.arange(WIDTH * 2.0).reshape(2, WIDTH)).sum(-1),
    "a reshape of each row": lambda x: x[:, :10].reshape(-1, 5, 2).max(axis=2),
    "a reshape by the number of rows": lambda x: x[:, :10].reshape(x.shape[0], 2, 5)[:, 1],
    "columns one by one": lambda x: np.column_stack([column + index for index, column in enumerate(x.T)]),
    "arrays of as many rows": lambda x: np.zeros((x.shape[0], 2)) + np.ones(x.shape[0])[:, None] * x[:, :2],
    "asarray": lambda x: np.asarray(x, dtype=np.float64)[:, 0],
    "stacked": lambda x: np.stack([x[:, 0], x[:, 1]], axis=1),
    "an array of columns": lambda x: np.array([x[:, 0], x[:, 1]]).T,
    "repeated": lambda x: np.repeat(x, 2, axis=1) - np.tile(x, (1, 2)),
    "split": lambda x: np.split(x[:, :10], 2, axis=1)[1],
    "differences": lambda x: np.diff(x, axis=1),
    "running sums": lambda x: np.cumsum(x, axis=1),
}  # fmt: skip
CHOOSING = {
    "where": lambda x: np.where(x > 0, x, -1.0),
    "select": lambda x: np.select([x < 0, x < 5], [x, x * 2], default=-1),
    "sorted": lambda x: np.sort(x, axis=1),
    "median": lambda x: np.median(x[:, :4], axis=1) - np.median(x, axis=1),
    "digitize": lambda x: np.digitize(x, [-1.0, 0.0, 2.5]),
    "digitize downwards": lambda x: np.digitize(x, [2.5, 0.0, -1.0], right=True),
    "searchsorted": lambda x: np.searchsorted([-1.0, 0.0, 2.5], x, side="right"),
    "interp": lambda x: np.interp(x, [-2.0, 0.0, 5.0], [1.0, 2.0, 7.0]),
    "argmax": lambda x: x.argmax(axis=1) - x.argmin(1),
    "any and all": lambda x: np.any(x > 5, axis=1) ^ (x < 50).all(axis=1),
    "isin": lambda x: np.isin(np.round(x), [0.0, 1.0, 2.0]),
    "take": lambda x: np.take(np.array([5.0, 6.0, 7.0]), (x[:, 0] > 0).astype(int)),
    "take along an axis": lambda x: np.take_along_axis(x, (x[:, :1] > 0).astype(np.int64), axis=1),
    "numbers for nan": lambda x: np.nan_to_num(x, nan=-1.0, posinf=9.0),
    "nan ignored": lambda x: np.nansum(x, axis=1) + np.nanmax(x, axis=1),
    "rounded": lambda x: np.round(x, 2),
    "powers": lambda x: x**2 + x**-1 + np.abs(x) ** 0.5,
    "norm": lambda x: np.linalg.norm(x[:, :3], axis=1),
    "mean with weights": lambda x: np.average(x[:, :3], axis=1, weights=[1.0, 2.0, 3.0]),
    "a like-shaped constant": lambda x: np.full_like(x, 3) + np.zeros_like(x),
    "clip with an array": lambda x: x.clip(np.arange(WIDTH) - 5.0, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", [*MOVING, *CHOOSING])
def test_what_is_moved_and_chosen_is_equal_to_the_bit(name):
    function = {**MOVING, **CHOOSING}[name]
    same(function, rows(np.float64))


def test_integers_wrap_around_and_divide_by_zero_as_in_numpy():
    for dtype in (np.int8, np.int64, np.uint16):
        x = rows(dtype)
        same(lambda x: x * x + x - 3, x)
        same(lambda x: x**3, x)
        same(lambda x: x[:, :5] // x[:, 5:10], x)
        same(lambda x: (x[:, :5] % x[:, 5:10]) & 7, x)


def test_text_is_compared():
    x = np.array([["a", "b"], ["b", "b"], ["ä", ""]], object)
    same(lambda x: (x == "b") | np.isin(x, ["ä"]), x)


def test_matrix_products_are_near():
    x = np.random.default_rng(0).normal(size=(20, WIDTH))
    weights = np.random.default_rng(1).normal(size=(WIDTH, 3))
    near(lambda x: x @ weights, x, ulps=64)
    near(lambda x: np.dot(x, weights[:, 0]), x, ulps=64)
    near(lambda x: np.einsum("ij,jk->ik", x, weights), x, ulps=64)
    same(lambda x: np.einsum("ij,j->i", x[:, :2].astype(int), np.array([2, 3])), x)


STATE = {"count": 0}


def branches(x):
    if x[:, 0].sum() > 0:
        return x
    return -x


def loops(x):
    return np.array([row * 2 for row in x])


def swallows(x):
    try:
        return x * float(x)
    except Exception:  # noqa: BLE001 (what users write)
        return x


def remembers(x):
    STATE["count"] += 1
    return x * STATE["count"]


REFUSED = {
    "an if": (lambda x: x if (x > 0) else -x, "decides by the data"),
    "a sum over rows": (branches, "the rows of the batch"),
    "a loop over rows": (loops, "rows one by one"),
    "a refusal that is swallowed": (swallows, "takes one number"),
    "a mean over rows": (lambda x: x - x.mean(axis=0), "the rows of the batch"),
    "a mean over all": (lambda x: x - np.mean(x), "all elements of the batch"),
    "math on an array": (math.log, "takes one number"),
    "a mask of rows": (lambda x: x[x[:, 0] > 0], "picks elements"),
    "some rows": (lambda x: x[::2], "of the rows of the batch"),
    "the number of rows": (lambda x: x / len(x), "number of rows"),
    "the size of the batch": (lambda x: x / x.shape[0], "number of rows"),
    "a product over rows": (lambda x: x.T @ x, "sums over the rows"),
    "rows that are mixed": (lambda x: x.reshape(-1), "mixes rows"),
    "randomness": (lambda x: x * np.random.rand(), "second time"),  # noqa: NPY002 (what users write)
    "a state outside": (remembers, "second time"),
    "a function in C": (np.linalg.inv, "numpy.linalg.inv"),
    "a Python loop by numpy": (np.vectorize(abs), "array of numbers"),
    "a constant": (lambda x: np.zeros(3), "does not hang on its data"),
    "a product of every two rows": (lambda x: x @ x.T, "a value for every row"),
    "columns beside a row of columns": (lambda x: x[:, 0] + x[:, :1], "a value for every row"),
    "an axis that is no batch": (lambda x: x.T, "first axis is not the rows"),
    "complex numbers": (lambda x: x * 1j, "complex"),
    "no operator": (lambda x: np.nextafter(x, 1), "nextafter"),
}


def writes_through(x):
    y = x.copy()
    same, other = y.astype(x.dtype, copy=False), y.astype(x.dtype)
    same[:, 0] = 7
    other[:, 1] = 8
    return y


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cast_that_copies_nothing_is_the_array_itself(dtype):
    same(writes_through, rows(dtype))


def test_an_angle_is_right_on_every_side_of_every_zero():
    values = np.array([0.0, -0.0, 1.0, -1.0, 1e-320, -1e-320, 1e308, -1e308, np.inf, -np.inf, np.nan])
    points = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            near(lambda x: np.arctan2(x[:, 0], x[:, 1]), points.astype(dtype), ulps=8)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_is_refused_with_what_and_where(name):
    function, message = REFUSED[name]
    graph = Graph(21)
    with pytest.raises((UnsupportedModelError, TypeError), match=message):
        trace(graph, function, graph.input("x", np.dtype(float), ("batch", WIDTH)))
    assert not graph.nodes, "what was refused left nothing behind"


def test_a_refusal_names_function_file_and_line():
    graph = Graph(21)
    with pytest.raises(UnsupportedModelError) as caught:
        trace(graph, branches, graph.input("x", np.dtype(float), ("batch", WIDTH)))
    line = branches.__code__.co_firstlineno + 1
    assert f"branches (test_trace.py, line {line})" in str(caught.value)
    assert "fit" in caught.value.remedy


def test_numpy_is_itself_again_after_a_trace():
    before = {name: getattr(np, name) for name in ("asarray", "array", "zeros", "full")}
    graph = Graph(21)
    with pytest.raises(UnsupportedModelError):
        trace(graph, loops, graph.input("x", np.dtype(float), ("batch", WIDTH)))
    assert {name: getattr(np, name) for name in before} == before
