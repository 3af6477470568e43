"""How a module is called, and how what it returns becomes named tensors: the same while saving and while predicting."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vitrify.core.errors import UnsupportedModelError
from vitrify.formats._named_outputs import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.signature import Signature

OUTPUT = "output"
"""The name of the one output of a module that returns a tensor; of several, ``output_0`` and so on."""


@contextmanager
def evaluated(model: torch.nn.Module) -> Iterator[None]:
    """Put a module and all its parts in eval mode, and give each its own mode back at the end."""
    # A frozen TorchScript module has no mode at all.
    modes = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
    # The flag is set without calling train() or eval(): exported programs refuse both, and a class may override them.
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def training(model: torch.nn.Module) -> bool:
    """Say whether any part of a module is in training mode."""
    return any(getattr(module, "training", False) for module in model.modules())


def arguments(native: Any, signature: Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of ``forward``.

    A dict is passed by name, a tuple by position, anything else as the one argument. Arrays become tensors.

    Raises:
        UnsupportedModelError: An argument is neither a tensor nor an array: a program would freeze its value.
    """
    names = [field.name for field in signature.inputs]
    if signature.container == "dict":
        return (), {str(name): _tensor(str(name), value) for name, value in native.items()}
    parts = native if signature.container == "tuple" else (native,)
    return tuple(_tensor(name, value) for name, value in zip(names, parts, strict=True)), {}


def outputs_by_name(value: Any) -> dict[str, torch.Tensor]:
    """Return the tensors that a module returned, by name.

    A tensor is ``output``; the parts of a tuple or list are ``output_0``, ``output_1``; a mapping, a dataclass or a
    named tuple gives its own names. Parts of parts are joined with ``_``. What is None is left out.

    Raises:
        UnsupportedModelError: A part is something else, or two parts have one name.
    """
    if isinstance(value, torch.Tensor):
        return {OUTPUT: value}
    found = list(leaves("", value, lambda part: isinstance(part, torch.Tensor)))
    if _is_sequence(value):
        return {f"{OUTPUT}_{position}": tensor for position, (_, tensor) in enumerate(found)}
    if len(dict(found)) != len(found):
        msg = f"two outputs have the same name: {[name for name, _ in found]}"
        raise UnsupportedModelError(msg, remedy="return a flat dict of tensors")
    return dict(found)


def plain(value: Any) -> Any:
    """Return what a module returned as a tensor, a flat tuple or a flat dict of tensors: nothing that needs a class."""
    named = outputs_by_name(value)
    if isinstance(value, torch.Tensor):
        return value
    return tuple(named.values()) if _is_sequence(value) else named


def _tensor(name: str, value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and not np.ma.is_masked(value):
        return torch.from_numpy(np.array(np.ma.getdata(value)))
    msg = f"input {name!r} is a {type(value).__name__}, and a PyTorch program takes tensors"
    raise UnsupportedModelError(msg, remedy="pass tensors; a value that never changes belongs into the module")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and not hasattr(value, "_fields")
