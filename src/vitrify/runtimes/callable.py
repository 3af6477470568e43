"""Callables: any Python function, class or object that takes data and gives predictions.

What is called. A function: itself. A class: one object of it, made without arguments when the session opens. An
object: itself, or its ``predict`` where it cannot be called.

With what. The container of the example, as the one argument; a tuple as positional arguments; a dict as keyword
arguments, unless the callable takes one positional argument only, which then gets the dict.

In parts. A generator function yields answers, one after the other: whoever streams gets each when it is made, and
everybody else the last one, so that each should say all that is known by then.

What it may give. One array, tensor or list of numbers: the output ``output``. A dict: one output a key. A tuple, or
a list of arrays: ``output_0``, ``output_1``. A frame: one output a column.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.errors import ModelError
from vitrify.runtimes.session import BaseSession, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files
    from vitrify.core.signature import Field, Signature

STYLE = "call_style"
"""The entry's key: ``argument``, ``positional`` or ``keywords``."""

BATCHED = "call_batched"
"""The entry's key: whether every input starts with the batch, so that outputs are taken to do so too."""


class CallableRuntime:
    """The runtime of any callable; see the module's text for how it is called."""

    def open(self, files: Files, document: Document, allow: Allow) -> CallableSession:
        """Read the callable with its format, and call it."""
        return self.wrap(catalog().load("format", document.format).read(files, document.entry, allow), document)

    def wrap(self, model: Any, document: Document) -> CallableSession:
        """Return a session over a live callable.

        Raises:
            ModelError: It is a class, and cannot be made without arguments.
        """
        signature = signature_of(document, "a callable")
        style = document.entry.get(STYLE) or _style(model, signature)
        target = _target(model)
        kind = StreamingSession if _is_generator(target) else CallableSession
        return kind(target, signature, style)

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return how it is called."""
        return {STYLE: _style(model, example.signature), BATCHED: example.signature.batched}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return a field an output."""
        del model
        batch = next((len(array) for array in outputs.values() if array.ndim), None)
        return containers.output_fields(outputs, batch if entry.get(BATCHED, True) else None)


class CallableSession(BaseSession):
    """An open callable."""

    def __init__(self, call: Callable[..., Any], signature: Signature, style: str) -> None:
        """Call ``call`` in one of the three styles."""
        super().__init__(signature)
        self._call = call
        self._style = style

    def _run(self, inputs: Arrays) -> Arrays:
        return _arrays(self._called(inputs))

    def _called(self, inputs: Arrays) -> Any:
        native = containers.from_arrays(inputs, self.signature)
        match self._style:
            case "positional":
                return self._call(*native)
            case "keywords":
                return self._call(**native)
            case _:
                return self._call(native)


class StreamingSession(CallableSession):
    """An open generator function."""

    def stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield each part; see :class:`vitrify.core.protocols.Streams`."""
        arrays = containers.conform(inputs, self.signature.inputs)
        with contextlib.closing(self._called(arrays)) as parts:
            while True:
                try:
                    part = _arrays(next(parts))
                except StopIteration:
                    return
                except Exception as error:
                    msg = f"the model raised {type(error).__name__}: {error}"
                    raise ModelError(msg) from error
                yield self._in_order(part)

    def _run(self, inputs: Arrays) -> Arrays:
        last = deque(self._called(inputs), maxlen=1)
        if not last:
            msg = "the model gave no part of an answer"
            raise ModelError(msg, remedy="yield at least once")
        return _arrays(last.pop())


def _target(model: Any) -> Callable[..., Any]:
    if isinstance(model, type):
        try:
            model = model()
        except Exception as error:
            msg = f"{model.__qualname__}() raised {type(error).__name__}: {error}"
            raise ModelError(msg, remedy="give its constructor defaults, or save a function instead") from error
    target: Callable[..., Any] | None = model if callable(model) else getattr(model, "predict", None)
    if target is not None:
        return target
    msg = f"a {type(model).__qualname__} has neither __call__ nor predict"
    raise ModelError(msg, remedy="save something that takes data and gives predictions")


def _is_generator(target: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(target) or inspect.isgeneratorfunction(getattr(type(target), "__call__", None))  # noqa: B004 (what a call runs)


def _style(model: Any, signature: Signature) -> str:
    if signature.container == "tuple":
        return "positional"
    if signature.container != "dict":
        return "argument"
    return "argument" if _positional_parameters(model) == 1 else "keywords"


def _positional_parameters(model: Any) -> int:
    """Return how many positional arguments must or may be given; 0 where Python cannot tell."""
    method = model
    if isinstance(model, type):
        # Looked up on the classes: asking the class itself would find what makes its objects.
        found = (vars(base)[name] for name in ("__call__", "predict") for base in model.__mro__ if name in vars(base))
        method = next(found, None)
    elif not callable(model):
        method = getattr(model, "predict", None)
    try:
        parameters = inspect.signature(method).parameters.values()  # None is a TypeError
    except (TypeError, ValueError):
        return 0
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    own = 1 if isinstance(model, type) else 0
    return sum(parameter.kind in positional for parameter in parameters) - own


def _arrays(result: Any) -> Arrays:
    return {name: _array(value) for name, value in _named(result).items()}


def _named(result: Any) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return {str(key): value for key, value in result.items()}
    if hasattr(result, "columns") and hasattr(result, "to_numpy"):
        return {str(column): result[column].to_numpy() for column in result.columns}
    several = isinstance(result, tuple) or (isinstance(result, list) and _are_arrays(result))
    if several:
        return {f"output_{position}": value for position, value in enumerate(result)}
    return {"output": result}


def _are_arrays(values: list[Any]) -> bool:
    return bool(values) and all(hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0 for value in values)


def _array(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):  # a tensor, perhaps with a gradient or on another device
        value = value.detach().cpu()
    array: np.ndarray[Any, Any] = value if isinstance(value, np.ndarray) else np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array
