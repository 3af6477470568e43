"""NumPy's constructors, which no protocol hands over, exchanged while a function is traced.

``np.asarray(x)`` of a traced array is that array; ``np.zeros((len, 3))`` with the batch's length is a traced one. All
other calls go to NumPy as before, from this thread and from any other.

Source: NEP 18 leaves out what takes no array: https://numpy.org/neps/nep-0018-array-function-protocol.html
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._trace import shape as shaping
from vitrify.transforms.convert._trace.array import Traced, is_traced, wrap
from vitrify.transforms.convert._trace.functions import take
from vitrify.transforms.convert._trace.value import Rows, constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.transforms.convert._building.graph import Graph

_AS_ARRAY = ("asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "array")
_FILLED = {"zeros": 0, "ones": 1, "empty": 0}
_lock = threading.RLock()


@contextmanager
def constructors(graph: Graph) -> Iterator[None]:
    """Let the constructors take traced arrays, and the batch for a size, while the block runs."""
    with _lock:
        changed: dict[str, Any] = {
            name: getattr(np, name) for name in (*_AS_ARRAY, *_FILLED, "full") if hasattr(np, name)
        }
        for name, original in changed.items():
            replacement = _as_array(original) if name in _AS_ARRAY else _filled(graph, original, _FILLED.get(name))
            setattr(np, name, replacement)
        changed["take"] = np.take
        np.take = _taking(np.take)
        try:
            yield
        finally:
            for name, original in changed.items():
                setattr(np, name, original)


def _as_array(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def call(a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if getattr(a, "is_traced_table", False):
            a = a.to_numpy()
        elif type(a) in {list, tuple} and any(map(is_traced, a)):
            a = wrap(shaping.stack([part.value if is_traced(part) else part for part in a]))
        if not is_traced(a):
            return original(a, dtype, *args, **kwargs)
        if original.__name__ == "array" and kwargs.get("copy", True) is True:
            a = a.copy()
        return a if dtype is None or np.dtype(dtype) == a.dtype else a.astype(dtype)

    return call


def _taking(original: Any) -> Any:
    @wraps(original)
    def call(a: Any, indices: Any, axis: Any = None, **kwargs: Any) -> Any:
        if not is_traced(indices):  # which NumPy would not hand over: it looks at the table only
            return original(a, indices, axis, **kwargs)
        table = a.value if is_traced(a) else np.asarray(a)
        return wrap(take(table, indices.value, axis, **kwargs))

    return call


def _filled(graph: Graph, original: Callable[..., Any], fill: Any) -> Callable[..., Any]:
    @wraps(original)
    def call(shape: Any, *args: Any, **kwargs: Any) -> Any:
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if not any(isinstance(size, Rows) for size in sizes):
            return original(shape, *args, **kwargs)
        given = dict(zip(("dtype",) if fill is not None else ("fill_value", "dtype"), args, strict=False)) | kwargs
        item = given.get("fill_value", fill)
        value = item.value if is_traced(item) else constant(graph, original((), *args, **kwargs))
        return Traced(shaping.broadcast_to(value, tuple(sizes)))

    return call
