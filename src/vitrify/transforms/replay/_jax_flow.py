"""Branches, loops and recurrent layers.

A loop runs as JAX's own; what it scans has to have a number of rounds that is known.

Source: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.transforms.replay._jax_values import Tensor, op, raw, tensor
from vitrify.transforms.replay._sizes import is_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node


@raw("If")
def _if(node: Node, condition: Any) -> tuple[Any, ...]:
    branches = node.get("then_branch"), node.get("else_branch")
    if is_constant(condition):
        return tuple(branches[not bool(np.asarray(condition).reshape(()))]())
    then, other = (lambda branch=branch: tuple(tensor(value) for value in branch()) for branch in branches)
    return tuple(jax.lax.cond(jnp.reshape(tensor(condition), ()), then, other))


@raw("Loop")
def _loop(node: Node, count: Any, condition: Any, *carried: Any) -> tuple[Any, ...]:
    body = node.get("body")
    scans = len(body.outputs) - 1 - len(carried)
    if not scans:
        return _while(body, count, condition, carried)
    if count is None or not is_constant(count) or not (condition is None or is_constant(condition)):
        msg = "a Loop that collects values over a number of rounds that data decides"
        raise UnsupportedModelError(msg, remedy="keep the ONNX form")
    rows: list[list[Any]] = [[] for _ in range(scans)]
    go = condition is None or bool(np.asarray(condition).reshape(()))
    for number in range(int(np.asarray(count).reshape(())) if go else 0):
        after, *values = body(np.asarray(number, np.int64), np.ones((), bool), *carried)
        carried = tuple(values[: len(carried)])
        for row, value in zip(rows, values[len(carried) :], strict=True):
            row.append(tensor(value))
        if not is_constant(after):
            msg = "a Loop that collects values as long as data says"
            raise UnsupportedModelError(msg, remedy="keep the ONNX form")
        if not bool(np.asarray(after).reshape(())):
            break
    if any(not row for row in rows):
        msg = "a Loop that collects values over no rounds"
        raise UnsupportedModelError(msg, remedy="take it out of the graph")
    return (*carried, *(jnp.stack(row) for row in rows))


def _while(body: Any, count: Any, condition: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    most = None if count is None else jnp.reshape(tensor(count), ()).astype(jnp.int64)
    go = jnp.ones((), bool) if condition is None else jnp.reshape(tensor(condition), ())
    start = (jnp.zeros((), jnp.int64), go, tuple(tensor(value) for value in carried))

    def goes_on(state: Any) -> Any:
        return state[1] if most is None else state[1] & (state[0] < most)

    def once(state: Any) -> Any:
        number, going, values = state
        after, *following = body(number, going, *values)
        kept = tuple(tensor(value).astype(old.dtype) for value, old in zip(following, values, strict=True))
        return number + 1, jnp.reshape(tensor(after), ()), kept

    return tuple(jax.lax.while_loop(goes_on, once, start)[2])


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": jax.nn.sigmoid,
    "Tanh": jnp.tanh,
    "Relu": jax.nn.relu,
    "Softsign": jax.nn.soft_sign,
    "Softplus": jax.nn.softplus,
}


def _functions(node: Node, defaults: list[str], direction: int) -> list[Callable[[Tensor], Tensor]]:
    names = node.get("activations") or defaults * 2
    mine = names[direction * len(defaults) : (direction + 1) * len(defaults)]
    unknown = [name for name in mine if name not in _ACTIVATIONS]
    if unknown or node.get("clip") or node.get("input_forget", 0):
        msg = f"{node.kind} with {', '.join(unknown) or 'a clip or coupled gates'}"
        raise UnsupportedModelError(msg, remedy="use its usual activations")
    return [_ACTIVATIONS[name] for name in mine]


def _recurrent(node: Node, x: Tensor, lengths: Tensor | None, states: list[Tensor], step: Any) -> tuple[Tensor, ...]:
    """Run each direction over time; what lies behind a sequence's end is zero, its state that of its end."""
    if node.get("layout", 0):
        x = jnp.swapaxes(x, 0, 1)
        states = [jnp.swapaxes(state, 0, 1) for state in states]
    way = node.get("direction", "forward")
    turns = [False, True] if way == "bidirectional" else [way == "reverse"]
    number = jnp.arange(x.shape[0])
    outputs, ends = [], []
    for at, turned in enumerate(turns):
        run = step(at)

        def once(state: Any, given: Any, run: Any = run) -> Any:
            values, here = given
            after = run(values, state)
            if lengths is not None:
                inside = (here < lengths)[:, None]
                after = tuple(jnp.where(inside, new, old) for new, old in zip(after, state, strict=True))
                return after, jnp.where(inside, after[0], 0)
            return after, after[0]

        end, whole = jax.lax.scan(once, tuple(state[at] for state in states), (x, number), reverse=turned)
        outputs.append(whole)
        ends.append(end)
    whole = jnp.stack(outputs, 1)
    final = tuple(jnp.stack(parts) for parts in zip(*ends, strict=True))
    if node.get("layout", 0):
        return whole.transpose(2, 0, 1, 3), *(jnp.swapaxes(part, 0, 1) for part in final)
    return whole, *final


