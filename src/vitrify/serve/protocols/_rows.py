"""Outputs as JSON, by rows or by columns, in the words of one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import SignatureError
from vitrify.serve.protocols import _data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from vitrify.core.protocols import Arrays

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Words:
    """How a protocol says values.

    Attributes:
        constants: NaN and the infinities.
        text: From an output's name to what says its values that are no numbers.
    """

    constants: Mapping[str, bytes]
    text: Callable[[str], Callable[[Any], Any]]

    def whole(self, array: Array, name: str) -> bytes:
        """Return an output, nested as its shape is."""
        return _data.nested(array, self.constants, self.text(name))

    def parts(self, array: Array, name: str) -> list[bytes]:
        """Return each part of an output along its first dimension."""
        if array.ndim == 1 and array.dtype.kind in "biuf":  # at once: one costs as much as a thousand together
            return self.whole(array, name)[1:-1].split(b",") if len(array) else []
        return [self.whole(array[index : index + 1], name)[1:-1] for index in range(len(array))]

    def rows(self, outputs: Arrays, *, plain: bool = True) -> bytes:
        """Return outputs by rows: an object a row, or (``plain``) values where there is one output.

        Raises:
            SignatureError: The outputs have not the same number of rows.
        """
        sizes = {name: len(array) if array.ndim else None for name, array in outputs.items()}
        if len(set(sizes.values())) != 1 or None in sizes.values():
            msg = f"the outputs have no rows in common: {sizes}"
            raise SignatureError(msg, remedy="ask by columns: give inputs instead of instances")
        parts = {name: self.parts(array, name) for name, array in outputs.items()}
        if len(parts) == 1 and plain:
            (only,) = parts.values()
            return b"[" + b",".join(only) + b"]"
        names = [msgspec.json.encode(name) + b":" for name in parts]
        lines = (
            b",".join(name + value for name, value in zip(names, row, strict=True))
            for row in zip(*parts.values(), strict=True)
        )
        return b"[" + b",".join(b"{" + line + b"}" for line in lines) + b"]"

    def columns(self, outputs: Arrays) -> bytes:
        """Return outputs whole: the value where there is one, else an object of them."""
        parts = {name: self.whole(array, name) for name, array in outputs.items()}
        if len(parts) == 1:
            (only,) = parts.values()
            return only
        return b"{" + b",".join(msgspec.json.encode(name) + b":" + part for name, part in parts.items()) + b"}"
