"""scikit-learn's encoders of targets, where one of them is the model itself.

Source: ``sklearn/preprocessing/_label.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import Column, Data, Frame
from vitrify.transforms.convert._building.graph import I64, Graph
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn.encode import category_index


def _column(graph: Graph, data: Data) -> Column:
    if isinstance(data, Frame):
        if len(data.columns) != 1:
            refuse(f"gets {len(data.columns)} columns and encodes one", "give it one column")
        return data.columns[0]
    return Column("y", graph.reshape(data, -1))


@converts("sklearn.LabelEncoder")
def label_encoder(steps: Steps, step: Any, data: Data) -> Outcome:
    """The label's number; an unknown one fails."""
    graph, classes = steps.graph, np.asarray(step.classes_)
    if classes.dtype.kind == "U":
        size = classes.dtype.itemsize // np.dtype("U1").itemsize
        message = f"cuts labels to {size} characters, as its classes are an array of text that long at most"
        refuse(message, "fit it on labels of dtype object, such as a pandas column")
    index = category_index(graph, _column(graph, data), classes)
    return Outcome(features=graph.gather(np.arange(len(step.classes_)), index))


@converts("sklearn.LabelBinarizer")
def label_binarizer(steps: Steps, step: Any, data: Data) -> Outcome:
    """One column a label; an unknown label has none."""
    graph, classes = steps.graph, np.asarray(step.classes_)
    if step.y_type_.startswith("multilabel"):
        refuse("was fitted on several labels a row", "leave the step out: such labels are binary already")
    if len(classes) == 2:  # noqa: PLR2004 (binary)
        message = "has two labels: one column, but two as soon as a batch has a label that is neither"
        refuse(message, "use OneHotEncoder(drop='if_binary', handle_unknown='ignore')")
    index = category_index(graph, _column(graph, data), classes)
    table = np.full((len(classes) + 1, len(classes)), step.neg_label, np.int64)
    table[np.arange(len(classes)), np.arange(len(classes))] = step.pos_label
    if len(classes) == 1:
        table = np.full((2, 1), step.neg_label, np.int64)
    return Outcome(features=graph.cast(graph.gather(table, index), I64))
