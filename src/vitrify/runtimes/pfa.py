"""PFA documents, on an engine of our own: :mod:`._pfa`.

Each field of the document's input record is an input, and each of its output record an output; what is no record is
one, called ``input`` and ``output``. Arrays in arrays become the axes after the rows. A document that writes into its
cells remembers, until it is told to forget. The entry is :mod:`._ports`'s.

Source: https://dmg.org/pfa/docs/document_structure/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.runtimes._pfa.engine import Engine
from vitrify.runtimes._pfa.types import NULL, Type
from vitrify.runtimes._ports import Port, Ports
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files
    from vitrify.formats.pfa import PfaDocument

    Array = np.ndarray[Any, Any]

INPUT, OUTPUT = "input", "output"
_DTYPES = {
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "string": "object",
    "enum": "object",
}
_REMEDY = "use records, arrays, numbers, truth values and text"


@dataclass(frozen=True)
class End:
    """One input or output of a document.

    Attributes:
        name: The record's field; INPUT or OUTPUT where there is no record.
        dtype: Its element type, as NumPy calls it.
        depth: Arrays in arrays.
        nullable: Whether an element may be missing.
    """

    name: str
    dtype: str
    depth: int
    nullable: bool

    def port(self) -> Port:
        """Return it as the port of a graph; ranks are made equal here."""
        return Port(self.name, self.dtype)

    def field(self) -> Field:
        """Return it as a field of a signature."""
        dtype = "string" if self.dtype == "object" else self.dtype
        sizes = tuple(f"{self.name}_{axis}" for axis in range(1, self.depth + 1))
        nullable = self.nullable or dtype in {"float32", "float64"}
        return Field(name=self.name, dtype=dtype, shape=(BATCH, *sizes), nullable=nullable)


class PfaRuntime:
    """The runtime of PFA documents."""

    def open(self, files: Files, document: Document, allow: Allow) -> PfaSession:
        """Compile a document from verified bytes."""
        return self.wrap(catalog().load("format", "pfa").read(files, document.entry, allow), document)

    def wrap(self, model: PfaDocument, document: Document) -> PfaSession:
        """Return a session over a document in memory."""
        signature = signature_of(document, "a PFA document")
        engine = Engine(model.content)
        made = RememberingSession if engine.stateful else PfaSession
        return made(engine, signature, document.entry)

    def signature(self, model: PfaDocument) -> Signature:
        """Return the fields of the document's input and output."""
        engine = Engine(model.content)
        inputs, outputs = (tuple(end.field() for end in _ends(engine, side)) for side in (INPUT, OUTPUT))
        return Signature(inputs=inputs, outputs=outputs, container="dict")

    def entry(self, model: PfaDocument, example: Example) -> dict[str, Any]:
        """Return nothing: the document says all."""
        del model, example
        return {}

    def describe_outputs(self, model: PfaDocument, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return the output fields; a document knows no class labels."""
        del model, entry
        return containers.output_fields(outputs, len(next(iter(outputs.values()))))


class PfaSession(BaseSession):
    """An open document."""

    def __init__(self, engine: Engine, signature: Signature, entry: Mapping[str, Any]) -> None:
        """Match the names of the signature with the document's.

        Raises:
            MalformedError: They do not fit.
            UnsupportedModelError: A field is nothing that an array can be.
        """
        super().__init__(signature)
        self._engine = engine
        self._takes, self._gives = ({end.name: end for end in _ends(engine, side)} for side in (INPUT, OUTPUT))
        ports = [end.port() for end in self._takes.values()], [end.port() for end in self._gives.values()]
        self._ports = Ports(signature, entry, *ports)
        self._record = engine.input.kind == "record", engine.output.kind == "record"

    def _run(self, inputs: Arrays) -> Arrays:
        rows = self._rows(inputs)
        answers = [self._engine.run(row) for row in rows]
        if not self._record[1]:
            answers = [{OUTPUT: one} for one in answers]
        results = {name: _column([one[name] for one in answers], end) for name, end in self._gives.items()}
        return self._ports.answers(results)

    def _rows(self, inputs: Arrays) -> list[Any]:
        missing = {port.name: _missing(inputs[name]) for name, port in self._ports.inputs.items()}
        present = {
            name: _filled(inputs[name], missing[port.name]) if self._takes[port.name].nullable else inputs[name]
            for name, port in self._ports.inputs.items()
        }
        feeds = self._ports.feeds({**inputs, **present})
        columns = {name: self._listed(feeds[name], end, missing[name]) for name, end in self._takes.items()}
        if not columns:
            return [{}] * (containers.rows(inputs, self.signature.inputs) or 1)
        rows = [dict(zip(columns, ones, strict=True)) for ones in zip(*columns.values(), strict=True)]
        return rows if self._record[0] else [row[INPUT] for row in rows]

    def _listed(self, array: Array, end: End, missing: Array | None) -> list[Any]:
        """Return one field's values, a row each, in arrays as deep as the document wants them."""
        values = np.asarray(array)
        if end.nullable and missing is not None:
            values = values.astype(object)
            values[missing] = None
        while values.ndim - 1 < end.depth:
            values = values[..., np.newaxis]
        while values.ndim - 1 > end.depth and values.shape[-1] == 1:
            values = values[..., 0]
        if values.ndim - 1 != end.depth:
            msg = f"{end.name}: {values.ndim - 1} axes after the rows given, and the document takes {end.depth}"
            raise ModelError(msg, remedy="give arrays as deep as the document's input")
        listed: list[Any] = values.tolist()
        return listed


class RememberingSession(PfaSession):
    """An open document whose answers depend on the rows before."""

    def reset(self) -> None:
        """Forget what earlier rows left behind."""
        self._engine.reset()


def _ends(engine: Engine, side: str) -> list[End]:
    """Return what a document takes or gives.

    Raises:
        UnsupportedModelError: It is nothing that an array can be; every such field is listed.
    """
    type_ = engine.input if side == INPUT else engine.output
    fields = engine.types.fields[type_.name] if type_.kind == "record" else {side: type_}
    ends, problems = [], []
    for name, one in fields.items():
        found = _end(name, one)
        if found is None:
            problems.append(Finding(place=f"{side}.{name}", message=f"{one} is no array of one type", remedy=_REMEDY))
        else:
            ends.append(found)
    if problems:
        msg = f"the {side} of this PFA document cannot be named arrays"
        raise UnsupportedModelError(msg, problems=problems)
    return ends


def _end(name: str, type_: Type) -> End | None:
    depth = 0
    while type_.kind == "array":
        type_, depth = type_.item, depth + 1
    nullable = type_.kind == "union" and NULL in type_.parts
    if nullable:
        rest = [one for one in type_.parts if one != NULL]
        if len(rest) != 1:
            return None
        (type_,) = rest
    return End(name, _DTYPES[type_.kind], depth, nullable) if type_.kind in _DTYPES else None


def _missing(array: Array) -> Array | None:
    """Return which elements are missing; None where none is."""
    if np.ma.isMaskedArray(array):
        mask: Array = np.ma.getmaskarray(array)
        return mask if mask.any() else None
    if array.dtype != object:
        return None
    found = np.fromiter((one is None or one != one for one in array.flat), bool, array.size)  # noqa: PLR0124 (NaN)
    return found.reshape(array.shape) if found.any() else None


def _filled(array: Array, missing: Array | None) -> Array:
    """Return an array with something in the place of what is missing; it is taken away again."""
    if missing is None:
        return array
    values = np.ma.getdata(array).copy()
    values[missing] = "" if values.dtype == object else 0
    return values


def _column(values: list[Any], end: End) -> Array:
    """Return one output of all rows.

    Raises:
        ModelError: Its arrays are not all as long.
    """
    try:
        array = np.array(values, object if end.nullable else end.dtype)
    except (ValueError, OverflowError) as error:
        msg = f"{end.name}: the rows' arrays are not all as long"
        raise ModelError(msg, remedy="let the document answer with as many elements for every row") from error
    if array.ndim != end.depth + 1:
        msg = f"{end.name}: the rows' arrays are not all as long"
        raise ModelError(msg, remedy="let the document answer with as many elements for every row")
    return _with_missing(array, end.dtype) if end.nullable else array


def _with_missing(array: Array, dtype: str) -> Array:
    mask = np.fromiter((one is None for one in array.flat), bool, array.size).reshape(array.shape)
    if dtype == "object":
        return array
    if np.dtype(dtype).kind == "f":
        return np.where(mask, np.nan, array).astype(dtype)
    return np.ma.MaskedArray(np.where(mask, 0, array).astype(dtype), mask)
