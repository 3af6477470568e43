"""The values of a graph that is replayed on JAX, and how its operators are registered.

A value is JAX's array, NumPy's where it is constant, or :class:`Sizes`: whole numbers of a shape, of which the exporter
keeps some symbolic. Sizes stay sizes as long as operators of shapes use them only.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto, helper

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._sizes import Sizes, is_constant
from vitrify.transforms.replay.walk import Node, Ops

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]

OPS = Ops("JAX")
Tensor = Any
"""An array of JAX, or a traced one."""

_NUMBERS = "biufcV"
_TYPES = frozenset(
    {
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL"),
        *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    }
)
_WHOLE = (TensorProto.INT64, TensorProto.INT32)


def tensor(value: Any) -> Tensor:
    """Return any value as an array of JAX.

    Raises:
        UnsupportedModelError: It is text.
    """
    if isinstance(value, Sizes):
        flat = [jnp.asarray(size).astype(value.dtype) for size in value.values.flat]
        return jnp.stack(flat).reshape(value.values.shape) if flat else jnp.zeros(value.values.shape, value.dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in _NUMBERS:
            msg = "a tensor of text, and JAX has none"
            raise UnsupportedModelError(msg, remedy="keep the ONNX form, or make numbers of it before the model")
        return jnp.asarray(value)
    return value


def dtype_of(number: int) -> np.dtype[Any]:
    """Return ONNX's element type as NumPy's.

    Raises:
        UnsupportedModelError: It is not replayed.
    """
    name = TensorProto.DataType.Name(number)
    if name not in _TYPES:
        msg = f"element type {name}, which is not replayed on JAX"
        raise UnsupportedModelError(msg, remedy="cast to a number of 8 to 64 bits")
    found: np.dtype[Any] = np.dtype(helper.tensor_dtype_to_np_dtype(number))
    return found


def ints(value: Any) -> list[Any]:
    """Return whole numbers, of which some may be symbolic.

    Raises:
        UnsupportedModelError: They are computed from data.
    """
    if isinstance(value, Sizes):
        return list(value.values.flat)
    return [int(number) for number in constant(value).flat]


def constant(value: Any) -> Array:
    """Return a value that is known before the model runs.

    Raises:
        UnsupportedModelError: It is computed from data: sizes that depend on data cannot be compiled.
    """
    if isinstance(value, (Sizes, jax.core.Tracer)):
        msg = "a size or an axis is computed from data, and JAX compiles for sizes that are known"
        raise UnsupportedModelError(msg, remedy="make it a constant of the graph, or keep the ONNX form")
    return np.asarray(value)


def raw(*kinds: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that gets values as they are."""
    return OPS.op(*kinds, domain=domain)


def op(*kinds: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that gets arrays; sizes alone are computed as sizes where that is possible."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(node: Node, *given: Any) -> Any:
            if any(isinstance(value, Sizes) for value in given):
                answer = _computed(node, given)
                if answer is not None:
                    return answer
            return function(node, *(None if value is None else tensor(value) for value in given))

        OPS.op(*kinds, domain=domain)(called)
        return function

    return register


_ON_SIZES: dict[str, Callable[..., Any]] = {
    "Add": lambda x, y: x + y,
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: x // y,
    "Mod": lambda x, y: x % y,
    "Neg": lambda x: -x,
    "Identity": lambda x: x,
}


def _computed(node: Node, given: tuple[Any, ...]) -> Sizes | Array | None:
    """Return what whole numbers give, some of them symbolic; None for what has to be data."""
    if node.kind == "Cast" and isinstance(given[0], Sizes) and (to := node.get("to")) in _WHOLE:
        return Sizes.of(given[0].values, dtype_of(to))
    if node.kind not in _ON_SIZES or not all(isinstance(one, Sizes) or is_constant(one) for one in given):
        return None
    values = [one.values if isinstance(one, Sizes) else np.asarray(one, dtype=object) for one in given]
    if any(isinstance(one, (float, np.floating)) for value in values for one in value.flat):
        return None
    dtype = next(one.dtype for one in given if isinstance(one, Sizes))
    return Sizes.of(_ON_SIZES[node.kind](*values), dtype)
