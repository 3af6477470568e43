"""Signature: the named inputs and outputs of a model.

A table has one field a column, of shape ``("batch",)``; a tensor has one field with all its dimensions. A
dimension is a number, or a string where it may change from call to call; fields that share a string share
the size.
"""

from __future__ import annotations

from vitrify.core.errors import MalformedError, SignatureError
from vitrify.core.html import html_table
from vitrify.core.wire import Value

BATCH = "batch"
"""The symbolic first dimension of everything that has one."""

_SHOWN_LABELS = 8

Scalar = str | int | float | bool | None
Container = str
"""The catalog's name of what the model is called with: ``numpy`` (one array), ``pandas``, ``polars``, ``torch`` (one
tensor), ``dict``, ``tuple``, ``records``, or a third party's."""

DTYPES = frozenset(
    {
        *(f"int{bits}" for bits in (8, 16, 32, 64)),
        *(f"uint{bits}" for bits in (8, 16, 32, 64)),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        *("bool", "string", "object", "bytes"),
        *(f"{kind}[{unit}]" for kind in ("datetime64", "timedelta64") for unit in ("D", "s", "ms", "us", "ns")),
    }
)
"""Element types. ``string`` is text with missing values allowed (None or NaN, kept apart)."""


class Field(Value, frozen=True, kw_only=True):
    """One named input or output.

    Attributes:
        name: Unique text; the column's or tensor's name.
        key: The original name where that was no string (a column called 2), as JSON; else None.
        dtype: One of ``DTYPES``.
        shape: Numbers, or names of dimensions that may change.
        nullable: Values may be missing. Integers and booleans are then masked arrays.
        categories: The allowed values in order, for a categorical input.
        ordered: Whether the categories have an order.
        classes: For a classifier's output, the class labels in the order of their columns.
        container_dtype: The container's own name for the type where ``dtype`` does not say it all
            (``Int64``, ``category``), so that the model is called with what it was fitted on.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] = (BATCH,)
    nullable: bool = False
    categories: tuple[Scalar, ...] | None = None
    ordered: bool = False
    classes: tuple[Scalar, ...] | None = None
    key: Scalar | tuple[Scalar, ...] = None
    container_dtype: str | None = None

    def __post_init__(self) -> None:
        """Refuse an element type or a size that nobody could make."""
        if self.dtype not in DTYPES:
            msg = f"field {self.name!r}: unknown dtype {self.dtype!r}"
            raise ValueError(msg)
        if not all(size if isinstance(size, str) else size >= 0 for size in self.shape):
            msg = f"field {self.name!r}: a size is a number from 0 or a name, not {self.shape}"
            raise ValueError(msg)

    @property
    def batched(self) -> bool:
        """Whether the first dimension is the batch."""
        return bool(self.shape) and self.shape[0] == BATCH

    def _repr_html_(self) -> str:
        """Show it as a table of one row."""
        return _html_fields([("", self)])

    def __str__(self) -> str:
        """Return ``name: dtype[shape]``, with a question mark where values may be missing."""
        shape = ", ".join(str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}{'?' if self.nullable else ''}[{shape}]"


class Signature(Value, frozen=True, kw_only=True):
    """The inputs, the outputs, and the container that the model itself is called with."""

    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...] = ()
    container: Container = "numpy"

    def __post_init__(self) -> None:
        """Refuse two fields with one name."""
        for fields in (self.inputs, self.outputs):
            names = [field.name for field in fields]
            if len(set(names)) != len(names):
                msg = f"two fields of a signature have the same name: {names}"
                raise MalformedError(msg)

    def input(self, name: str) -> Field:
        """Return one input by name, or raise SignatureError."""
        return _by_name(self.inputs, name)

    def output(self, name: str) -> Field:
        """Return one output by name, or raise SignatureError."""
        return _by_name(self.outputs, name)

    @property
    def is_table(self) -> bool:
        """Whether the inputs are the columns of a table."""
        return self.container in {"pandas", "polars", "records"}

    @property
    def batched(self) -> bool:
        """Whether every input starts with the batch dimension, so that rows can be added and taken away."""
        return bool(self.inputs) and all(field.batched for field in self.inputs)

    def __str__(self) -> str:
        """Return the fields, a line each."""
        inputs, outputs = ([f"  {field}" for field in fields] for fields in (self.inputs, self.outputs))
        return "\n".join([f"inputs ({self.container})", *inputs, "outputs", *outputs])

    def _repr_html_(self) -> str:
        """Show it as a table with a row for each field."""
        rows = [("input", field) for field in self.inputs] + [("output", field) for field in self.outputs]
        return _html_fields(rows)


def _by_name(fields: tuple[Field, ...], name: str) -> Field:
    for field in fields:
        if field.name == name:
            return field
    msg = f"no field is called {name!r} (there are: {', '.join(field.name for field in fields)})"
    raise SignatureError(msg)


def _html_fields(rows: list[tuple[str, Field]]) -> str:
    return html_table(
        ("", "name", "type", "shape", "missing values", "labels"),
        [
            (
                side,
                field.name,
                field.container_dtype or field.dtype,
                ", ".join(map(str, field.shape)),
                "yes" if field.nullable else "no",
                _labels(field.categories or field.classes or ()),
            )
            for side, field in rows
        ],
    )


def _labels(values: tuple[Scalar, ...]) -> str:
    shown = ", ".join(map(str, values[:_SHOWN_LABELS]))
    return f"{shown}, ... ({len(values)})" if len(values) > _SHOWN_LABELS else shown
