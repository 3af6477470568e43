"""Load a file of ``torch.save``: its pickle by the pickle machine, its tensors over the mapped file.

Each function that puts a tensor together has one of ours before it, which checks what PyTorch takes as given: that
sizes, strides and offset stay within the storage, that there are no hooks, that a state is plain attributes.
Source: ``torch/_utils.py``; ``torch/_tensor.py``, ``_rebuild_from_type_v2``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import _utils

from vitrify.formats._torch.dialect import TENSORS, TorchDialect
from vitrify.formats._torch.elements import SIZES, STORAGES
from vitrify.formats._torch.modules import MODULES
from vitrify.formats._torch.tensors import TYPED, UTILS, Storage, Stored, reach
from vitrify.pickles import inert
from vitrify.pickles.machine import load as load_pickle
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Allow
    from vitrify.formats._torch.checkpoint import Checkpoint

_LAYOUTS = {str(one): one for one in (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)}
_LAYOUTS |= {str(one): one for one in (torch.sparse_bsr, torch.sparse_bsc)}
_PARAMETERS = {"torch.nn.parameter.Parameter": torch.nn.Parameter}


def load(checkpoint: Checkpoint, allow: Allow, *, where: str) -> Any:
    """Return the object.

    Raises:
        UntrustedCodeError: It needs names that are neither trusted nor allowed; nothing was run.
        MalformedError: There is anything else to find in the file, or it cannot be built.
    """
    allow.require(
        [one.subject for one in checkpoint.findings if one.rule == "untrusted-global"], what=f"loading {where}"
    )
    for found in checkpoint.findings:
        if found.rule != "untrusted-global":
            refuse(found.place, found.message, remedy=found.remedy)
    if checkpoint.facts["byte_order"] != "little":
        refuse(where, "of big-endian numbers, which are not read here", remedy="load and save it on a usual machine")
    return load_pickle(checkpoint.pickle, where=where, allow=allow, dialect=LiveDialect(checkpoint, where=where))


class _Type:
    """A class of theirs that a pickle only names: calling it is refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any) -> NoReturn:
        refuse("pickle", f"calls {self.name}, which PyTorch's own writer never does")


