"""Treelite: its general tree inference, which answers with the value of every target and class.

What the entry says, as converters write it; a model of Treelite's own has none of it, is called with one matrix and
answers with ``prediction``:

* ``inputs``: the signature's inputs in the order of the model's features; a matrix alone is all of them;
* ``through``: the element type that numbers are rounded to before they are compared, where the source does so;
* ``missing``: a number that stands for a missing one, as NaN always does;
* ``truncate``: features that are cut to whole numbers, towards zero;
* ``zero``: a number is zero up to there;
* ``softmax``: whether the answer is the softmax of the sums: Treelite's own computes in float32 whatever they are;
* ``categories``: input to its categories, in the order of their numbers; ``unseen``: ``next`` where another value is
  taken for the next larger one, as XGBoost takes it (:func:`_next_larger`); else it is missing;
* ``answers``: output to what it is of the trees' answer: ``value``, ``target`` (of the target in the output's name),
  ``shares`` (1 - value, value), and a label: ``largest``, ``above half``, or by the margin ``positive`` and
  ``not negative``;
* ``classes``: the labels, for each target.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files

    Array = np.ndarray[Any, Any]

OUTPUT = "prediction"
_HALF = 0.5
_MATRIX = 2


class Treelite:
    """The runtime of Treelite's models."""

    def open(self, files: Files, document: Document, allow: Allow) -> TreeliteSession:
        """Read the model with its format, and predict with it."""
        return self.wrap(catalog().load("format", document.format).read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> TreeliteSession:
        """Return a session over a live model."""
        return TreeliteSession(model, signature_of(document, "a Treelite model"), document.entry)

    def signature(self, model: Any) -> Signature:
        """Return one matrix of the model's type, and what it answers."""
        classes = [int(count) for count in model.get_header_accessor().get_field("num_class")]
        matrix = Field(name="X", dtype=model.input_type, shape=(BATCH, model.num_feature), nullable=True)
        shape = _plain_shape((len(classes), max(classes)))
        answer = Field(name=OUTPUT, dtype=model.output_type, shape=(BATCH, *shape))
        return Signature(inputs=(matrix,), outputs=(answer,), container="dict")

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return nothing: the model says all."""
        del model, example
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return the field of the prediction; Treelite knows no class labels."""
        del model, entry
        return containers.output_fields(outputs, len(outputs[OUTPUT]))


class TreeliteSession(BaseSession):
    """An open model."""

    def __init__(self, model: Any, signature: Signature, entry: Mapping[str, Any]) -> None:
        """Match the signature's inputs with the model's features.

        Raises:
            MalformedError: They do not fit.
        """
        super().__init__(signature)
        self._model = model
        self._entry = entry
        self._dtype = np.dtype(model.input_type)
        self._through = np.dtype(entry.get("through", self._dtype))
        self._answers: Mapping[str, str] = entry.get("answers", {OUTPUT: "value"})
        self._inputs = entry.get("inputs") or [field.name for field in signature.inputs]
        widths = [signature.input(name).shape[1:] or (1,) for name in self._inputs]
        if [sum(int(size) for size in column) for column in zip(*widths, strict=True)] != [model.num_feature]:
            msg = f"the inputs {self._inputs} are not the {model.num_feature} feature(s) that the model compares"
            raise MalformedError(msg, remedy="save or convert the model again")

    def _run(self, inputs: Arrays) -> Arrays:
        from treelite import gtil

        x = self._matrix(inputs)
        softmax = self._entry.get("softmax", False)
        needed = softmax or {"positive", "not negative"} & set(self._answers.values())
        margin = gtil.predict(self._model, x, pred_margin=True) if needed else np.empty(0)
        value = _softmax(margin) if softmax else gtil.predict(self._model, x)
        return {name: self._answer(name, rule, value, margin) for name, rule in self._answers.items()}

    def _matrix(self, inputs: Arrays) -> Array:
        columns = [self._column(name, inputs[name]) for name in self._inputs]
        x = np.concatenate(columns, axis=1)
        if (missing := self._entry.get("missing")) is not None:
            x = np.where(x == self._through.type(missing), np.nan, x)
        if (zero := self._entry.get("zero")) is not None:
            x = np.where(np.abs(x) <= zero, 0, x)
        if chosen := self._entry.get("truncate"):
            x[:, chosen] = np.trunc(x[:, chosen])
        return np.ascontiguousarray(x, self._dtype)

    def _column(self, name: str, array: Array) -> Array:
        """Return one input as a matrix of numbers, rounded once; what is missing is NaN."""
        if (categories := self._entry.get("categories", {}).get(name)) is not None:
            array = _codes(array, categories, unseen=self._entry.get("unseen", "missing"))
        with np.errstate(over="ignore"):  # what is too large is infinite, as in the source
            numbers = np.ma.getdata(array).astype(self._through)
        if np.ma.is_masked(array):
            numbers[np.ma.getmaskarray(array)] = np.nan
        return numbers if numbers.ndim == _MATRIX else numbers.reshape(-1, 1)

    def _answer(self, name: str, rule: str, value: Array, margin: Array) -> Array:
        """Return one output, in the signature's element type."""
        if rule == "value":
            answer = value.reshape(len(value), *_plain_shape(value.shape[1:]))
        elif rule == "target":
            target = int(name.rpartition("_")[2])
            answer = value[:, target, : len(self._entry["classes"][target])]
        elif rule == "shares":
            answer = np.concatenate([1 - value[:, :, 0], value[:, :, 0]], axis=1)
        else:
            return self._label(name, rule, value, margin)
        field = next((field for field in self.signature.outputs if field.name == name), None)
        return answer if field is None else answer.astype(field.dtype)

    def _label(self, name: str, rule: str, value: Array, margin: Array) -> Array:
        classes = self._entry["classes"]
        if rule == "largest":
            found = [value[:, place, : len(labels)].argmax(axis=1) for place, labels in enumerate(classes)]
        else:
            numbers = value if rule == "above half" else margin
            above = {"above half": numbers > _HALF, "positive": numbers > 0, "not negative": numbers >= 0}[rule]
            found = [above[:, place, 0].astype(int) for place in range(len(classes))]
        field = self.signature.output(name)
        dtype = object if field.dtype == "string" else field.dtype
        labels = [np.array(known, dtype)[index] for known, index in zip(classes, found, strict=True)]
        return np.stack(labels, axis=1) if len(field.shape) == _MATRIX else labels[0]


def _softmax(margin: Array) -> Array:
    powers = np.exp(margin - margin.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _plain_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of targets and classes without what there is only one of."""
    return tuple(size for size in shape if size != 1)


def _codes(array: Array, categories: list[Any], *, unseen: str) -> Array:
    """Return each value's place among the categories; NaN for one that is not there."""
    places = {value: float(place) for place, value in enumerate(categories)}
    values = np.ma.filled(array.astype(object), None).tolist()
    if unseen == "next":
        places |= _next_larger(values, categories)
    return np.array([places.get(value, np.nan) for value in values])


def _next_larger(values: list[Any], categories: list[Any]) -> dict[Any, float]:
    """Return the places of values that are no categories: XGBoost finds the first that is not smaller, and stops there.

    Text is compared byte by byte, and bytes are signed. What is larger than all is refused there, and missing here.
    """
    order = sorted(range(len(categories)), key=lambda place: _sortable(categories[place]))
    keys = [_sortable(categories[place]) for place in order]
    new = {value for value in values if value is not None and value == value} - set(categories)  # noqa: PLR0124 (NaN)
    ranks = {value: bisect_left(keys, _sortable(value)) for value in new}
    return {value: float(order[rank]) for value, rank in ranks.items() if rank < len(order)}


def _sortable(value: Any) -> Any:
    return np.frombuffer(value.encode(), np.int8).tolist() if isinstance(value, str) else value
