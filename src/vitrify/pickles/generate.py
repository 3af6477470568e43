"""Write the list of trusted names, from rules and from what is installed: ``python -m vitrify.pickles.generate``.

The rules say which kinds of classes and functions a model may use; the libraries say which there are. The list is
written when a library moves to a new version, and read by everyone (:mod:`vitrify.pickles.names`).
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import warnings
from typing import TYPE_CHECKING, Any

from vitrify.pickles._trust import arrays, frames, python
from vitrify.pickles.names import LOSSES, PREDICTOR, TABLE, TREE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_LAYOUTS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")

_STATE_BASES = {
    "sklearn": (
        "sklearn.base:BaseEstimator",
        "sklearn.model_selection._split:BaseCrossValidator",
        "sklearn.metrics._dist_metrics:DistanceMetric",
        "sklearn.model_selection._split:BaseShuffleSplit",
        "sklearn.model_selection._split:_RepeatedSplits",
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

_SWITCHES = ("sklearn.experimental.enable_halving_search_cv", "sklearn.experimental.enable_iterative_imputer")
"""Importing them adds names to packages: done first, so that the list is the same whoever imported them before."""

_STATE = frozenset(
    {
        TREE,
        PREDICTOR,
        "sklearn._loss.link.Interval",
        "sklearn.calibration._CalibratedClassifier",
        "scipy.interpolate._bsplines.BSpline",
        "sklearn.cluster._bisect_k_means._BisectingTree",
        "sklearn.cluster._birch._CFNode",
        "sklearn.cluster._birch._CFSubcluster",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.impute._iterative._ImputerTriplet",
        "sklearn.metrics._scorer._MultimetricScorer",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._search.ParameterGrid",
        "sklearn.model_selection._search.ParameterSampler",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "collections.OrderedDict",
        "catboost.core.CatBoost",
        "catboost.core.CatBoostClassifier",
        "catboost.core.CatBoostRanker",
        "catboost.core.CatBoostRegressor",
        "lightgbm.basic.Booster",
        "xgboost.callback.EarlyStopping",
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
        *(f"sklearn.metrics._scorer.{kind}_likelihood_ratio" for kind in ("negative", "positive")),
        *(f"sklearn.feature_extraction.text.strip_{what}" for what in ("accents_ascii", "accents_unicode", "tags")),
    }
)

_FUNCTION_MODULES = (
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
    "sklearn.metrics.cluster._bicluster",
    "sklearn.metrics.cluster._supervised",
    "sklearn.metrics.cluster._unsupervised",
    "sklearn.metrics.pairwise",
    "sklearn.neighbors._base",
    "sklearn.preprocessing._data",
)
"""Modules whose own functions compute on arrays and do nothing else."""

_PICKLE_ONLY = frozenset(
    {
        "numpy._core._internal._convert_to_stringdtype_kwargs",
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
        "numpy.random.bit_generator.__pyx_unpickle_SeedSequence",
        "sklearn.metrics._dist_metrics.newObj",
        "sklearn.neighbors._ball_tree.newObj",
        "sklearn.neighbors._kd_tree.newObj",
        *(f"sklearn._loss._loss.__pyx_unpickle_{loss.rpartition('.')[2]}" for loss in LOSSES if "._loss." in loss),
    }
)
"""What a pickle calls to put together what a ``.skops`` file keeps as data."""


_PICKLE_CALLS = frozenset(
    {
        *LOSSES,
        TREE,
        *(
            f"builtins.{name}"
            for name in (
                *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object"),
                *("range", "set", "slice", "str", "tuple", "type"),
            )
        ),
        *(f"collections.{name}" for name in ("ChainMap", "Counter", "OrderedDict", "defaultdict", "deque")),
        *(f"datetime.{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
        "decimal.Decimal",
        "fractions.Fraction",
        "functools.partial",
        *(f"ipaddress.IPv{version}{kind}" for version in (4, 6) for kind in ("Address", "Interface", "Network")),
        "operator.itemgetter",
        *(f"pathlib.{name}" for name in ("PurePath", "PurePosixPath", "PureWindowsPath")),
        "random.Random",
        "re._compile",
        "re.compile",
        "types.SimpleNamespace",
        "uuid.SafeUUID",
        "zoneinfo.ZoneInfo",
        "numpy.dtype",
    }
)
"""What a pickle calls beside those; with which arguments, says :mod:`vitrify.pickles.arguments`."""

_METHODS = frozenset({"zoneinfo.ZoneInfo._unpickle"})
"""What a pickle reaches as an attribute of a class, to call it."""

_OWN_METHODS = frozenset(
    f"sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoosting{kind}._raw_predict"
    for kind in ("Classifier", "Regressor")
)
"""What scikit-learn leaves in the attributes of an estimator that stopped early: the estimator's own method."""

