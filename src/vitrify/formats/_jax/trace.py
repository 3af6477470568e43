"""From a live function, module or exported function to one that is exported for any size that may change.

Source: https://docs.jax.dev/en/latest/export/shape_poly.html
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import export

from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.formats._jax.call import arguments, plain
from vitrify.formats._stablehlo.live import without_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.core.signature import Field, Signature

PLATFORMS = ("cpu",)
_WIDE = frozenset({"float64", "complex128"})
_MAX_REASON = 600
_NUMBERS = frozenset(
    {
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    }
)


@contextmanager
def wide_types() -> Iterator[None]:
    """Let JAX have 64-bit types while the block runs; the process's own setting stays as it is."""
    with jax.enable_x64(new_val=True):
        yield


@contextmanager
def types_of(signature: Signature) -> Iterator[None]:
    """Trace in 64 bits where an input is a double, else as the process is set, as the user's own calls are."""
    if any(field.dtype in _WIDE for field in signature.inputs):
        with wide_types():
            yield
    else:
        yield


def trace(model: Any, signature: Signature) -> export.Exported:
    """Export a function or module, with every named dimension of the signature free to change.

    Raises:
        UnsupportedModelError: JAX cannot export it, or only for the example's own sizes.
        ModelError: It rejects the example.
    """
    function = callable_of(model)
    with types_of(signature):
        args, kwargs = arguments(_avals(signature), signature)
        try:
            exported = export.export(_jitted(function, _name(model)), platforms=PLATFORMS)(*args, **kwargs)
        except Exception as error:
            raise _explained(function, signature, error) from error
    return stripped(exported)


def stripped(exported: export.Exported) -> export.Exported:
    """Return the same without where in whose source it came from: not part of what it computes."""
    module = without_places(exported.mlir_module_serialized, foreign=True)
    return dataclasses.replace(exported, mlir_module_serialized=module)


def callable_of(model: Any) -> Callable[..., Any]:
    """Return what is called: a module as it predicts, not as it trains. The model itself stays as it is.

    Raises:
        UnsupportedModelError: It cannot be called, or is a linen module without its variables.
    """
    found = model
    if "flax.nnx" in sys.modules and isinstance(model, (nnx := sys.modules["flax.nnx"]).Module):
        found = nnx.merge(*nnx.split(model))
        found.eval()
    elif "flax.linen" in sys.modules and isinstance(model, sys.modules["flax.linen"].Module):
        if model.scope is None:
            msg = f"{type(model).__name__} is a linen module without variables"
            raise UnsupportedModelError(msg, remedy="bind them: save(module.bind(variables), ...)")
        found = functools.partial(type(model).__call__, model)
    elif "equinox" in sys.modules and isinstance(model, (equinox := sys.modules["equinox"]).Module):
        found = equinox.nn.inference_mode(model)
    if not callable(found):
        msg = f"a {type(model).__qualname__} cannot be called"
        raise UnsupportedModelError(msg, remedy="save a function of JAX, or a module of Flax or Equinox")
    called: Callable[..., Any] = found
    return called


def trains(model: Any) -> bool:
    """Say whether a module of Flax's nnx is in training mode, in any of its parts."""
    if "flax.nnx" not in sys.modules or not isinstance(model, (nnx := sys.modules["flax.nnx"]).Module):
        return False
    modes = [("deterministic", True), ("use_running_average", True)]
    return any(getattr(part, name, on) is not on for _, part in nnx.iter_modules(model) for name, on in modes)


def symbols(signature: Signature) -> dict[str, str]:
    """Return JAX's name of each dimension that may change."""
    texts = dict.fromkeys(size for field in signature.inputs for size in field.shape if isinstance(size, str))
    return {text: re.sub(r"\W|^(?=\d)", "_", text) for text in texts}


def _avals(signature: Signature) -> list[jax.ShapeDtypeStruct]:
    names = symbols(signature)
    listed = ", ".join(dict.fromkeys(names.values()))
    made = dict(zip(dict.fromkeys(names.values()), export.symbolic_shape(listed), strict=True)) if listed else {}
    return [
        jax.ShapeDtypeStruct(
            tuple(made[names[size]] if isinstance(size, str) else size for size in field.shape),
            jax.dtypes.canonicalize_dtype(_dtype(field)),
        )
        for field in signature.inputs
    ]


def _dtype(field: Field) -> np.dtype[Any]:
    if field.dtype not in _NUMBERS or field.nullable:
        kind = f"{field.dtype}{' with missing values' if field.nullable else ''}"
        msg = f"input {field.name!r} is {kind}, and JAX computes with numbers"
        raise UnsupportedModelError(msg, remedy="give arrays of numbers as the example, missing values as NaN")
    return np.dtype(field.dtype)


def _jitted(function: Callable[..., Any], name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return plain(function(*args, **kwargs))

    call.__name__ = call.__qualname__ = name
    return jax.jit(call)


def _name(model: Any) -> str:
    return re.sub(r"\W+", "_", str(getattr(model, "__name__", type(model).__name__))).strip("_") or "model"


def _explained(function: Callable[..., Any], signature: Signature, error: Exception) -> Exception:
    """Tell a function that rejects the example from one that cannot be exported for every size."""
    fixed = [
        field.replace(shape=tuple(2 if isinstance(s, str) else s for s in field.shape)) for field in signature.inputs
    ]
    args, kwargs = arguments(_avals(signature.replace(inputs=tuple(fixed))), signature)
    reason = f"{type(error).__name__}: {str(error).strip()[:_MAX_REASON]}"
    try:
        jax.eval_shape(function, *args, **kwargs)
    except Exception:  # noqa: BLE001 (a function may raise anything)
        msg = f"JAX cannot trace this function: {reason}"
        remedy = "give an example that it can be called with, all rows at once (jax.vmap, if it takes one row)"
        return ModelError(msg, remedy=remedy)
    msg = f"jax.export cannot follow this function for every size of {sorted(symbols(signature))}: {reason}"
    remedy = "write it for any size, or mark the size as fixed: dynamic={input: {axis: size}}"
    return UnsupportedModelError(msg, remedy=remedy)
