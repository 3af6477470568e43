"""How a function of JAX is called with named arrays, and how what it returns becomes named arrays.

A tree of arguments is positions and keywords; its leaves are named by their way in it: ``input_0`` and so on by
position, a keyword by itself, what is inside joined with ``_``. A lone output is ``output``; the parts of a tuple or
list are ``output_0`` and so on; a mapping gives its own names.

Source: pytrees, https://docs.jax.dev/en/latest/pytrees.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax import tree_util

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.signature import Signature

OUTPUT = "output"
"""The name of the one output of a function that returns an array."""


def arguments(values: Sequence[Any], signature: Signature) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments for one value an input, in the signature's order.

    A dict is passed by keywords, a tuple by position, anything else as the one argument.
    """
    if signature.container == "dict":
        names = [str(field.name if field.key is None else field.key) for field in signature.inputs]
        return (), dict(zip(names, values, strict=True))
    return tuple(values), {}


def input_names(tree: tree_util.PyTreeDef) -> list[str]:
    """Return the names of the leaves of ``(positions, keywords)``, in the tree's order."""
    filled = tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    names = []
    for path, _ in tree_util.tree_flatten_with_path(filled)[0]:
        by_position, first, *rest = (_step(step) for step in path)
        names.append("_".join([f"input_{first}" if by_position == "0" else first, *rest]))
    return _unique(names, "inputs")


def output_names(tree: tree_util.PyTreeDef) -> list[str]:
    """Return the names of the leaves of what is returned, in the tree's order."""
    filled = tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    paths = [[_step(step) for step in path] for path, _ in tree_util.tree_flatten_with_path(filled)[0]]
    sequence = isinstance(filled, (tuple, list)) and not hasattr(filled, "_fields")
    return _unique(["_".join([OUTPUT, *path] if sequence or not path else path) for path in paths], "outputs")


def plain(value: Any) -> Any:
    """Return what a function returned in Python's own containers: nothing that needs a class to be read again."""
    leaves, tree = jax.tree.flatten(value)
    return value if _is_plain(tree) else dict(zip(output_names(tree), leaves, strict=True))


def _is_plain(tree: tree_util.PyTreeDef) -> bool:
    data = tree.node_data()
    own = data is None or data[0] in {tuple, list, dict, type(None)}
    return own and all(_is_plain(child) for child in tree.children())


def _step(step: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(step, attribute):
            return str(getattr(step, attribute))
    return str(step)


def _unique(names: list[str], what: str) -> list[str]:
    if len(set(names)) < len(names):
        msg = f"two {what} of the function would have one name: {names}"
        raise UnsupportedModelError(msg, remedy="take and return flat dicts, lists or tuples of arrays")
    return names
