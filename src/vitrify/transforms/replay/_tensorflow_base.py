"""What the operators of TensorFlow share: the register, and values that may be constant."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.formats._tensorflow.loaded import tf
from vitrify.transforms.replay.walk import Node, Ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ops = Ops("TensorFlow")
op = ops.op

Array = np.ndarray[Any, Any]

_TYPES = {
    1: tf.float32,
    2: tf.uint8,
    3: tf.int8,
    4: tf.uint16,
    5: tf.int16,
    6: tf.int32,
    7: tf.int64,
    8: tf.string,
    9: tf.bool,
    10: tf.float16,
    11: tf.float64,
    12: tf.uint32,
    13: tf.uint64,
    14: tf.complex64,
    15: tf.complex128,
    16: tf.bfloat16,
}

COMPUTED = frozenset(_TYPES.values())
"""What TensorFlow computes with."""


def tensor(value: Any, dtype: Any = None) -> tf.Tensor:
    """Return a value as a tensor; a constant becomes one of TensorFlow's."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return tf.reshape(tf.constant([str(text) for text in value.flat], tf.string), value.shape)
    return tf.convert_to_tensor(value, dtype)


def element_type(node: Node, number: int) -> tf.DType:
    """Return TensorFlow's element type for ONNX's.

    Raises:
        UnsupportedModelError: It has none that computes.
    """
    if number not in _TYPES:
        refuse(node, f"element type {number} of ONNX, with which TensorFlow does not compute")
    return _TYPES[number]


_held: ContextVar[dict[Any, Array]] = ContextVar("values of the variables that a replay has read", default={})  # noqa: B039 (never written to)


@contextmanager
def remembering(values: Iterable[tuple[tf.Tensor, Array]]) -> Iterator[None]:
    """Let what was read from variables count as known while the block runs."""
    token = _held.set({read.ref(): value for read, value in values})
    try:
        yield
    finally:
        _held.reset(token)


def known(value: Any) -> Array | None:
    """Return a value where it is known now, else None."""
    if value is None or isinstance(value, (np.ndarray, np.generic)):
        return None if value is None else np.asarray(value)
    if (held := _held.get().get(value.ref())) is not None:
        return held
    found = tf.get_static_value(value)
    return None if found is None else np.asarray(found)


def required(node: Node, value: Any, what: str) -> Array:
    """Return a value that must be known before the graph runs.

    Raises:
        UnsupportedModelError: It depends on the data.
    """
    found = known(value)
    if found is None:
        refuse(node, f"{what} depends on the data")
    return found


def ints(node: Node, value: Any, what: str) -> list[int]:
    """Return known numbers as a list; see :func:`required`."""
    return [int(number) for number in required(node, value, what).ravel()]


def refuse(node: Node, why: str) -> NoReturn:
    """Say what TensorFlow cannot do.

    Raises:
        UnsupportedModelError: Always.
    """
    msg = f"{node.kind} ({node.name or 'without a name'}) cannot be replayed on TensorFlow: {why}"
    raise UnsupportedModelError(msg, remedy="choose another target, or another operator in the source")


def rank(node: Node, value: Any) -> int:
    """Return how many dimensions a value has.

    Raises:
        UnsupportedModelError: That is not known.
    """
    shape = value.shape
    found = len(shape) if isinstance(shape, tuple) else shape.rank
    if found is None:
        refuse(node, "how many dimensions its input has depends on the data")
    return int(found)


def axis_of(node: Node, value: Any, axis: int) -> int:
    """Return an axis counted from the front."""
    return int(axis) % max(rank(node, value), 1)


def sizes(value: Any) -> list[Any]:
    """Return the size of each dimension: a number, or a tensor of int32 where it may change."""
    static = list(value.shape)
    if None not in static:
        return [int(size) for size in static]
    dynamic = tf.shape(value)
    return [dynamic[position] if size is None else int(size) for position, size in enumerate(static)]


def product(parts: list[Any]) -> Any:
    """Return the product of sizes."""
    total: Any = 1
    for part in parts:
        total = total * part
    return total


def is_nan(value: tf.Tensor) -> tf.Tensor:
    """Say where a float is not a number; TFLite has the comparison and not the operator."""
    return tf.not_equal(value, value)


def floating(value: Any) -> bool:
    """Say whether a value's elements are floating-point numbers."""
    return bool(tf.as_dtype(value.dtype).is_floating)
