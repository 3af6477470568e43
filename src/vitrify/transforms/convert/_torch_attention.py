"""Attention written out, before an exporter sees it: a row whose keys are all masked has no attention, which is zero.

PyTorch's kernel says so (``_safe_softmax``), exporters' translations spread such a row over the masked keys.

Source: ``torch.nn.functional.scaled_dot_product_attention``, its documentation's own Python.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from vitrify.formats._torch.quiet import quiet

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_MASK = 3


def written_out(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose attention with a mask is sums and products; any other program is returned itself."""
    calls = (node for node in program.graph.nodes if node.target == _ATTENTION)
    if not any(len(node.args) > _MASK and node.args[_MASK] is not None for node in calls) and not any(
        node.kwargs.get("attn_mask") is not None for node in program.graph.nodes if node.target == _ATTENTION
    ):
        return program
    with quiet():
        return program.run_decompositions({_ATTENTION: _attention})


def _attention(  # noqa: PLR0917 (the operator's own arguments)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 (programs are exported in eval mode)
    is_causal: bool = False,  # noqa: FBT001, FBT002 (as above)
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
    scores = torch.matmul(query * factor, key.transpose(-2, -1) * factor)
    if is_causal:
        lines, columns = (torch.arange(scores.shape[axis]) for axis in (-2, -1))
        attn_mask = columns.unsqueeze(0) <= lines.unsqueeze(1)
    if attn_mask is not None:
        scores = _masked(scores, attn_mask)
    dead = (scores == -math.inf).all(-1, keepdim=True)
    shares = torch.where(dead, torch.zeros_like(scores), torch.softmax(scores, -1))
    return torch.matmul(shares, value)


def _masked(scores: torch.Tensor, mask: Any) -> torch.Tensor:
    if mask.dtype == torch.bool:
        return torch.where(mask, scores, torch.full_like(scores, -math.inf))
    return scores + mask
