"""LSTM, GRU and RNN, one step after the other; what has PyTorch's own form is one call.

Source: https://onnx.ai/onnx/operators/onnx__LSTM.html, __GRU, __RNN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._torch_register import op

if TYPE_CHECKING:
    from torch import Tensor

    from vitrify.transforms.replay.walk import Node


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""ONNX's gates in PyTorch's order."""
_MAX_STEPS = 512


@dataclass(frozen=True)
class _Cell:
    """What one direction of a layer computes with."""

    node: Node
    w: Tensor
    r: Tensor
    bias: Tensor
    peephole: Tensor | None
    functions: list[Any]

    def step(self, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the next state."""
        return {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.node.kind](x, h, c)

    def _clipped(self, value: Tensor) -> Tensor:
        limit = self.node.get("clip", 0.0)
        return value.clamp(-limit, limit) if limit else value

    def _rnn(self, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        own, other = self.bias.chunk(2)
        return self.functions[0](self._clipped(x @ self.w.t() + h @ self.r.t() + own + other)), c

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        assert c is not None
        own, other = self.bias.chunk(2)
        gate, inner, out = self.functions
        i, o, f, n = (x @ self.w.t() + h @ self.r.t() + own + other).chunk(4, -1)
        pi, po, pf = (0, 0, 0) if self.peephole is None else self.peephole.chunk(3)
        i = gate(self._clipped(i + pi * c))
        f = 1 - i if self.node.get("input_forget", 0) else gate(self._clipped(f + pf * c))
        cell = f * c + i * inner(self._clipped(n))
        return gate(self._clipped(o + po * cell)) * out(cell), cell

    def _gru(self, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        own, other = self.bias.chunk(2)
        gate, inner = self.functions
        wz, wr, wh = (x @ self.w.t() + own).chunk(3, -1)
        (rz, rr, rh), (bz, br, bh) = self.r.chunk(3), other.chunk(3)
        z = gate(self._clipped(wz + h @ rz.t() + bz))
        r = gate(self._clipped(wr + h @ rr.t() + br))
        if self.node.get("linear_before_reset", 0):
            candidate = inner(self._clipped(wh + r * (h @ rh.t() + bh)))
        else:
            candidate = inner(self._clipped(wh + (r * h) @ rh.t() + bh))
        return (1 - z) * candidate + z * h, c


@op("LSTM", "GRU", "RNN")
def _recurrent(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    first_h: Tensor | None = None,
    first_c: Tensor | None = None,
    peephole: Tensor | None = None,
) -> Any:
    batch_first = bool(node.get("layout", 0))
    if batch_first:
        x = x.transpose(0, 1)
        first_h, first_c = (None if s is None else s.transpose(0, 1) for s in (first_h, first_c))
    directions, hidden = w.shape[0], r.shape[-1]
    bias = torch.zeros(directions, 2 * _GATES[node.kind] * hidden, dtype=x.dtype) if bias is None else bias
    shape = (directions, x.shape[1], hidden)
    h = x.new_zeros(shape) if first_h is None else first_h
    c = x.new_zeros(shape) if first_c is None else first_c
    if lengths is None and peephole is None and _is_torchs(node):
        y, h, c = _whole(node, x, w, r, bias, h, c)
    else:
        y, h, c = _unrolled(node, x, (w, r, bias, peephole), lengths, h, c)
    if batch_first:
        y, h, c = y.permute(2, 0, 1, 3), h.transpose(0, 1), c.transpose(0, 1)
    return (y, h, c) if node.kind == "LSTM" else (y, h)


def _is_torchs(node: Node) -> bool:
    """Say whether PyTorch has the same layer."""
    count = 2 if node.get("direction", "forward") == "bidirectional" else 1
    plain = (node.get("activations") or _DEFAULTS[node.kind] * count) == _DEFAULTS[node.kind] * count
    same = plain and not node.get("clip", 0.0) and not node.get("input_forget", 0)
    return same and (node.kind != "GRU" or bool(node.get("linear_before_reset", 0)))


def _whole(node: Node, x: Tensor, w: Tensor, r: Tensor, bias: Tensor, h: Tensor, c: Tensor) -> Any:
    direction = node.get("direction", "forward")
    order = _ORDERS[node.kind]

    def sorted_gates(value: Tensor) -> Tensor:
        parts = value.chunk(_GATES[node.kind])
        return torch.cat([parts[one] for one in order])

    parameters = []
    for one in range(w.shape[0]):
        own, other = bias[one].chunk(2)
        parameters += [sorted_gates(part) for part in (w[one], r[one], own, other)]
    if direction == "reverse":
        x = x.flip(0)
    both = direction == "bidirectional"
    h, c = h.contiguous(), c.contiguous()
    function: Any = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh}[node.kind]
    state = (h, c) if node.kind == "LSTM" else h
    y, *last = function(x, state, parameters, True, 1, 0.0, False, both, False)  # noqa: FBT003 (theirs)
    if direction == "reverse":
        y = y.flip(0)
    y = y.reshape(y.shape[0], y.shape[1], w.shape[0], -1).permute(0, 2, 1, 3)
    return y, last[0], last[1] if len(last) > 1 else c


def _unrolled(node: Node, x: Tensor, parts: Any, lengths: Tensor | None, h: Tensor, c: Tensor) -> Any:
    steps = x.shape[0]
    if not isinstance(steps, int) or steps > _MAX_STEPS:
        msg = f"{node.kind} over {steps} steps with what PyTorch's own has not"
        raise UnsupportedModelError(msg, remedy="fix the length of the sequence, or use the default activations")
    direction = node.get("direction", "forward")
    answers, last_h, last_c = [], [], []
    for one in range(len(h)):
        w, r, bias, peephole = (None if part is None else part[one] for part in parts)
        cell = _Cell(node, w, r, bias, peephole, _functions(node, one))
        backward = direction == "reverse" or one == 1
        now_h, now_c, seen = h[one], c[one], {}
        for step in reversed(range(steps)) if backward else range(steps):
            new_h, new_c = cell.step(x[step], now_h, now_c)
            assert new_c is not None
            seen[step] = new_h
            if lengths is not None:
                alive = (lengths > step).unsqueeze(1)
                seen[step] = torch.where(alive, new_h, torch.zeros_like(new_h))
                new_h, new_c = torch.where(alive, new_h, now_h), torch.where(alive, new_c, now_c)
            now_h, now_c = new_h, new_c
        answers.append(torch.stack([seen[step] for step in range(steps)]))
        last_h.append(now_h)
        last_c.append(now_c)
    return torch.stack(answers, 1), torch.stack(last_h), torch.stack(last_c)


def _functions(node: Node, direction: int) -> list[Any]:
    names = node.get("activations") or _DEFAULTS[node.kind] * 2
    count = len(_DEFAULTS[node.kind])
    alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
    found = [_function(name, alphas, betas) for name in names]
    return found[direction * count : (direction + 1) * count]


def _function(name: str, alphas: list[float], betas: list[float]) -> Any:
    def take(values: list[float], default: float) -> float:
        return values.pop(0) if values else default

    plain = {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "softsign": functional.softsign,
        "softplus": functional.softplus,
    }
    if name.lower() in plain:
        return plain[name.lower()]
    match name.lower():
        case "leakyrelu":
            slope = take(alphas, 0.01)
            return lambda x: functional.leaky_relu(x, slope)
        case "elu":
            height = take(alphas, 1.0)
            return lambda x: functional.elu(x, height)
        case "thresholdedrelu":
            limit = take(alphas, 1.0)
            return lambda x: torch.where(x > limit, x, torch.zeros_like(x))
        case "hardsigmoid":
            slope, shift = take(alphas, 0.2), take(betas, 0.5)
            return lambda x: torch.clamp(x * slope + shift, 0, 1)
        case "affine":
            slope, shift = take(alphas, 1.0), take(betas, 0.0)
            return lambda x: x * slope + shift
        case "scaledtanh":
            height, slope = take(alphas, 1.0), take(betas, 1.0)
            return lambda x: height * torch.tanh(slope * x)
    msg = f"the activation {name!r} is none of ONNX's"
    raise UnsupportedModelError(msg, remedy="export the model again")
