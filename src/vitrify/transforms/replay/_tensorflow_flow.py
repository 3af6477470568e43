"""Branches, loops and recurrent layers, on TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay._tensorflow_base import known, op, rank, refuse, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node

_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x, *_: tf.nn.relu(x),
    "tanh": lambda x, *_: tf.tanh(x),
    "sigmoid": lambda x, *_: tf.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, _: tf.where(x >= 0, x, a * x),
    "thresholdedrelu": lambda x, a, _: tf.where(x > a, x, tf.zeros_like(x)),
    "scaledtanh": lambda x, a, b: a * tf.tanh(b * x),
    "hardsigmoid": lambda x, a, b: tf.clip_by_value(a * x + b, 0, 1),
    "elu": lambda x, a, _: tf.where(x >= 0, x, a * tf.math.expm1(x)),
    "softsign": lambda x, *_: tf.nn.softsign(x),
    "softplus": lambda x, *_: tf.nn.softplus(x),
}
_DEFAULTS = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
_TAKES = {"affine": 2, "leakyrelu": 1, "thresholdedrelu": 1, "scaledtanh": 2, "hardsigmoid": 2, "elu": 1}


def _yes() -> Any:
    return tf.constant(value=True)


@op("If")
def branch(node: Node, condition: Any) -> Any:
    yes, no = node.attributes["then_branch"], node.attributes["else_branch"]
    decided = known(condition)
    if decided is not None:
        return (yes if decided.reshape(-1)[0] else no)()
    chosen = tf.cond(
        tf.reshape(tensor(condition), []),
        lambda: tuple(tensor(value) for value in yes()),
        lambda: tuple(tensor(value) for value in no()),
    )
    return tuple(chosen)


@op("Loop")
def loop(node: Node, limit: Any = None, condition: Any = None, *states: Any) -> Any:
    """Run the body again and again; what it gives each time is stacked."""
    body = node.attributes["body"]
    states = tuple(tensor(state) for state in states)
    most = tf.constant(np.iinfo(np.int64).max) if limit is None else tf.reshape(tensor(limit), [])
    start = _yes() if condition is None else tf.reshape(tf.cast(tensor(condition), tf.bool), [])
    kinds = _kinds_of_scans(body, states)
    arrays = tuple(
        tf.TensorArray(kind.dtype, 0, dynamic_size=True, element_shape=kind.shape, infer_shape=False) for kind in kinds
    )

    def goes_on(step: Any, going: Any, *_: Any) -> Any:
        return tf.logical_and(step < most, going)

    def once(step: Any, _: Any, held: Any, stacks: Any) -> Any:
        going, *found = body(step, _yes(), *held)
        found = [tensor(value) for value in found]
        written = [
            stack.write(tf.cast(step, tf.int32), value) for stack, value in zip(stacks, found[len(held) :], strict=True)
        ]
        return step + 1, tf.reshape(tensor(going), []), tuple(found[: len(held)]), tuple(written)

    shapes = (
        tf.TensorShape([]),
        tf.TensorShape([]),
        tuple(_loose(state) for state in states),
        tuple(tf.TensorShape(None) for _ in arrays),
    )
    _, _, final, stacks = tf.while_loop(goes_on, once, (tf.constant(0, tf.int64), start, states, arrays), shapes)
    return (*final, *(stack.stack() for stack in stacks))


def _kinds_of_scans(body: Any, states: tuple[Any, ...]) -> list[Any]:
    """Return type and shape of what the body gives each time, by tracing it once."""
    specs = [tf.TensorSpec(_loose(state), state.dtype) for state in states]

    def traced(step: Any, *held: Any) -> Any:
        return [tensor(value) for value in body(step, _yes(), *held)]

    graph = tf.function(traced, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64), *specs)
    return list(graph.outputs[len(states) + 1 :])


def _loose(state: Any) -> Any:
    """Return the shapes that a state may have: each step may change it."""
    return tf.TensorShape([None] * state.shape.rank) if state.shape.rank is not None else tf.TensorShape(None)


@op("Scan")
def scan(node: Node, *values: Any) -> Any:
    """Run the body over one element of the sequences after another."""
    body, count = node.attributes["body"], node.attributes["num_scan_inputs"]
    held, sequences = values[: len(values) - count], [tensor(value) for value in values[len(values) - count :]]
    axes = node.get("scan_input_axes") or [0] * count
    directions = node.get("scan_input_directions") or [0] * count
    sequences = [_to_front(one, axis) for one, axis in zip(sequences, axes, strict=True)]
    sequences = [tf.reverse(one, [0]) if turned else one for one, turned in zip(sequences, directions, strict=True)]
    states = tuple(tensor(value) for value in held)

    def traced(*parts: Any) -> Any:
        return [tensor(value) for value in body(*parts)]

    specs = [tf.TensorSpec(one.shape, one.dtype) for one in states] + [
        tf.TensorSpec(one.shape[1:], one.dtype) for one in sequences
    ]
    outputs = tf.function(traced, autograph=False).get_concrete_function(*specs).outputs[len(states) :]
    length = tf.shape(sequences[0])[0]
    stacks = tuple(tf.TensorArray(one.dtype, length, element_shape=one.shape) for one in outputs)

    def once(step: Any, now: Any, arrays: Any) -> Any:
        found = [tensor(value) for value in body(*now, *(one[step] for one in sequences))]
        written = [array.write(step, value) for array, value in zip(arrays, found[len(now) :], strict=True)]
        return step + 1, tuple(found[: len(now)]), tuple(written)

    _, final, arrays = tf.while_loop(
        lambda step, *_: step < length,
        once,
        (tf.constant(0), states, stacks),
        (tf.TensorShape([]), tuple(_loose(state) for state in states), tuple(tf.TensorShape(None) for _ in stacks)),
    )
    found = [array.stack() for array in arrays]
    turned = node.get("scan_output_directions") or [0] * len(found)
    found = [tf.reverse(one, [0]) if back else one for one, back in zip(found, turned, strict=True)]
    places = node.get("scan_output_axes") or [0] * len(found)
    return (*final, *(_from_front(one, axis) for one, axis in zip(found, places, strict=True)))


def _to_front(x: Any, axis: int) -> Any:
    count = x.shape.rank
    return tf.transpose(x, [axis % count, *(other for other in range(count) if other != axis % count)])


def _from_front(x: Any, axis: int) -> Any:
    order = list(range(1, x.shape.rank))
    order.insert(axis % x.shape.rank, 0)
    return tf.transpose(x, order)


@op("LSTM", "GRU", "RNN")
def recurrent(node: Node, x: Any, weights: Any, again: Any, bias: Any = None, lengths: Any = None, *more: Any) -> Any:
    """Run each direction over the steps; sequences that have ended keep their state and give zeros."""
    x, weights, again = tensor(x), tensor(weights), tensor(again)
    rank(node, x)
    if node.get("layout", 0):
        x = tf.transpose(x, [1, 0, 2])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[node.kind]
    hidden = int(again.shape[2])
    bias = tf.zeros([weights.shape[0], 2 * gates * hidden], x.dtype) if bias is None else tensor(bias)
    batch = tf.shape(x)[1]
    states = [tensor(value) if value is not None else None for value in (*more, None, None)[:2]]
    peepholes = tensor(more[2]) if len(more) > 2 and more[2] is not None else None  # noqa: PLR2004 (the third)
    outputs, hiddens, cells = [], [], []
    for direction in range(int(weights.shape[0])):
        backwards = node.get("direction", "forward") == "reverse" or direction == 1
        start = [
            _start(node, state, direction, batch, hidden, x.dtype)
            for state in states[: 2 if node.kind == "LSTM" else 1]
        ]
        own = {
            "w": tf.transpose(weights[direction]),
            "r": tf.transpose(again[direction]),
            "b": bias[direction],
            "p": None if peepholes is None else peepholes[direction],
        }
        step = _STEPS[node.kind](node, own, hidden, _functions(node, direction))
        output, final = _unrolled(
            x, start, step, None if lengths is None else tf.cast(tensor(lengths), tf.int32), backwards=backwards
        )
        outputs.append(output)
        hiddens.append(final[0])
        cells.append(final[-1])
    answer = [tf.stack(outputs, 1), tf.stack(hiddens, 0), *([tf.stack(cells, 0)] if node.kind == "LSTM" else [])]
    if node.get("layout", 0):
        answer = [tf.transpose(answer[0], [2, 0, 1, 3]), *(tf.transpose(one, [1, 0, 2]) for one in answer[1:])]
    return tuple(answer)


def _start(node: Node, state: Any, direction: int, batch: Any, hidden: int, dtype: Any) -> Any:
    if state is None:
        return tf.zeros([batch, hidden], dtype)
    return state[:, direction] if node.get("layout", 0) else state[direction]


def _functions(node: Node, direction: int) -> list[Any]:
    default = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[node.kind]
    names = [name.lower() for name in node.get("activations") or default * (direction + 1)]
    alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
    functions = []
    for name in names:
        if name not in _ACTIVATIONS:
            refuse(node, f"its activation {name!r}")
        a, b = _DEFAULTS.get(name, (0.0, 0.0))
        a = alphas.pop(0) if alphas and _TAKES.get(name) else a
        b = betas.pop(0) if betas and _TAKES.get(name, 0) > 1 else b
        functions.append(lambda value, name=name, a=a, b=b: _ACTIVATIONS[name](value, a, b))
    return functions[len(default) * direction : len(default) * (direction + 1)]


def _clipped(node: Node, value: Any) -> Any:
    bound = node.get("clip", 0.0)
    return tf.clip_by_value(value, -bound, bound) if bound else value


def _lstm(node: Node, own: dict[str, Any], hidden: int, functions: list[Any]) -> Any:
    f, g, h = functions
    count = 4 * hidden
    bias = own["b"][:count] + own["b"][count:]
    peeps = tf.split(own["p"], 3) if own["p"] is not None else None

    def step(x: Any, states: list[Any]) -> list[Any]:
        past, cell = states
        i, o, forget, c = tf.split(tf.matmul(x, own["w"]) + tf.matmul(past, own["r"]) + bias, 4, -1)
        i, forget = (
            f(_clipped(node, i + peeps[0] * cell if peeps else i)),
            (forget + peeps[2] * cell if peeps else forget),
        )
        forget = 1 - i if node.get("input_forget", 0) else f(_clipped(node, forget))
        cell = forget * cell + i * g(_clipped(node, c))
        o = f(_clipped(node, o + peeps[1] * cell if peeps else o))
        return [o * h(cell), cell]

    return step


def _gru(node: Node, own: dict[str, Any], hidden: int, functions: list[Any]) -> Any:
    f, g = functions
    w, r = tf.split(own["w"], 3, -1), tf.split(own["r"], 3, -1)
    wb, rb = tf.split(own["b"][: 3 * hidden], 3), tf.split(own["b"][3 * hidden :], 3)

    def step(x: Any, states: list[Any]) -> list[Any]:
        past = states[0]
        update = f(_clipped(node, tf.matmul(x, w[0]) + tf.matmul(past, r[0]) + wb[0] + rb[0]))
        reset = f(_clipped(node, tf.matmul(x, w[1]) + tf.matmul(past, r[1]) + wb[1] + rb[1]))
        if node.get("linear_before_reset", 0):
            inner = reset * (tf.matmul(past, r[2]) + rb[2])
        else:
            inner = tf.matmul(reset * past, r[2]) + rb[2]
        new = g(_clipped(node, tf.matmul(x, w[2]) + wb[2] + inner))
        return [(1 - update) * new + update * past]

    return step


def _rnn(node: Node, own: dict[str, Any], hidden: int, functions: list[Any]) -> Any:
    bias = own["b"][:hidden] + own["b"][hidden:]
    return lambda x, states: [
        functions[0](_clipped(node, tf.matmul(x, own["w"]) + tf.matmul(states[0], own["r"]) + bias))
    ]


_STEPS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


def _unrolled(x: Any, start: list[Any], step: Any, lengths: Any, *, backwards: bool) -> tuple[Any, list[Any]]:
    """Run over the steps; backwards each sequence starts at its own end."""
    total = tf.shape(x)[0]

    def turn(value: Any) -> Any:
        if lengths is None:
            return tf.reverse(value, [0])
        return tf.reverse_sequence(value, lengths, seq_axis=0, batch_axis=1)

    x = turn(x) if backwards else x
    stack = tf.TensorArray(x.dtype, total, element_shape=start[0].shape)

    def once(at: Any, states: Any, array: Any) -> Any:
        found = step(x[at], list(states))
        given = found[0]
        if lengths is not None:
            alive = (at < lengths)[:, tf.newaxis]
            given = tf.where(alive, given, tf.zeros_like(given))
            found = [tf.where(alive, new, old) for new, old in zip(found, states, strict=True)]
        return at + 1, tuple(found), array.write(at, given)

    _, final, stack = tf.while_loop(lambda at, *_: at < total, once, (tf.constant(0), tuple(start), stack))
    output = stack.stack()
    return (turn(output) if backwards else output), list(final)
