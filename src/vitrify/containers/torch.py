"""PyTorch: one tensor, called ``x``.

* on the CPU and without gradients;
* bfloat16, which NumPy does not have, is kept as float32 and cast back: both are exact;
* sparse, quantised and 8-bit float tensors are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.containers._match import spread
from vitrify.containers._values import describe
from vitrify.core.errors import SignatureError
from vitrify.core.signature import DTYPES

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Field

NAME = "x"


class TorchContainer:
    """One tensor."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """See :class:`vitrify.core.protocols.Container`."""
        field = describe(NAME, _array(example))
        return (field.replace(dtype="bfloat16") if example.dtype == torch.bfloat16 else field,)

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """See :class:`vitrify.core.protocols.Container`."""
        return spread(_array(data), fields, name=NAME)

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return a tensor of its own: the model may change it."""
        [field] = fields
        return tensor(arrays[field.name], field)


def tensor(array: np.ndarray[Any, Any], field: Field) -> torch.Tensor:
    """Return one array as a tensor.

    Raises:
        SignatureError: It is text, a time, or has missing values, none of which a tensor can hold.
    """
    name = field.dtype
    if not isinstance(getattr(torch, name, None), torch.dtype) or np.ma.is_masked(array):
        what = "missing values" if np.ma.is_masked(array) else name
        msg = f"{field.name}: {what} cannot be a tensor"
        raise SignatureError(msg, remedy="turn it into numbers first")
    own = np.array(np.ma.getdata(array), order="C")  # writable, without negative strides
    return torch.from_numpy(own).to(getattr(torch, name))


def _array(data: torch.Tensor) -> np.ndarray[Any, Any]:
    name = str(data.dtype).removeprefix("torch.")
    if data.layout != torch.strided or data.is_quantized or name not in DTYPES or data.is_meta:
        msg = f"a {data.layout} {data.dtype} tensor on {data.device} cannot be an input"
        raise SignatureError(msg, remedy="convert it first, for example with .to_dense() or .float()")
    dense = data.detach().cpu().resolve_conj().resolve_neg()
    array: np.ndarray[Any, Any] = (dense.float() if data.dtype == torch.bfloat16 else dense).numpy()
    return array