def _start(node: Node, x: Tensor, state: Tensor | None, directions: int) -> Tensor:
    if state is not None:
        return state
    batch = x.shape[0] if node.get("layout", 0) else x.shape[1]
    shape = (directions, batch, node.get("hidden_size"))
    return jnp.zeros((shape[1], shape[0], shape[2]) if node.get("layout", 0) else shape, x.dtype)


@op("LSTM")
def _lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
) -> tuple[Tensor, ...]:
    size = node.get("hidden_size")

    def step(at: int) -> Any:
        f, g, last = _functions(node, ["Sigmoid", "Tanh", "Tanh"], at)
        bias = 0 if b is None else b[at, : 4 * size] + b[at, 4 * size :]
        peep = [jnp.zeros((), x.dtype)] * 3 if p is None else jnp.split(p[at], 3)

        def run(values: Tensor, state: Any) -> Any:
            hidden, cell = state
            gates = values @ w[at].T + hidden @ r[at].T + bias
            i, o, forget, new = jnp.split(gates, 4, axis=-1)
            i, forget = f(i + peep[0] * cell), f(forget + peep[2] * cell)
            cell = forget * cell + i * g(new)
            return f(o + peep[1] * cell) * last(cell), cell

        return run

    states = [_start(node, x, state, w.shape[0]) for state in (h, c)]
    return _recurrent(node, x, lengths, states, step)


@op("GRU")
def _gru(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    size = node.get("hidden_size")

    def step(at: int) -> Any:
        f, g = _functions(node, ["Sigmoid", "Tanh"], at)
        inner = jnp.zeros(3 * size, x.dtype) if b is None else b[at, : 3 * size]
        outer = jnp.zeros(3 * size, x.dtype) if b is None else b[at, 3 * size :]

        def run(values: Tensor, state: Any) -> Any:
            [hidden] = state
            xz, xr, xn = jnp.split(values @ w[at].T + inner, 3, axis=-1)
            hz, hr = jnp.split(hidden @ r[at, : 2 * size].T + outer[: 2 * size], 2, axis=-1)
            z, reset = f(xz + hz), f(xr + hr)
            if node.get("linear_before_reset", 0):
                new = g(xn + reset * (hidden @ r[at, 2 * size :].T + outer[2 * size :]))
            else:
                new = g(xn + (reset * hidden) @ r[at, 2 * size :].T + outer[2 * size :])
            return ((1 - z) * new + z * hidden,)

        return run

    return _recurrent(node, x, lengths, [_start(node, x, h, w.shape[0])], step)


@op("RNN")
def _rnn(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:
    size = node.get("hidden_size")

    def step(at: int) -> Any:
        [f] = _functions(node, ["Tanh"], at)
        bias = 0 if b is None else b[at, :size] + b[at, size:]
        return lambda values, state: (f(values @ w[at].T + state[0] @ r[at].T + bias),)

    return _recurrent(node, x, lengths, [_start(node, x, h, w.shape[0])], step)
