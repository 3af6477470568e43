"""ONNX's operators on JAX, by family; importing this registers them all.

Where JAX and ONNX Runtime differ, they answer as ONNX Runtime does: a NaN in ArgMax and in a pool, ties in TopK,
indices from the end, floats that no integer holds.
"""

from __future__ import annotations

from vitrify.transforms.replay import _jax_flow, _jax_math, _jax_ml, _jax_nn, _jax_resize, _jax_shape
from vitrify.transforms.replay._jax_values import OPS

__all__ = ["OPS"]

FAMILIES = (_jax_flow, _jax_math, _jax_ml, _jax_nn, _jax_resize, _jax_shape)
