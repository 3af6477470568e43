"""PyTorch's dialect of pickle, as it is looked at: storages stand outside and are referred to by persistent ids.

The functions that put tensors together are trusted because functions of ours stand in for them when the file is
loaded (:mod:`._torch.live`); here nothing is made and PyTorch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vitrify.formats._torch import tensors
from vitrify.formats._torch.elements import DTYPES, OLD_TENSORS, SIZES, STORAGES
from vitrify.formats._torch.modules import FUNCTIONS, MODULES
from vitrify.formats._torch.tensors import UTILS, Storage
from vitrify.pickles import inert
from vitrify.pickles.dialect import Dialect
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REBUILDS = frozenset(
    {
        *tensors.STRIDED,
        *tensors.WRAPPERS,
        tensors.TYPED,
        UTILS + "_rebuild_sparse_tensor",
        UTILS + "_rebuild_meta_tensor_no_storage",
        UTILS + "_rebuild_device_tensor_from_numpy",
        UTILS + "_rebuild_device_tensor_from_cpu_tensor",
    }
)
"""Functions that return a tensor."""

PLAIN = frozenset({"torch.Size", "torch.device", "torch.serialization._get_layout", "argparse.Namespace"})
"""Small values: sizes, a device, a layout, the options that a training script was called with."""

SCHEMES = frozenset(
    f"torch.{name}" for name in ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")
)
TENSORS = frozenset(
    ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
)


class Script:
    """What an object of TorchScript's own classes is here: nothing, as it is never made."""


class TorchDialect(Dialect):
    """What ``torch.save`` writes.

    Attributes:
        storages: What persistent ids stood for so far, by key.
        known: For a file of the tar era, what stands in it under a number.
    """

    constructors: Mapping[str, Callable[..., Any]] = MappingProxyType(
        dict.fromkeys((*REBUILDS, *PLAIN, *MODULES, *TENSORS), Script)
    )
    refers = frozenset({*REBUILDS, *STORAGES, *OLD_TENSORS, *DTYPES, *FUNCTIONS, *SCHEMES, *TENSORS})

    def __init__(self, *, where: str, known: Mapping[str, Any] | None = None) -> None:
        """Take what the file is called."""
        self.where = where
        self.storages: dict[str, Storage] = {}
        self.known = known or {}

    def rename(self, module: str, name: str) -> tuple[str, str] | None:
        """Name what moved: containers' storages, and classes that PyTorch calls by a shorter name."""
        if module in {"torch", "torch.nn"} and name in {"Parameter", "Buffer"}:
            return "torch.nn.parameter", name
        return None

    def persistent(self, pid: Any) -> Any:
        """Return the storage, tensor or class that an id stands for.

        Raises:
            MalformedError: It is none of PyTorch's ids, or says something else than the same id before.
        """
        match pid:
            case str() | int() if str(pid) in self.known:
                return self.known[str(pid)]
            case ("module", inert.Global() as cls, *_):
                return cls
            case ("storage", inert.Global() as cls, key, location, count, *more) if cls.dotted in STORAGES:
                return self._storage(STORAGES[cls.dotted], key, location, count, more)
            case ("storage", inert.Global() as cls, *_):
                refuse(self.where, f"a storage of class {cls.dotted:.200}, which PyTorch has not")
        return refuse(self.where, f"a persistent id that is none of PyTorch's ({inert.shown(pid)})")

    def _storage(self, kind: str, key: Any, location: Any, count: Any, more: list[Any]) -> Storage:
        name, device = inert.text(key) if not isinstance(key, int) else inert.label(key), inert.text(location)
        if name is None or device is None or type(count) is not int or not 0 <= count < 2**63 // SIZES[kind]:
            refuse(self.where, "a storage without a name, a device or a size")
        found = Storage(name, kind, count, 0, device)
        kept = self.storages.setdefault(name, found)
        if (kept.count, SIZES[kept.type]) != (count, SIZES[kind]):
            refuse(self.where, f"storage {inert.shown(name)} has two sizes")
        match more:
            case [] | [None]:
                return found
            case [(view, start, size)] if type(start) is int and type(size) is int and min(start, size) >= 0:
                if start + size > count or inert.text(view) is None:
                    refuse(self.where, f"a view that reaches out of storage {inert.shown(name)}")
                return Storage(name, kind, size, start, device)
        return refuse(self.where, f"a view of storage {inert.shown(name)} that is none")


class _Classes(Mapping[str, type]):
    """All classes of a TorchScript file's own code, of which no names are known before."""

    def __getitem__(self, name: str) -> type:
        if name.startswith("__torch__.") or name in _SCRIPT:
            return Script
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_SCRIPT)

    def __len__(self) -> int:
        return len(_SCRIPT)


_LISTS = ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist", "build_complexlist")
_TAGS = ("build_tensor_from_id", "restore_type_tag")
_SCRIPT = frozenset({*(f"torch.jit._pickle.{name}" for name in (*_LISTS, *_TAGS)), *TorchDialect.constructors})


class ScriptDialect(TorchDialect):
    """What TorchScript writes: read by an unpickler of its own, which knows no Python."""

    constructors = _Classes()
    refers = TorchDialect.refers | _SCRIPT

    def persistent(self, pid: Any) -> Any:
        """Return the storage, or the number of a tensor, that an id stands for."""
        return Script() if type(pid) is int else super().persistent(pid)
