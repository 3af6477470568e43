"""What an exported function takes and gives, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from vitrify.core.errors import ModelError
from vitrify.formats._jax.call import arguments, input_names, output_names
from vitrify.formats._jax.trace import symbols

if TYPE_CHECKING:
    from jax import export

    from vitrify.core.signature import Signature

Sizes = list[int | str]


def takes(exported: export.Exported) -> dict[str, Any]:
    """Return the type of each input by name, in the order of the module."""
    return dict(zip(input_names(exported.in_tree), exported.in_avals, strict=True))


def gives(exported: export.Exported) -> dict[str, Any]:
    """Return the type of each output by name, in the order of the module."""
    return dict(zip(output_names(exported.out_tree), exported.out_avals, strict=True))


def names(exported: export.Exported, signature: Signature | None) -> dict[str, Any]:
    """Return the entry that leads from a signature to the function: ``inputs``, ``outputs``, ``shapes``.

    Raises:
        ModelError: The function does not take what the signature has.
    """
    outputs = gives(exported)
    if signature is None:
        inputs = {name: name for name in takes(exported)}
        called: dict[str, str] = {}
    else:
        fields = [field.name for field in signature.inputs]
        order, tree = jax.tree.flatten(arguments(fields, signature))
        if tree != exported.in_tree:
            msg = f"the exported function takes {exported.in_tree}, and the example gives {tree}"
            raise ModelError(msg, remedy="give an example in the form in which the function was exported")
        inputs = dict(zip(order, takes(exported), strict=True))
        called = {symbol: text for text, symbol in symbols(signature).items()}
    shapes = {name: sizes(aval, called) for name, aval in outputs.items()}
    return {"inputs": inputs, "outputs": {name: name for name in outputs}, "shapes": shapes}


def sizes(aval: Any, called: dict[str, str]) -> Sizes:
    """Return a shape: numbers, and what may change by the signature's name for it."""
    return [size if isinstance(size, int) else called.get(str(size), str(size)) for size in aval.shape]
