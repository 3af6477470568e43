"""What a pickle may use of pandas besides tables, indexes and blocks: Arrow and sparse columns, steps, functions."""

from __future__ import annotations

from vitrify.pickles import arrow

STATES = frozenset(
    {
        *arrow.CLASSES,
        "dateutil.relativedelta.relativedelta",
        "pandas.DateOffset",
        "pandas.SparseDtype",
        "pandas.arrays.NumpyExtensionArray",
        "pandas.arrays.SparseArray",
        "pandas.core.arrays.numpy_.NumpyExtensionArray",
        "pandas.core.arrays.sparse.array.SparseArray",
        "pandas.core.dtypes.dtypes.NumpyEADtype",
        "pandas.core.dtypes.dtypes.SparseDtype",
    }
)
CALLS = frozenset(
    {
        *arrow.CONSTRUCTORS,
        "pandas.DateOffset",
        "pandas._libs.interval.__pyx_unpickle_IntervalMixin",
        "pandas._libs.sparse.BlockIndex",
        "pandas._libs.sparse.IntIndex",
    }
)
TYPES = frozenset(
    {
        *("pandas.DataFrame", "pandas.Timedelta", "pandas.Timestamp", "pandas.arrays.NumpyExtensionArray"),
        *("pandas.arrays.IntervalArray", "pandas.arrays.SparseArray"),
    }
)
FUNCTIONS = frozenset(
    f"pandas.{name}"
    for name in (
        *("concat", "cut", "factorize", "get_dummies", "isna", "isnull", "melt", "notna", "notnull", "qcut"),
        *("to_datetime", "to_numeric", "to_timedelta", "unique"),
    )
)
"""Functions that compute on tables: none evaluates text, and none reads a file."""
