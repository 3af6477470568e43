"""Columns: the fields of a document, and what is computed from them before a model sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import tostring

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.transforms.convert._pmml.elements import element, reference, references

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from vitrify.core.signature import Field, Signature

DType = np.dtype[Any]
F32, F64, TEXT = np.dtype(np.float32), np.dtype(np.float64), np.dtype(object)
NONE = "\ue000none"
"""What stands for None among text where it is not simply missing, as NaN always is; a private-use character."""


@dataclass(frozen=True)
class Column:
    """One column: its field, the type that the source holds it in, and what the signature says of it."""

    name: str
    dtype: DType
    key: Any = None
    field: Field | None = None


@dataclass(frozen=True)
class Table:
    """The columns that reach a step.

    Attributes:
        columns: In order.
        made: Whether a step of the model made it: its columns are then found by place, not by name.
        frame: Whether the source holds a table, each column in a type of its own, and not one array.
    """

    columns: tuple[Column, ...]
    made: bool = False
    frame: bool = False

    def named(self, key: Any) -> Column:
        """Return one column by its name in the source's table."""
        for column in self.columns:
            if column.key == key:
                return column
        msg = f"the model asks for a column {key!r}, which the signature does not have"
        raise UnsupportedModelError(msg, remedy="save the model with an example that has the columns it was fitted on")


def kind(dtype: DType) -> str:
    """Return PMML's type of a column."""
    return "string" if dtype == TEXT else "float" if dtype == F32 else "double"


class Fields:
    """The fields of one document.

    Attributes:
        table: The inputs, as the model is called with them.
        ports: Signature input to its fields.
        unfit: By field, what is wrong with an input that no field can hold.
        none_apart: Whether None is other text and not simply missing.
    """

    def __init__(self, signature: Signature) -> None:
        """Declare the inputs."""
        self._taken: set[str] = set()
        self._declared: dict[str, Element] = {}
        self._derived: dict[str, Element] = {}
        self._known: dict[bytes, Column] = {}
        self.ports: dict[str, list[str]] = {}
        self.unfit: dict[str, Finding] = {}
        self.none_apart = False
        columns = [column for item in signature.inputs for column in self._declare(item)]
        frame = signature.is_table and all(len(item.shape) == 1 for item in signature.inputs)
        if not frame and len(signature.inputs) != 1:
            message = f"{len(signature.inputs)} arrays; an estimator is called with one array or one table"
            remedy = "save the model with an array or a data frame"
            self.unfit |= {c.name: Finding(place="signature", message=message, remedy=remedy) for c in columns}
        self.table = Table(tuple(columns), frame=frame)

    def reserve(self, name: str) -> str:
        """Return a name that no field has yet, as near to ``name`` as can be."""
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found

    def _declare(self, item: Field) -> list[Column]:
        sizes = item.shape[1:]
        place = f"input {item.name!r}"
        dtype = TEXT if item.dtype == "string" else F64
        if item.dtype not in {"string", "object", "bytes"}:
            dtype = np.dtype(item.dtype)
        problem = None
        if dtype.kind not in "biufO" or item.dtype in {"object", "bytes", "bfloat16"}:
            problem = f"{item.dtype} is no type that a field can have"
        elif len(sizes) > 1 or not all(isinstance(size, int) for size in sizes):
            problem = f"it has the shape {item.shape}, and a field holds one value a row"
        count = int(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], int) else 1
        names = [self.reserve(f"{item.name}_{at}" if sizes else item.name) for at in range(count)]
        self.ports[item.name] = names
        key = item.name if item.key is None else None if item.key == (None,) else item.key
        columns = []
        for name in names:
            if problem:
                remedy = "turn it into numbers or text before the model"
                self.unfit[name] = Finding(place=place, message=problem, remedy=remedy)
            column = Column(name, F32 if dtype == np.float16 else dtype, key, None if sizes else item)
            continuous = dtype != TEXT
            about = {
                "name": name,
                "optype": "continuous" if continuous else "categorical",
                "dataType": kind(column.dtype),
            }
            values = [] if continuous else [value for value in item.categories or () if isinstance(value, str)]
            self._declared[name] = element("DataField", about, *(element("Value", {"value": v}) for v in values))
            columns.append(column)
        return columns

    def derive(self, name: str, dtype: DType, expression: Element, *, ordered: bool = False) -> Column:
        """Return a column that is computed; the same expression is computed once. Ordered text can be compared."""
        content = kind(dtype).encode() + tostring(expression)
        if (known := self._known.get(content)) is None:
            optype = "categorical" if dtype == TEXT and not ordered else "continuous"
            known = Column(self.reserve(name), dtype)
            about = {"name": known.name, "optype": optype, "dataType": kind(dtype)}
            self._derived[known.name] = element("DerivedField", about, expression)
            self._known[content] = known
        return replace(known, dtype=dtype)

    def cast(self, column: Column, dtype: DType) -> Column:
        """Return a column in another type, rounded as the source rounds it."""
        if column.dtype == TEXT and dtype != TEXT:
            msg = "text reaches a step that computes with numbers"
            raise UnsupportedModelError(msg, remedy="encode the text first (OneHotEncoder, OrdinalEncoder)")
        if kind(column.dtype) == kind(dtype):
            return replace(column, dtype=dtype)
        return self.derive(f"{kind(dtype)}({column.name})", dtype, reference(column.name))

    def used(self, names: Iterable[str]) -> tuple[list[str], list[Element]]:
        """Return the inputs and the computed fields that some fields depend on, each in the order of its making."""
        wanted, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in wanted:
                wanted.add(name)
                waiting += references(self._derived[name]) if name in self._derived else ()
        inputs = [name for name in self._declared if name in wanted]
        return inputs, [made for name, made in self._derived.items() if name in wanted]

    def declaration(self, name: str) -> Element:
        """Return an input's ``DataField``."""
        return self._declared[name]