_SPARSE = frozenset(f"scipy.sparse._{layout}.{layout}_{kind}" for layout in _LAYOUTS for kind in ("array", "matrix"))

_INDEXES = {
    "base": "Index",
    "category": "CategoricalIndex",
    "datetimes": "DatetimeIndex",
    "interval": "IntervalIndex",
    "multi": "MultiIndex",
    "period": "PeriodIndex",
    "range": "RangeIndex",
    "timedeltas": "TimedeltaIndex",
}
_ARRAYS = {
    "boolean": "BooleanArray",
    "datetimes": "DatetimeArray",
    "floating": "FloatingArray",
    "integer": "IntegerArray",
    "interval": "IntervalArray",
    "period": "PeriodArray",
    "string_": "StringArray",
    "timedeltas": "TimedeltaArray",
}
_WIDTHS = (*("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"), "Float32", "Float64", "Boolean")
_DTYPES = (
    *("CategoricalDtype", "DatetimeTZDtype", "IntervalDtype", "PeriodDtype", "StringDtype"),
    *(f"{width}Dtype" for width in _WIDTHS),
)

_PANDAS_STATES = frozenset(
    {
        *("pandas.DataFrame", "pandas.Series", "pandas.Categorical", "pandas.core.frame.DataFrame"),
        *("pandas.core.series.Series", "pandas.core.arrays.categorical.Categorical"),
        *("pandas.core.internals.managers.BlockManager", "pandas.core.internals.managers.SingleBlockManager"),
        *(f"pandas.{name}" for name in _DTYPES),
        *(f"pandas.core.dtypes.dtypes.{name}" for name in _DTYPES[:4]),
        *(f"pandas.arrays.{name}" for name in _ARRAYS.values()),
        *(f"pandas.core.arrays.{module}.{name}" for module, name in _ARRAYS.items()),
    }
)
_PANDAS_CALLS = frozenset(
    {
        *("pandas.Interval", "pandas.Period", "pandas._libs.interval.Interval"),
        *("pandas._libs.arrays.__pyx_unpickle_NDArrayBacked", "pandas._libs.internals._unpickle_block"),
        "pandas._libs.tslibs.nattype._nat_unpickle",
        "pandas._libs.tslibs.timedeltas._timedelta_unpickle",
        "pandas._libs.tslibs.timestamps._unpickle_timestamp",
        "pandas.core.indexes.base._new_Index",
        "pandas.core.indexes.datetimes._new_DatetimeIndex",
        "pandas.core.indexes.interval._new_IntervalIndex",
        "pandas.core.indexes.period._new_PeriodIndex",
        "pandas.core.indexes.timedeltas._new_TimedeltaIndex",
        *(f"pandas.core.internals.managers.{name}" for name in ("BlockManager", "SingleBlockManager")),
        *(f"pandas.{name}" for name in _DTYPES),
    }
)
_REFER_IN_PICKLE = frozenset(
    {
        *(f"numpy.random._{module}.{name}" for module, name in (("pcg64", "PCG64"), ("sfc64", "SFC64"))),
        *(f"numpy.random._{module}.{name}" for module, name in (("philox", "Philox"), ("mt19937", "MT19937"))),
        "numpy.random._pcg64.PCG64DXSM",
        *("numpy.random.bit_generator.SeedSequence", "numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"),
        *("builtins.complex", "builtins.dict", "builtins.frozenset", "builtins.range", "pandas.NA"),
        *("collections.OrderedDict", "datetime.datetime", "datetime.date", "decimal.Decimal"),
        "numpy.random._pickle.__bit_generator_ctor",
        *(f"pandas.{name}" for name in _INDEXES.values()),
        *(f"pandas.core.indexes.{module}.{name}" for module, name in _INDEXES.items()),
    }
)

_UFUNC_MODULES = {
    "numpy": (
        *("numpy", "numpy._core._multiarray_umath", "numpy._core.umath"),
        *("numpy.core._multiarray_umath", "numpy.core.umath"),
    ),
    "scipy.special": ("scipy.special", "scipy.special._ufuncs", "scipy.special._special_ufuncs"),
}
"""Where universal functions are, and where they say or said that they live."""


