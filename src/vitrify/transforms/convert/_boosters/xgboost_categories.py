"""Categories as XGBoost numbers them: by their place in the training frame, which the model file keeps.

XGBoost (3.1 and later) looks for a value by bisection and takes the first category that is not smaller, whether it
equals the value or not; only what is larger than all is refused. Text is compared byte by byte, and bytes are signed:
what is not ASCII comes first. (A category that is not ASCII itself is cut off when it is kept, and not found again.)
ONNX has no order of text, but the texts up to a given one are a regular language.

Source: ``src/encoder/ordinal.h``, and XGBoost's answers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._boosters.codes import codes
from vitrify.transforms.convert._building.data import NAN_TEXT, NONE_TEXT
from vitrify.transforms.convert._building.graph import BOOL, F64, I64, TEXT
from vitrify.transforms.convert._building.steps import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.transforms.convert._building.data import Column
    from vitrify.transforms.convert._building.graph import Array, Graph, Tensor

_REGEX_OPSET = 20
_ASCII = 0x80
_LAST = 0x10FFFF


def next_codes(graph: Graph, column: Column, categories: Sequence[Any]) -> Tensor:
    """Return the place of the first category that is not smaller; NaN where there is none, or the value is missing."""
    if column.tensor.dtype != TEXT:
        return _next_number(graph, column.tensor, np.asarray(categories))
    if graph.opset < _REGEX_OPSET:
        refuse(f"orders the text of column {column.key!r}, which ONNX can from opset 20 on", "leave opset out")
    if odd := [text for text in categories if not text.isascii()]:
        msg = f"has categories beyond ASCII in column {column.key!r} ({odd[0]!r}), which XGBoost cuts off"
        refuse(msg, "rename the categories (cat.rename_categories), or encode the column before the model")
    exact = codes(graph, column, categories)
    missing = [graph.compare("Equal", column.tensor, np.array([mark], object)) for mark in (NONE_TEXT, NAN_TEXT)]
    absent = graph.op("Or", *missing, dtype=BOOL)
    unseen = graph.op("And", graph.op("IsNaN", exact, dtype=BOOL), graph.op("Not", absent, dtype=BOOL), dtype=BOOL)
    # Regular expressions are slow, so only the unseen values see them.
    rows = graph.op("Transpose", graph.op("NonZero", unseen, dtype=I64), dtype=I64)
    texts = graph.op("GatherND", column.tensor, rows, dtype=TEXT)
    return graph.op("ScatterND", exact, rows, _next_text(graph, texts, categories), dtype=graph.real(F64))


def _next_number(graph: Graph, x: Tensor, values: Array) -> Tensor:
    order = np.argsort(values)
    larger = graph.compare("Greater", graph.column(x), values[order].reshape(1, -1))
    rank = graph.reduce("ReduceSum", graph.cast(larger, I64), 1)
    found = graph.gather(np.append(order.astype(np.float64), np.nan), rank)
    if x.dtype.kind != "f":
        return found
    return graph.where(graph.op("IsNaN", x, dtype=BOOL), np.array(np.nan), found)


def _next_text(graph: Graph, texts: Tensor, categories: Sequence[str]) -> Tensor:
    order = sorted(range(len(categories)), key=categories.__getitem__)
    matches = [
        graph.column(graph.cast(graph.op("RegexFullMatch", texts, dtype=BOOL, pattern=_up_to(categories[place])), I64))
        for place in order
    ]
    rank = graph.reduce("ReduceSum", graph.concat(matches), 1)  # of the categories that are not smaller
    return graph.gather(np.append(np.nan, np.array(order[::-1], np.float64)), rank)


def _up_to(text: str) -> str:
    """Return a regular expression of all texts that are not larger.

    Such a text is a beginning of this one, or leaves it at some character for a smaller one.
    """
    ways = []
    for length, character in enumerate(text):
        begin = "".join(map(_escaped, text[:length]))
        ways.append(begin)
        ways.append(f"{begin}[{_smaller(ord(character))}].*")
    ways.append("".join(map(_escaped, text)))
    return f"(?s:{'|'.join(ways)})"


def _smaller(point: int) -> str:
    """Return the characters before one of ASCII, as a class: those of ASCII come after all others."""
    others = f"\\x{{{_ASCII:x}}}-\\x{{{_LAST:x}}}"
    return f"{others}\\x00-\\x{point - 1:02x}" if point else others


def _escaped(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"
