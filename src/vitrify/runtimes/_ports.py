"""Ports: how the arrays of a signature reach a graph, and how its answers come back under the signature's names.

Every runtime of graphs shares it, whatever made the graph. What the entry says, as converters write it:

* ``inputs``: signature input to graph input, one to one; an input that is not there is ignored by the model.
  Without it, equal names or positions;
* ``outputs``: signature output to graph output;
* ``casts``: signature output to the element type that is given back, where the graph's own is another (labels that
  were bool or text in the source);
* ``labels``: signature output to the texts that the graph's numbers stand for, where the target has no text;
* ``missing_text``: the texts that stand for None (``none``) and NaN (``nan``) in the graph, or one text for both;
  without it, missing text is refused. Where the graph gives them back, they become None and NaN again.

A vector of rows is fed as a matrix of one column where the graph asks for that, and the other way round. Values are
cast to the graph's types only where none changes; but integers round where the graph takes floats, as the source's
own cast rounds them: the converter chose that type, and parity has proven it. Missing integers become NaN there.

What a graph gives beside tensors (sequences, maps, optional values) becomes an array before it comes here; for ONNX see
:mod:`._onnx_values`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError, SignatureError, UnsupportedModelError
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature

    Array = np.ndarray[Any, Any]

_NUMBERS = {"bool", "float16", "float32", "float64"}
_NUMBERS |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Port:
    """One input or output of a graph.

    Attributes:
        name: Its name there.
        dtype: Its element type as NumPy calls it; ``object`` for text.
        shape: Its sizes; what is no number may change. None where even the rank is unknown.
    """

    name: str
    dtype: str
    shape: tuple[Any, ...] | None = None


class Ports:
    """The signature's names on one side, the graph's on the other."""

    def __init__(
        self, signature: Signature, entry: Mapping[str, Any], inputs: Iterable[Port], outputs: Iterable[Port]
    ) -> None:
        """Match them.

        Args:
            signature: Of the artifact; while a model is being saved it has no outputs yet.
            entry: What the converter remembered.
            inputs: What the graph takes.
            outputs: What it gives.

        Raises:
            MalformedError: They do not fit each other.
        """
        takes, gives = ({port.name: port for port in ports} for ports in (inputs, outputs))
        self._signature = signature
        self._ranks = {field.name: len(field.shape) for field in signature.outputs}
        self._missing_text = entry.get("missing_text")
        self._casts = dict(entry.get("casts", {}))
        self._labels = {name: np.array(texts, object) for name, texts in entry.get("labels", {}).items()}
        fields = [field.name for field in signature.inputs]
        names = entry.get("inputs") or dict(zip(fields, fields if set(fields) == set(takes) else takes, strict=False))
        self.inputs = _matched(names, takes, fields, "inputs")
        answers = entry.get("outputs") or {name: name for name in gives}
        self.outputs = _matched(answers, gives, [field.name for field in signature.outputs], "outputs")
        self._exact = {name: np.dtype(port.dtype) for name, port in takes.items() if port.dtype in _NUMBERS}

    def require_free(self) -> None:
        """Refuse a graph that fixes a size which the signature lets change, such as a batch that was baked in.

        Raises:
            UnsupportedModelError: It does; every such size is listed.
        """
        fields = {field.name: field for field in self._signature.inputs}
        problems = [
            Finding(
                place=name,
                message=f"axis {axis} is {wanted} in the graph, and {size!r} in the signature, which may change",
                remedy=f"export it with a dynamic axis, or say that it is fixed: dynamic={ {name: {axis: wanted}} }",
            )
            for name, port in self.inputs.items()
            for axis, (size, wanted) in enumerate(zip(fields[name].shape, port.shape or (), strict=False))
            if isinstance(size, str) and isinstance(wanted, int) and wanted > 0
        ]
        if problems:
            msg = f"{len(problems)} size(s) were baked into this graph"
            raise UnsupportedModelError(msg, problems=problems)

    def feeds(self, arrays: Arrays) -> Arrays:
        """Return what to feed, by the graph's names.

        Args:
            arrays: By the signature's names, as :meth:`.BaseSession._run` gets them.

        Raises:
            SignatureError: A value would change, or is missing where the graph has no place for that.
        """
        feeds = {}
        for name, port in self.inputs.items():
            array = arrays[name]
            exact = self._exact.get(port.name)
            if exact is not None and _is(array, exact, port.shape):
                feeds[port.name] = array  # nothing to do, which is what a server's requests are
                continue
            fed = _fed(array, port.dtype, name=name, missing_text=self._missing_text)
            feeds[port.name] = fed if port.shape is None else _with_rank(fed, port.shape)
        return feeds

    def answers(self, results: Mapping[str, Array]) -> Arrays:
        """Return the graph's answers by the signature's names, in its element types and shapes."""
        return {name: self._given(name, results[port.name]) for name, port in self.outputs.items()}

    def _given(self, name: str, array: Array) -> Array:
        if (labels := self._labels.get(name)) is not None:
            array = labels[array]
        if array.dtype.kind == "O":
            array = _with_missing(array, self._missing_text)
        if cast := self._casts.get(name):
            array = array.astype(object if cast in {"string", "object", "bytes"} else np.dtype(cast))
        if self._ranks.get(name) == array.ndim - 1 and array.shape[-1] == 1:
            return array[..., 0]
        return array


def _matched(names: Mapping[str, str], values: Mapping[str, Port], fields: list[str], what: str) -> dict[str, Port]:
    """Return the graph's port for each name of the signature."""
    unknown = [name for name in names.values() if name not in values]
    if what == "inputs":  # the graph may do without one that the signature has, but not the other way round
        unfit = {*(names.keys() - set(fields)), *(values.keys() - set(names.values()))}
    else:
        unfit = set(fields) - names.keys()
    if unknown or unfit:
        msg = f"the {what} {list(values)} of the graph do not fit the signature's {fields} (entry: {dict(names)})"
        raise MalformedError(msg, remedy="save or convert the model again")
    return {name: values[graph_name] for name, graph_name in names.items()}