class LiveDialect(TorchDialect):
    """The dialect with functions that make what they stand for."""

    def __init__(self, checkpoint: Checkpoint, *, where: str) -> None:
        """Take the storages' bytes."""
        super().__init__(where=where)
        self._data = checkpoint.data
        self._made: dict[str, torch.Tensor] = {}
        self.known = {key: self._tensor(one) for key, one in checkpoint.dialect.known.items()}
        self.constructors: Mapping[str, Callable[..., Any]] = {**_FUNCTIONS, **_classes()}

    def persistent(self, pid: Any) -> Any:
        """Return the storage of a live id; of an inert one, as any dialect does."""
        match pid:
            case ("storage", _Type() as cls, key, location, count, *more):
                return self._typed(self._storage(STORAGES[cls.name], key, location, count, more))
            case ("module", cls, *_) if not inert.is_inert(cls):
                return cls
        return super().persistent(pid)

    def _typed(self, storage: Storage) -> torch.storage.TypedStorage:
        """Return a storage over its bytes: mapped, or copied where they are not aligned."""
        if storage.key not in self._made:
            size = self.storages[storage.key].count * SIZES[storage.type]
            data = self._data[storage.key][:size] if size else memoryview(b"")
            made = torch.frombuffer(data, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
            self._made[storage.key] = made.clone() if made.data_ptr() % SIZES[storage.type] else made
        whole = self._made[storage.key].untyped_storage()
        width = SIZES[storage.type]
        if storage.start or storage.count * width != whole.nbytes():
            whole = whole[storage.start * width : (storage.start + storage.count) * width]
        kind = getattr(torch, storage.type)
        return torch.storage.TypedStorage(wrap_storage=whole, dtype=kind, _internal=True)

    def _tensor(self, stored: Any) -> Any:
        if not isinstance(stored, Stored):
            return stored
        self.storages.setdefault(stored.storage.key, stored.storage)
        typed = self._typed(stored.storage)
        return _FUNCTIONS[UTILS + "_rebuild_tensor"](typed, stored.offset, stored.shape, stored.strides)


def _strided(name: str) -> Callable[..., torch.Tensor]:
    """Return a function that checks what the one of that name takes as given."""

    def make(storage: Any, offset: Any, shape: Any, strides: Any, *more: Any) -> torch.Tensor:
        if not isinstance(storage, torch.storage.TypedStorage):
            _wrong(name, "what is no storage")
        numbers = (offset, *shape, *strides)
        if any(type(number) is not int or number < 0 for number in numbers) or len(shape) != len(strides):
            _wrong(name, "sizes, strides or an offset that are none")
        kind = more[2] if name == "_rebuild_tensor_v3" and len(more) > 2 else storage.dtype  # noqa: PLR2004 (grad, hooks, type)
        packing = {"quint4x2": 2, "quint2x4": 4}.get(str(kind).removeprefix("torch."), 1)
        held = storage._untyped_storage.nbytes()  # noqa: SLF001 (the public way warns that there is none)
        if reach(tuple(shape), tuple(strides), offset) * kind.itemsize > held * packing:
            _wrong(name, "more than its storage has")
        hooks = more[2] if name == "_rebuild_qtensor" and len(more) > 2 else more[1] if len(more) > 1 else None  # noqa: PLR2004 (as above)
        if hooks:
            _wrong(name, "hooks")
        made: torch.Tensor = getattr(_utils, name)(storage, offset, tuple(shape), tuple(strides), *more)
        return made

    return make


def _parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> torch.nn.Parameter:
    if not isinstance(data, torch.Tensor) or hooks:
        _wrong("_rebuild_parameter", "no tensor, or hooks")
    return _with_state(torch.nn.Parameter(data, requires_grad=bool(requires_grad)), state)


def _typed(function: Any, kind: Any, args: Any, state: Any) -> torch.Tensor:
    if function not in _FUNCTIONS.values() or not isinstance(kind, _Type) or kind.name not in TENSORS:
        _wrong("_rebuild_from_type_v2", "a function or a class that is none of a tensor")
    made = function(*args)
    if not isinstance(made, torch.Tensor):
        _wrong("_rebuild_from_type_v2", "no tensor")
    if (cls := _PARAMETERS.get(kind.name)) and not isinstance(made, cls):
        made = made.as_subclass(cls)
    return _with_state(made, state)


def _with_state(tensor: Any, state: Any) -> Any:
    """Give a tensor attributes of its own; none of them may be one that tensors have."""
    for name, value in (state or {}).items():
        if not isinstance(name, str) or not name.isidentifier() or hasattr(tensor, name):
            _wrong("a tensor's state", f"an attribute {name!r:.60}")
        tensor.__dict__[name] = value
    return tensor


def _sparse(layout: Any, data: Any) -> torch.Tensor:
    if layout is torch.sparse_coo:
        indices, values, size, *more = data
        made = torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
        return made.coalesce() if more and more[0] else made
    compressed, plain, values, size = data
    return torch.sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=True)


def _meta(dtype: Any, size: Any, strides: Any, requires_grad: Any) -> torch.Tensor:
    return torch.empty_strided(size, strides, dtype=dtype, device="meta", requires_grad=bool(requires_grad))


def _elsewhere(data: Any, dtype: Any, device: Any, requires_grad: Any) -> torch.Tensor:  # noqa: ARG001 (theirs)
    """Return on the CPU what was on a device that has no storages."""
    tensor = data if isinstance(data, torch.Tensor) else torch.from_numpy(data)
    return tensor.to(dtype).requires_grad_(bool(requires_grad))


def _layout(name: Any) -> torch.layout:
    return _LAYOUTS[name]


def _wrong(name: str, what: str) -> NoReturn:
    refuse("pickle", f"{name} is given {what}")


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        UTILS + name: _strided(name)
        for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
    },
    UTILS + "_rebuild_parameter": _parameter,
    UTILS + "_rebuild_parameter_with_state": _parameter,
    UTILS + "_rebuild_sparse_tensor": _sparse,
    UTILS + "_rebuild_meta_tensor_no_storage": _meta,
    UTILS + "_rebuild_device_tensor_from_numpy": _elsewhere,
    UTILS + "_rebuild_device_tensor_from_cpu_tensor": _elsewhere,
    TYPED: _typed,
    "torch.Size": torch.Size,
    "torch.device": torch.device,
    "torch.serialization._get_layout": _layout,
}


def _classes() -> dict[str, Any]:
    """Return what only names stand for, and the classes of modules that this PyTorch has."""
    from argparse import Namespace

    found: dict[str, Any] = {name: _Type(name) for name in (*STORAGES, *TENSORS)}
    for dotted in MODULES:
        module, _, name = dotted.rpartition(".")
        cls = getattr(importlib.import_module(module), name, None)
        if cls is not None:
            found[dotted] = cls
    return {**found, "argparse.Namespace": Namespace}
