"""The list of names that any file may use: what is on it, and above all what is not."""

from __future__ import annotations

import sys

import pytest

from vitrify.core.errors import MalformedError
from vitrify.pickles import names as trust
from vitrify.pickles.names import Name

TRUSTED = [
    ("sklearn.linear_model._logistic", "LogisticRegression", "state"),
    ("sklearn.linear_model", "LogisticRegression", "state"),
    ("sklearn.tree._tree", "Tree", "call"),
    ("sklearn.gaussian_process.kernels", "RBF", "state"),
    ("sklearn.model_selection._split", "KFold", "state"),
    ("sklearn.feature_selection._univariate_selection", "f_classif", "refer"),
    ("lightgbm.sklearn", "LGBMClassifier", "state"),
    ("xgboost.core", "Booster", "state"),
    ("catboost.core", "CatBoostClassifier", "state"),
    ("numpy", "log1p", "refer"),
    ("numpy._core._multiarray_umath", "log1p", "refer"),
    ("numpy.core._multiarray_umath", "absolute", "refer"),
    ("scipy.special._ufuncs", "expit", "refer"),
    ("numpy", "float64", "refer"),
    ("builtins", "str", "refer"),
    ("copyreg", "_reconstructor", "pickle"),
]

UNTRUSTED = [
    *((module, "system", use) for module in ("os", "posix") for use in ("state", "call", "refer", "pickle")),
    *(
        ("builtins", name, use)
        for name in ("eval", "exec", "getattr", "open", "__import__")
        for use in ("call", "refer", "pickle")
    ),
    ("sklearn.linear_model._logistic", "LogisticRegression", "call"),
    ("sklearn.linear_model._logistic", "np", "refer"),
    ("sklearn.linear_model._logistic", "Parallel", "state"),
    ("sklearn.utils._testing", "TempMemmap", "state"),
    ("sklearn.datasets._base", "load_files", "refer"),
    ("sklearn.externals._arff", "ArffEncoder", "state"),
    ("sklearn.utils.fixes", "parse_version", "refer"),
    ("sklearn.metrics.pairwise", "effective_n_jobs", "refer"),
    ("sklearn.nowhere", "Model", "state"),
    ("sklearn_lookalike", "Model", "state"),
    ("numpy", "load", "refer"),
    ("numpy", "frompyfunc", "refer"),
    ("numpy", "vectorize", "call"),
    *(("numpy", "memmap", use) for use in ("call", "refer", "pickle")),
    ("numpy", "ndarray", "call"),
    ("builtins", "list", "call"),
    ("numpy.lib._npyio_impl", "fromregex", "refer"),
    ("functools", "reduce", "pickle"),
    ("operator", "methodcaller", "call"),
    ("operator", "attrgetter", "pickle"),
    ("copyreg", "_reconstructor", "refer"),
    ("joblib.numpy_pickle", "NumpyArrayWrapper", "pickle"),
    ("torch", "load", "pickle"),
]


@pytest.mark.parametrize("name", TRUSTED, ids=".".join)
def test_models_and_arithmetic_need_no_permission(name):
    assert trust.trusted(Name(*name))


@pytest.mark.parametrize("name", UNTRUSTED, ids=".".join)
def test_everything_else_needs_its_name(name):
    assert not trust.trusted(Name(*name))


def test_names_are_listed_once_and_sorted():
    names = [Name("b", "x", "call"), Name("a", "y", "refer"), Name("b", "x", "state"), Name("numpy", "log1p", "refer")]
    assert trust.untrusted(names) == ("a.y", "b.x")


def test_asking_imports_nothing_outside_of_the_trusted_packages():
    assert not trust.trusted(Name("this", "s", "refer"))
    assert not trust.trusted(Name("sklearn.conftest", "pytest", "refer"))
    assert not {"this", "sklearn.conftest"} & set(sys.modules)


@pytest.mark.parametrize(("module", "name"), [("no.such.module", "x"), ("sklearn.base", "NoSuchClass")])
def test_a_name_that_is_not_there_is_an_error_that_says_what_to_install(module, name):
    with pytest.raises(MalformedError, match=f"{module}.{name}") as caught:
        trust.resolve(module, name)
    assert caught.value.remedy
