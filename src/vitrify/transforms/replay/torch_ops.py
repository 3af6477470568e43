"""ONNX's operators on PyTorch, by family; importing this registers them all.

Where PyTorch and ONNX Runtime differ, they answer as ONNX Runtime does: a NaN in ArgMax, in Sign and in a pool, ties
in TopK, halves in Round, floats that no integer holds.
"""

from __future__ import annotations

from vitrify.transforms.replay import (
    _torch_elementwise,
    _torch_flow,
    _torch_image,
    _torch_layout,
    _torch_ml,
    _torch_quantized,
    _torch_recurrent,
    _torch_reduce,
    _torch_resize,
)
from vitrify.transforms.replay._torch_values import OPS

__all__ = ["OPS"]

FAMILIES = (
    _torch_elementwise,
    _torch_flow,
    _torch_image,
    _torch_layout,
    _torch_ml,
    _torch_quantized,
    _torch_recurrent,
    _torch_reduce,
    _torch_resize,
)
