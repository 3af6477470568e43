"""scikit-learn's encoders of categories: find the category's number, look up what it becomes.

What a category becomes (dropped, infrequent, one-hot, a target's mean) is asked of the fitted encoder itself,
one row a category: the graph holds its answers and none of its rules.

Source: ``sklearn/preprocessing/_encoders.py``, ``_target_encoder.py``
"""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.data import NAN_TEXT, NONE_TEXT, Column, Data, columns
from vitrify.transforms.convert._building.graph import F32, F64, I64, ML, TEXT, Array, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence


@converts("sklearn.OneHotEncoder", "sklearn.OrdinalEncoder", "sklearn.TargetEncoder")
def encoder(steps: Steps, model: Any, data: Data) -> Outcome:
    """Encode each column, then put them side by side."""
    graph = steps.graph
    tables = _tables(model)
    parts = [  # also of columns that become nothing: an unknown category of theirs fails as it does in scikit-learn
        graph.gather(graph.constant(table, "categories"), category_index(graph, column, categories))
        for column, categories, table in zip(columns(graph, data, len(tables)), model.categories_, tables, strict=True)
    ]
    return Outcome(features=graph.concat(parts))


def _tables(model: Any) -> list[Array]:
    """Return for each column what each of its categories becomes, and last, if that is allowed, an unknown value."""
    categories = model.categories_
    longest = max(len(values) for values in categories)
    allowed = getattr(model, "handle_unknown", "ignore") != "error"
    probe = np.empty((longest + allowed, len(categories)), object)
    for column, values in enumerate(categories):
        probe[:longest, column] = [values[min(row, len(values) - 1)] for row in range(longest)]
        if allowed:
            probe[longest, column] = _unknown(values)
    nameless = copy.copy(model)
    if hasattr(nameless, "feature_names_in_"):
        del nameless.feature_names_in_
    nameless._sklearn_output_config = {}  # noqa: SLF001 (an array, whatever set_output said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about the unknown value, which is there on purpose
        answer = nameless.transform(probe)
    dense = answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer)
    widths = getattr(model, "_n_features_outs", None) or [dense.shape[1] // len(categories)] * len(categories)
    blocks = np.split(dense, np.cumsum(widths)[:-1], axis=1)
    rows = [[*range(len(values)), *([longest] if allowed else [])] for values in categories]
    return [np.ascontiguousarray(block[kept]) for block, kept in zip(blocks, rows, strict=True)]


def _unknown(values: Array) -> Any:
    if values.dtype.kind in "OUS":
        return "\0unknown"
    known = set(values.tolist())
    return next(number for number in itertools.count() if number not in known)


def category_index(graph: Graph, column: Column, categories: Sequence[Any] | Array) -> Tensor:
    """Return each value's position among the categories; their number for one that is not there.

    Raises:
        UnsupportedModelError: The column and its categories are not of one kind.
    """
    tensor = column.tensor
    values = np.asarray(categories)
    if values.dtype.kind not in "OUSbiuf":
        refuse(f"column {column.key!r} holds {values.dtype}, which ONNX does not have", "turn it into numbers or text")
    places = np.arange(len(values))
    if values.dtype.kind == "O" and tensor.dtype != TEXT:
        # Numbers that were objects. A column of numbers has NaN for what is missing, which None does not equal.
        places = np.flatnonzero([value is not None for value in values.tolist()])
        values = np.array(values[places].tolist())
    if (values.dtype.kind in "OUS") != (tensor.dtype == TEXT):
        kinds = "numbers and the categories text" if tensor.dtype != TEXT else "text and the categories numbers"
        refuse(f"column {column.key!r} holds {kinds}", "save the model with the example it was fitted on")
    if tensor.dtype == TEXT:
        keys = np.array([_text(column, value) for value in values.tolist()], object)
        return lookup(graph, tensor, keys, np.arange(len(keys)), len(keys))
    target = np.result_type(tensor.dtype, values.dtype)
    target = target if target in {F32, F64} else I64
    return lookup(graph, graph.cast(tensor, target), values.astype(target), places, len(categories))


def _text(column: Column, value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return NONE_TEXT if value is None else NAN_TEXT
    if not isinstance(value, str):
        msg = f"column {column.key!r} has a category {value!r} among text"
        refuse(msg, "make the column all text or all numbers before fitting")
    return value


def lookup(graph: Graph, keys: Tensor, known: Array, values: Array, default: int) -> Tensor:
    """Return for each key the value at its place among the known ones, else the default: int64."""
    return graph.op(
        "LabelEncoder",
        keys,
        dtype=I64,
        domain=ML,
        keys_tensor=known if known.dtype == TEXT else known.astype(graph.real(known.dtype)),
        values_tensor=values.astype(np.int64),
        default_tensor=np.array([default], np.int64),
    )
