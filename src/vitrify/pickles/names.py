"""Which classes and functions a file may use without anyone's permission.

A name in a file is used in one of these ways, and each has its own list:

* ``state``: an empty instance is made, past its constructor, and given its attributes;
* ``call``: it is called while the file is read;
* ``refer``: it stands in the model as a value, and the model may call it with data when it predicts;
* ``pickle``: it stands in a pickle, which may do any of these with it.

Everything else needs its exact dotted name in :class:`vitrify.core.protocols.Allow`. Only modules of the
packages below are imported to find out what a name is; any other is imported after it was allowed.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

Use = Literal["state", "call", "refer", "pickle"]

TREE = "sklearn.tree._tree.Tree"
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
LOSSES = frozenset(
    {
        *(
            f"sklearn._loss._loss.Cy{name}"
            for name in (
                *("AbsoluteError", "ExponentialLoss", "HalfBinomialLoss", "HalfGammaLoss", "HalfMultinomialLoss"),
                *("HalfPoissonLoss", "HalfSquaredError", "HalfTweedieLoss", "HalfTweedieLossIdentity", "HuberLoss"),
                "PinballLoss",
            )
        ),
        *(
            f"sklearn.linear_model._sgd_fast.{name}"
            for name in (
                *("EpsilonInsensitive", "Hinge", "Huber", "Log", "ModifiedHuber", "SquaredEpsilonInsensitive"),
                *("SquaredHinge", "SquaredLoss"),
            )
        ),
    }
)

_LAYOUTS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")

_STATE_BASES = {
    "sklearn": (
        "sklearn.base:BaseEstimator",
        "sklearn.model_selection._split:BaseCrossValidator",
        "sklearn.model_selection._split:BaseShuffleSplit",
        "sklearn.gaussian_process.kernels:Kernel",
        "sklearn.gaussian_process.kernels:Hyperparameter",
        "sklearn._loss.link:BaseLink",
        "sklearn._loss.loss:BaseLoss",
        "sklearn.metrics._scorer:_BaseScorer",
        "sklearn.neural_network._stochastic_optimizers:BaseOptimizer",
    ),
    "xgboost": ("sklearn.base:BaseEstimator",),
    "lightgbm": ("sklearn.base:BaseEstimator",),
}
"""By package: a class of it that has one of these bases is trusted for ``state``."""

_SIDE_ROOMS = frozenset({"tests", "conftest", "externals", "experimental", "datasets", "_build_utils"})
"""Parts of those packages that hold no models; they are not even imported."""

_STATE = frozenset(
    {
        TREE,
        PREDICTOR,
        "sklearn._loss.link.Interval",
        "sklearn.calibration._CalibratedClassifier",
        "scipy.interpolate._bsplines.BSpline",
        "sklearn.cluster._bisect_k_means._BisectingTree",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.metrics._dist_metrics.EuclideanDistance",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._scorer._MultimetricScorer",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "catboost.core.CatBoost",
        "catboost.core.CatBoostClassifier",
        "catboost.core.CatBoostRanker",
        "catboost.core.CatBoostRegressor",
        "lightgbm.basic.Booster",
        "xgboost.core.Booster",
    }
)

_CALL = frozenset(
    {
        *LOSSES,
        TREE,
        "builtins.complex",
        "builtins.dict",
        "builtins.frozenset",
        "builtins.range",
        "collections.Counter",
        "collections.OrderedDict",
        "collections.defaultdict",
        "datetime.date",
        "datetime.datetime",
        "datetime.time",
        "datetime.timedelta",
        "datetime.timezone",
        "decimal.Decimal",
        "functools.partial",
        "numpy.ma.MaskedArray",
        "numpy.random.RandomState",
        "numpy.random._generator.Generator",
        "numpy.random.mtrand.RandomState",
        "operator.itemgetter",
        "pandas.Index",
        "pandas.RangeIndex",
        "pandas.Series",
        "pandas.core.indexes.base.Index",
        "pandas.core.indexes.range.RangeIndex",
        "pandas.core.series.Series",
        "re.compile",
        "scipy.stats._distn_infrastructure.rv_continuous_frozen",
        "scipy.stats._distn_infrastructure.rv_discrete_frozen",
        "sklearn.utils._bunch.Bunch",
        "uuid.UUID",
        "zoneinfo.ZoneInfo",
    }
)

_REFER = frozenset(
    {
        *(f"builtins.{name}" for name in ("Ellipsis", "NotImplemented", "abs", "bool", "float", "int", "len", "max")),
        *(f"builtins.{name}" for name in ("min", "object", "round", "sorted", "str", "sum")),
        *(f"builtins.{name}" for name in ("bytearray", "bytes", "list", "set", "slice", "tuple")),
        *(f"numpy.{name}" for name in ("dtype", "matrix", "ndarray", "rec.recarray")),
        *(
            f"numpy.{name}"
            for name in (
                *("all", "any", "argmax", "argmin", "argsort", "around", "average", "clip", "concatenate", "cumprod"),
                *("cumsum", "diff", "digitize", "einsum", "exp2", "flip", "hstack", "histogram", "interp", "max"),
                *("mean", "median", "min", "nan_to_num", "nanmax", "nanmean", "nanmedian", "nanmin", "nanstd"),
                *("nansum", "nanvar", "percentile", "prod", "ptp", "quantile", "ravel", "real", "imag", "reshape"),
                *("round", "sinc", "sort", "squeeze", "stack", "std", "sum", "transpose", "unique", "var", "vstack"),
                *("where", "zeros_like", "ones_like", "array", "asarray", "atleast_1d", "atleast_2d", "ma.masked"),
                *("float_power", "fix", "linalg.norm"),
            )
        ),
        *(f"sklearn.cluster._kmeans._kmeans_single_{name}" for name in ("elkan", "lloyd")),
        "scipy._lib.array_api_compat.numpy._aliases.asarray",
        *(f"sklearn.utils.validation.{name}" for name in ("check_array", "column_or_1d")),
    }
)

_FUNCTION_MODULES = (
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
    "sklearn.metrics.cluster._supervised",
    "sklearn.metrics.cluster._unsupervised",
    "sklearn.metrics.pairwise",
    "sklearn.neighbors._base",
    "sklearn.preprocessing._data",
)
"""Modules whose own functions compute on arrays and do nothing else."""

_PICKLE_ONLY = frozenset(
    {
        "_codecs.encode",
        "copyreg.__newobj__",
        "copyreg._reconstructor",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "numpy._core.numeric._frombuffer",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy.core.numeric._frombuffer",
        "numpy.ma.core._mareconstruct",
        "numpy.random._pickle.__bit_generator_ctor",
        "numpy.random._pickle.__generator_ctor",
        "numpy.random._pickle.__randomstate_ctor",
        *(f"numpy.random._{module}.{name}" for module, name in (("pcg64", "PCG64"), ("sfc64", "SFC64"))),
        *(f"numpy.random._{module}.{name}" for module, name in (("philox", "Philox"), ("mt19937", "MT19937"))),
        "numpy.random.bit_generator.SeedSequence",
        "numpy.random.bit_generator.__pyx_unpickle_SeedSequence",
        *(f"scipy.sparse._{layout}.{layout}_{kind}" for layout in _LAYOUTS for kind in ("array", "matrix")),
        "sklearn.metrics._dist_metrics.newObj",
        "sklearn.neighbors._ball_tree.newObj",
        "sklearn.neighbors._kd_tree.newObj",
        *(f"sklearn._loss._loss.__pyx_unpickle_{loss.rpartition('.')[2]}" for loss in LOSSES if "._loss." in loss),
    }
)
"""What a pickle calls to put together what a ``.skops`` file keeps as data."""

_UFUNC_MODULES = {"numpy": "numpy", "numpy._core": "numpy", "numpy.core": "numpy", "scipy.special": "scipy.special"}
"""Where universal functions say that they live, and where they are found."""


class Name(NamedTuple):
    """One name that a file uses, and how."""

    module: str
    name: str
    use: Use

    @property
    def dotted(self) -> str:
        """The full name."""
        return f"{self.module}.{self.name}"


def untrusted(names: Iterable[Name]) -> tuple[str, ...]:
    """Return the dotted names that someone has to allow, sorted, each once."""
    return tuple(sorted({name.dotted for name in set(names) if not trusted(name)}))


@lru_cache(maxsize=4096)
def trusted(name: Name) -> bool:
    """Say whether a name may be used in this way by any file."""
    if name.use == "call":
        return name.dotted in _CALL
    if name.use == "state":
        return name.dotted in _STATE or _is_model_class(name)
    lists = (_CALL, _STATE, _REFER, _PICKLE_ONLY if name.use == "pickle" else frozenset())
    rules = (_is_model_class, _is_function, _is_numpy, _is_distribution)
    return any(name.dotted in names for names in lists) or any(rule(name) for rule in rules)


def resolve(module: str, name: str) -> Any:
    """Return what an audited name stands for, importing its module.

    Raises:
        MalformedError: There is no such module or name here.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        msg = f"the model needs {module}.{name}, which is not there ({error})"
        remedy = f"install the version of {module.partition('.')[0]} that the model was made with, or bring its source"
        raise MalformedError(msg, remedy=remedy) from error


