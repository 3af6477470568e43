"""The tensors in a pickle that was read as inert data: which, where their numbers lie, and that they do lie there.

Nothing of their data is read.

A tensor is a call of a function that puts it together from a storage, an offset, sizes and strides, which PyTorch
does without looking in older versions; so each is checked against its storage first.
Source: ``torch/_utils.py``, ``_rebuild_tensor`` and what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vitrify.formats._torch.elements import SIZES
from vitrify.pickles import inert
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

UTILS = "torch._utils."
STRIDED = frozenset(
    UTILS + name for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
)
"""Functions whose arguments begin with storage, offset, sizes and strides."""

WRAPPERS = frozenset({UTILS + "_rebuild_parameter", UTILS + "_rebuild_parameter_with_state"})
"""Functions whose first argument is the tensor itself."""

TYPED = "torch._tensor._rebuild_from_type_v2"
ORDERED = "collections.OrderedDict"
MAX_RANK = 64
_MAX_NAME = 1024
_MAX_WRAPPED = 4
_V3_DTYPE = 6
_PLUMBING = frozenset({"_parameters", "_buffers", "_modules"})
"""Attributes of a module that are not in the names of its tensors."""


@dataclass(frozen=True)
class Storage:
    """What a persistent id stands for: a run of numbers somewhere else in the file.

    Attributes:
        key: The name under which it is there.
        type: Element type, as ``torch`` calls it.
        count: Elements in it.
        start: The first of them, in an older file's view of another storage.
        location: The device that it was on.
    """

    key: str
    type: str
    count: int
    start: int
    location: str


@dataclass(frozen=True)
class Stored:
    """One tensor: what it is called, and where it lies. ``end`` is one behind the last element that it reaches."""

    name: str
    type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    end: int
    storage: Storage

    @property
    def key(self) -> tuple[Any, ...]:
        """What tied tensors have in common."""
        return self.storage.key, self.storage.start, self.offset, self.shape, self.strides, self.type


def tensors(root: Any, *, where: str) -> list[Stored]:
    """Return the tensors below a value, in its order, each under its path there.

    Raises:
        MalformedError: One reaches out of its storage, or is put together from what is none.
    """
    found = _calls(root)
    return [
        _stored(name, one, where) if isinstance(one, inert.Call) else replace(one, name=name) for name, one in found
    ]


def _calls(root: Any) -> Iterator[tuple[str, inert.Call | Stored]]:
    """Yield the calls that make tensors, and what an older file has made before; what is shared, once."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Stored):
            yield name, value
            continue
        if not (isinstance(value, list | tuple) or inert.is_inert(value)) or id(value) in seen:
            continue
        seen.add(id(value))
        made = typed(value)
        if made is not None and made.dotted in STRIDED:
            seen.discard(id(value))  # a tensor that two names share is tied
            yield name, made
        else:
            waiting.extend(reversed(list(_below(name, value))))


def typed(value: Any) -> inert.Call | None:
    """Return a call; in place of one that is wrapped, to say the tensor's class or its state, the inner one."""
    for _ in range(_MAX_WRAPPED):
        if not isinstance(value, inert.Call) or not isinstance(value.args, tuple):
            return None
        if value.dotted in WRAPPERS and value.args:
            inner = value.args[0]
        elif value.dotted == TYPED and len(value.args) > 2:  # noqa: PLR2004 (function, class, arguments)
            inner = inert.Call(value.args[0], value.args[2], value.at)
        else:
            return value
        value = inner
    return None


def _below(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds, by name."""
    match value:
        case inert.Dict():
            pairs: list[tuple[Any, Any]] = list(value.pairs)
        case inert.Call(dotted=dotted, args=([*items],)) if dotted == ORDERED:
            pairs = [*((pair[0], pair[1]) for pair in items if _is_pair(pair)), *_put(value)]
        case inert.Call():
            yield from ((name, state) for state in value.states if value.dotted != ORDERED)
            yield from ((name, argument) for argument in _arguments(value))
            pairs = [*enumerate(value.appended or ()), *_put(value)]
        case inert.Group():
            pairs = list(enumerate(value.items))
        case list() | tuple():
            pairs = list(enumerate(value))
        case _:
            return
    for key, part in pairs:
        yield _joined(name, key), part


def _put(call: inert.Call) -> list[tuple[Any, Any]]:
    flat = call.flat or []
    return list(zip(flat[::2], flat[1::2], strict=True))


def _arguments(call: inert.Call) -> list[Any]:
    return list(call.args) if isinstance(call.args, tuple) else [call.args]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2  # noqa: PLR2004 (key and value)


def _joined(name: str, key: Any) -> str:
    if not isinstance(key, str | int) or key in _PLUMBING:
        return name
    return (f"{name}.{inert.label(key)}" if name else inert.label(key))[-_MAX_NAME:]


def _stored(name: str, call: inert.Call, where: str) -> Stored:
    place = f"{where}: tensor {inert.shown(name)}"
    match call.args:
        case (Storage() as storage, offset, sizes, strides, *_):
            pass
        case _:
            refuse(place, "put together from what is no storage")
    kind = storage.type
    if call.dotted == UTILS + "_rebuild_tensor_v3":
        kind = _dtype(call.args, place)
    numbers = (offset, *_sequence(sizes, place), *_sequence(strides, place))
    if any(type(number) is not int or not 0 <= number < 2**63 for number in numbers):
        refuse(place, "a size, stride or offset that is none")
    shape, steps = _sequence(sizes, place), _sequence(strides, place)
    if len(shape) != len(steps) or len(shape) > MAX_RANK:
        refuse(place, f"{len(shape)} sizes and {len(steps)} strides")
    end = reach(shape, steps, offset)
    if end * SIZES[kind] > storage.count * SIZES[storage.type] * _packing(kind):
        refuse(place, f"reaches element {end} of a storage of {storage.count}")
    return Stored(name, kind, shape, steps, offset, end, storage)


def reach(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    """Return one behind the last element that a tensor reaches; 0 for one without elements."""
    if 0 in shape:
        return 0
    return 1 + offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _packing(kind: str) -> int:
    """Return how many elements are in the byte that counts as one."""
    return {"quint4x2": 2, "quint2x4": 4}.get(kind, 1)


def _dtype(args: tuple[Any, ...], place: str) -> str:
    value = args[_V3_DTYPE] if len(args) > _V3_DTYPE else None
    name = value.dotted.removeprefix("torch.") if isinstance(value, inert.Global) else ""
    if name not in SIZES:
        refuse(place, f"of an element type that is none: {inert.shown(value)}")
    return name


def _sequence(value: Any, place: str) -> tuple[Any, ...]:
    if isinstance(value, inert.Call) and value.dotted == "torch.Size" and isinstance(value.args, tuple) and value.args:
        value = value.args[0]
    if not isinstance(value, list | tuple):
        refuse(place, f"sizes or strides that are none: {inert.shown(value)}")
    return tuple(value)
