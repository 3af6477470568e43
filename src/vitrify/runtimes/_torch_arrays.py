"""Between NumPy's arrays and PyTorch's tensors, for every runtime on PyTorch.

bfloat16 comes out as float32, which holds it exactly: NumPy has no bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify import containers

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature


def tensor(value: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor of its own: a module may write into what it is given."""
    return torch.from_numpy(np.array(value))


def array(value: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return what a module gave."""
    dense = value.detach().cpu().resolve_conj().resolve_neg()
    plain: np.ndarray[Any, Any] = (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    return plain


def called(inputs: Arrays, signature: Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a module that is called as the signature says.

    Arrays become tensors; a number stays one.
    """
    native = containers.from_arrays(inputs, signature)
    if signature.container == "dict":
        return (), {str(name): _part(value) for name, value in native.items()}
    return tuple(_part(value) for value in (native if signature.container == "tuple" else (native,))), {}


def _part(value: Any) -> Any:
    return tensor(value) if isinstance(value, np.ndarray) else value