def _is_model_class(name: Name) -> bool:
    """Estimators, splitters, kernels: classes of a trusted package that have one of its trusted bases."""
    bases = _STATE_BASES.get(name.module.partition(".")[0], ())
    if not bases or not _SIDE_ROOMS.isdisjoint(name.module.split(".")):
        return False
    cls = _look(name)
    if not isinstance(cls, type) or cls.__module__.partition(".")[0] not in _STATE_BASES:
        return False
    return any(issubclass(cls, resolve(*base.split(":"))) for base in bases)


def _is_function(name: Name) -> bool:
    if name.module not in _FUNCTION_MODULES:
        return False
    value = _look(name)
    return callable(value) and getattr(value, "__module__", None) == name.module


def _is_numpy(name: Name) -> bool:
    """Universal functions, and the classes of NumPy's scalars."""
    import numpy as np

    home = next((_UFUNC_MODULES[root] for root in _UFUNC_MODULES if f"{name.module}.".startswith(f"{root}.")), None)
    if home is None:
        return False
    value = _look(Name(home, name.name, "refer"))
    return isinstance(value, np.ufunc) or (isinstance(value, type) and issubclass(value, np.generic))


def _is_distribution(name: Name) -> bool:
    """A distribution of scipy.stats, which a randomised search draws from."""
    if name.module != "scipy.stats":
        return False
    return any(base.__name__ == "rv_generic" for base in type(_look(name)).__mro__)


def _look(name: Name) -> Any:
    try:
        return resolve(name.module, name.name)
    except MalformedError:
        return None