def _fed(array: Array, wanted: str, *, name: str, missing_text: str | dict[str, str] | None) -> Array:
    """Return an array in the graph's element type.

    Raises:
        SignatureError: A value would change, or is missing where the graph has no place for that.
    """
    if wanted == "object":
        return _text(array, name=name, missing_text=missing_text)
    target = np.dtype(wanted)
    if array.dtype.kind not in "biuf":
        msg = f"{name}: {array.dtype} given, and the graph takes {wanted}"
        raise SignatureError(msg, remedy="convert the column before predicting")
    if np.ma.is_masked(array):
        if target.kind != "f":
            msg = f"{name}: missing values, and the graph takes {wanted}, which has none"
            raise SignatureError(msg, remedy="fill them before predicting, or save with an example that has some")
        present = _lossless(np.ma.getdata(array).copy(), target, name, np.ma.getmaskarray(array))
        present[np.ma.getmaskarray(array)] = np.nan
        return present
    return _lossless(np.ma.getdata(array), target, name, None)


def _lossless(array: Array, target: np.dtype[Any], name: str, ignored: Array | None) -> Array:
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(target)
        if target.kind == "f" and array.dtype.kind in "biu":
            return cast
        back = cast.astype(array.dtype)
    # The sign is compared as well: -1 becomes a large unsigned number, which becomes -1 again.
    same = ((back == array) | ((back != back) & (array != array))) & ((cast < 0) == (array < 0))  # noqa: PLR0124 (NaN)
    if ignored is not None:
        same |= ignored
    if not same.all():
        worst = array[~same].flat[0]
        msg = f"{name}: {worst!r} is {cast[~same].flat[0]!r} as {target}, which the graph takes"
        raise SignatureError(msg, remedy=f"give values that {target} holds exactly, or save with such an example")
    return cast


def _text(array: Array, *, name: str, missing_text: str | dict[str, str] | None) -> Array:
    """Return text without missing values.

    Raises:
        SignatureError: Something is no text, or is missing and the model has no text for that.
    """
    values = np.ma.filled(array.astype(object), None)
    missing = np.fromiter((value is None or value != value for value in values.flat), bool, values.size)  # noqa: PLR0124 (NaN)
    missing = missing.reshape(values.shape)
    if missing.any():
        if missing_text is None:
            msg = f"{name}: {missing.sum()} missing value(s), and text in this graph cannot be missing"
            raise SignatureError(msg, remedy="fill them before predicting, or use the model in its own format")
        marks = missing_text if isinstance(missing_text, dict) else {"none": missing_text, "nan": missing_text}
        none = np.fromiter((value is None for value in values.flat), bool, values.size).reshape(values.shape)
        values = np.where(missing, np.where(none, marks["none"], marks["nan"]).astype(object), values)
    if wrong := [value for value in values.flat if not isinstance(value, str)]:
        msg = f"{name}: {wrong[0]!r} given, and the graph takes text"
        raise SignatureError(msg, remedy="convert the column to text")
    return values


def _with_missing(array: Array, missing_text: str | dict[str, str] | None) -> Array:
    """Return text with None and NaN again where their marks stand; where both have one mark in the entry, NaN."""
    if missing_text is None:
        return array
    marks = missing_text if isinstance(missing_text, dict) else {"none": missing_text}
    found = {marks[kind]: value for kind, value in (("none", None), ("nan", np.nan)) if kind in marks}
    values = np.empty(array.size, object)
    for place, value in enumerate(array.flat):
        values[place] = found.get(value, value) if isinstance(value, str) else value
    return values.reshape(array.shape)


def _is(array: Array, dtype: np.dtype[Any], shape: tuple[Any, ...] | None) -> bool:
    """Say whether an array is what the graph takes, as it is."""
    return type(array) is np.ndarray and array.dtype == dtype and (shape is None or len(shape) == array.ndim)


def _with_rank(array: Array, wanted: tuple[Any, ...]) -> Array:
    """Make a vector a matrix of one column, or the other way round, where the graph asks for that."""
    if len(wanted) == array.ndim + 1 and wanted[-1] == 1:
        return array[..., np.newaxis]
    if 0 < len(wanted) == array.ndim - 1 and array.shape[-1] == 1:
        return array[..., 0]
    return array