def table() -> dict[str, str]:
    """Return letters by name, from the rules above and from the libraries that are installed here."""
    letters: dict[str, set[str]] = {}
    for names, uses in (
        *((_STATE, "sr"), (_CALL, "c"), (_REFER, "r"), (_PICKLE_ONLY, "C"), (_PICKLE_CALLS, "C")),
        *((_SPARSE, "S"), (_PANDAS_STATES, "Sr"), (_PANDAS_CALLS, "C"), (_REFER_IN_PICKLE, "R")),
        *((["uuid.UUID", "zoneinfo.ZoneInfo", "collections.ChainMap"], "S"), (_offsets(), "CS")),
        *((_METHODS, "CM"), (_OWN_METHODS, "MR"), (python.methods(), "MR"), (arrays.methods(), "MR")),
        *((python.functions(), "r"), (arrays.functions(), "r"), (frames.FUNCTIONS, "r"), (python.errors(), "CR")),
        *((python.CALLS, "C"), (arrays.CALLS, "C"), (frames.CALLS, "C"), (arrays.results(), "CS")),
        *((python.STATES, "S"), (arrays.STATES, "S"), (frames.STATES, "S"), (arrays.distributions(), "S")),
        *((python.TYPES, "R"), (arrays.TYPES, "R"), (frames.TYPES, "R"), (arrays.frozen(), "S")),
        *((_model_classes(), "sr"), (_functions(), "r"), (_numpy(), "r"), (_distributions(), "r")),
    ):
        for dotted in names:
            letters.setdefault(_spaced(dotted), set()).update(uses)
    return {name: "".join(sorted(letters[name])) for name in sorted(letters)}


def _spaced(dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    return f"{module} {name}"


def _model_classes() -> Iterator[str]:
    """Estimators, splitters, kernels: classes of a trusted package that have one of its trusted bases."""
    for switch in _SWITCHES:
        importlib.import_module(switch)
    for package, bases in _STATE_BASES.items():
        wanted = tuple(getattr(importlib.import_module(module), name) for module, name in _pairs(bases))
        for module in _modules(package):
            for name, value in vars(module).items():
                if isinstance(value, type) and issubclass(value, wanted) and _at_home(value, module.__name__):
                    yield f"{module.__name__}.{name}"


def _pairs(bases: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(module, name) for module, _, name in (base.partition(":") for base in bases)]


def _at_home(cls: type, module: str) -> bool:
    """Whether a class is defined in a module, or shown by a package that it is in: not merely imported there."""
    return cls.__module__ == module or cls.__module__.startswith(f"{module}.")


def _modules(package: str) -> Iterator[ModuleType]:
    """Import every module of a package that may hold models."""
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.iter_modules(root.__path__, f"{package}."):
        if _SIDE_ROOMS.isdisjoint(found.name.split(".")) and not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # it needs what is not installed
                if found.ispkg:
                    yield from _modules(found.name)
                else:
                    yield importlib.import_module(found.name)


def _functions() -> Iterator[str]:
    for name in _FUNCTION_MODULES:
        for attribute, value in vars(importlib.import_module(name)).items():
            if callable(value) and getattr(value, "__module__", None) == name:
                yield f"{name}.{attribute}"


def _numpy() -> Iterator[str]:
    """Universal functions, and the classes of NumPy's scalars and types."""
    import numpy as np

    for home, modules in _UFUNC_MODULES.items():
        for name, value in vars(importlib.import_module(home)).items():
            if isinstance(value, np.ufunc):
                yield from (f"{module}.{name}" for module in modules)
    yield from (f"numpy.{name}" for name, value in vars(np).items() if _is_kind(value, np.generic))
    yield from (f"numpy.dtypes.{name}" for name, value in vars(np.dtypes).items() if _is_kind(value, np.dtype))


def _is_kind(value: Any, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)


def _distributions() -> Iterator[str]:
    """A distribution of scipy.stats, which a randomised search draws from."""
    from scipy import stats

    for name, value in vars(stats).items():
        if any(base.__name__ == "rv_generic" for base in type(value).__mro__):
            yield f"scipy.stats.{name}"


def _offsets() -> Iterator[str]:
    """Frequencies of pandas: a number and a few flags."""
    from pandas._libs.tslibs import offsets

    for name, value in vars(offsets).items():
        if _is_kind(value, offsets.BaseOffset) and value.__module__ == offsets.__name__:
            yield f"{offsets.__name__}.{name}"


def text() -> str:
    """Return the list as it is shipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library says about its own modules
        return "".join(f"{name} {letters}\n" for name, letters in table().items())


if __name__ == "__main__":
    TABLE.write_text(text(), "ascii")
