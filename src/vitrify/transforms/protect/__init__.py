"""Protect: names that say nothing, and a mark in the weights that says whose they are.

:func:`obfuscate` renames everything in an ONNX graph that its users do not see, and proves that it predicts the same to
the bit. :func:`embed` writes an id into the lowest digits of a model's weights, proves that its predictions stay within
a tolerance, and :func:`detect` finds the id again from the weights and the key alone. Both are steps of the executor
like any other, so that what comes out has its parity and its provenance; the key is in neither.
"""

from __future__ import annotations

from vitrify.transforms.protect.key import ProtectKey
from vitrify.transforms.protect.obfuscation import mapping, obfuscate
from vitrify.transforms.protect.watermark import Found, detect, embed

__all__ = ["Found", "ProtectKey", "detect", "embed", "mapping", "obfuscate"]
