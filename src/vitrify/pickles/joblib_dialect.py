"""What joblib adds to pickles: the bytes of an array follow the object that describes it, between two opcodes.

``joblib.dump`` writes a ``NumpyArrayWrapper`` (class, shape, order, dtype) in the place of each array. Its bytes come
next: since joblib 1.2 behind a byte that says how many bytes of padding align them, and the padding. An array of
objects comes as a pickle of its own instead. Joblib before 0.10 kept arrays in files beside, which are not read here.

Source: https://github.com/joblib/joblib/blob/main/joblib/numpy_pickle.py
"""

from __future__ import annotations

import math
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vitrify.pickles import inert
from vitrify.pickles.dialect import Nested
from vitrify.pickles.older import Older
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_ALIGNMENT = 64
MAX_RANK = 64
MAX_OF_NOTHING = 2**31
"""Elements of zero bytes cost no file space; this many are believed."""

MAX_FIELDS = 10_000

MAX_HIDDEN = 256 * 1024
"""Bytes at the beginning of an array without padding that are looked at as opcodes."""

_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"
_BESIDE = frozenset(
    f"joblib.{module}.{name}"
    for module in ("numpy_pickle", "numpy_pickle_compat")
    for name in ("NDArrayWrapper", "ZNDArrayWrapper")
)
_MEMMAPS = ("numpy.memmap", "numpy._core.memmap.memmap")
_MATRICES = ("numpy.matrix", "numpy.matrixlib.defmatrix.matrix")
_PADDING = 0xFF
_TYPE = re.compile(r"[<>|=]?([biufcmMOSUV?])([0-9]{0,10})")
_SIZES = {"?": 1, "O": 8, "b": 1}


class Wrapper:
    """Stands in for what joblib writes in the place of an array; its attributes are checked when its bytes are read."""

    def __setstate__(self, state: Any) -> None:
        """Keep the attributes."""
        self.state = state if isinstance(state, dict) else {}


class Beside:
    """Stands in for what joblib before 0.10 wrote in the place of an array that lies in a file beside."""

    def __setstate__(self, state: Any) -> None:
        """Keep nothing: it is refused."""


class Memmap:
    """Stands in for the class of an array that was mapped when it was dumped: it is read as a plain one."""


class _Piece(NamedTuple):
    """What follows a wrapper: where the bytes begin and end, and how they are laid out."""

    start: int
    end: int
    itemsize: int
    objects: bool


class Joblib(Older):
    """A file that ``joblib.dump`` wrote, or what its compression expanded to; older releases of all libraries, too."""

    constructors: Mapping[str, Callable[..., Any]] = MappingProxyType(
        {**Older.constructors, _WRAPPER: Wrapper, **dict.fromkeys(_BESIDE, Beside), **dict.fromkeys(_MEMMAPS, Memmap)}
    )
    refers = Older.refers | {"numpy.ndarray", *_MATRICES, *_MEMMAPS}

    def __init__(self, *, where: str) -> None:
        """Take what the file is called in error messages."""
        self._where = where
        self._pieces: dict[int, _Piece] = {}
        self._inside = False

    @property
    def sizes(self) -> list[int]:
        """The bytes of each array that stands between opcodes, as far as was read."""
        return [piece.end - piece.start for piece in self._pieces.values()]

    def built(self, instance: Any, state: Any, view: memoryview, at: int) -> tuple[Any, int] | None:
        """Read the array behind a wrapper; see the base class."""
        if isinstance(instance, inert.Call):
            return self._looked(instance, state, view, at)
        if isinstance(instance, Beside):
            self._refuse_beside()
        if not isinstance(instance, Wrapper):
            return None
        piece = self._pieces.get(at)
        dtype = instance.state.get("dtype")
        if piece is None or (getattr(dtype, "itemsize", -1), getattr(dtype, "hasobject", None)) != piece[2:]:
            refuse(self._where, f"NumPy reads the type of the array at {at} as {inert.shown(dtype)}")
        if piece.objects:
            return self._nested(_is_array), piece.start
        return _array(view[piece.start : piece.end], instance.state), piece.end

    def _looked(self, call: inert.Call, state: Any, view: memoryview, at: int) -> tuple[Any, int] | None:
        """In the first pass: find out how far the array reaches, and step over it."""
        if call.dotted in _BESIDE:
            self._refuse_beside()
        if call.dotted != _WRAPPER:
            return None
        if not isinstance(state, inert.Dict):
            refuse(self._where, f"an array at {at} without a description")
        if self._inside:
            refuse(self._where, f"an array at {at}, inside a pickle where joblib reads no arrays")
        piece = self._pieces[at] = self._measured(state, view, at)
        if piece.objects:
            return self._nested(lambda value: value), piece.start
        return inert.Call(call.func, call.args, at, made=True), piece.end

    def _measured(self, state: inert.Dict, view: memoryview, at: int) -> _Piece:
        itemsize, objects = _measure(state.get("dtype"), self._where)
        if objects:
            return _Piece(at, at, itemsize, objects)
        shape = state.get("shape")
        if type(shape) is not tuple or len(shape) > MAX_RANK or not all(type(n) is int and n >= 0 for n in shape):
            refuse(self._where, f"an array of shape {inert.shown(shape)}")
        count = math.prod(shape)
        start = self._padded(state.get("numpy_array_alignment_bytes"), view, at)
        size = count * itemsize
        if size > len(view) - start or (not itemsize and count > MAX_OF_NOTHING):
            refuse(self._where, f"an array of {size} bytes at {start}, where {len(view) - start} are left")
        return _Piece(start, start + size, itemsize, objects)

    def _padded(self, alignment: Any, view: memoryview, at: int) -> int:
        """Return where the bytes begin, behind the padding.

        The padding is what joblib writes, to the byte: a reader of plain pickles takes what follows for opcodes, and
        stops at the first of these.
        """
        if alignment is None:
            self._require_no_pickle(view, at)
            return at
        if type(alignment) is not int or not 1 <= alignment <= MAX_ALIGNMENT or at >= len(view):
            refuse(self._where, f"an array at {at} that is aligned to {inert.shown(alignment)}")
        size = view[at]
        padding = bytes(view[at + 1 : at + 1 + size])
        if not 1 <= size <= alignment or padding != bytes([_PADDING]) * size:
            refuse(self._where, f"the array at {at} has a padding that joblib does not write")
        return at + 1 + size

    def _require_no_pickle(self, view: memoryview, at: int) -> None:
        """Refuse an array without padding whose bytes look up names where they are taken for opcodes."""
        from vitrify.pickles.machine import audit

        if found := audit(view[at : at + MAX_HIDDEN], where=self._where, stacked=False).untrusted:
            what = f"the array at {at} is a program too: it would use {found[0]} where plain pickles are read"
            refuse(self._where, what, remedy="do not use this file: no honest array spells the names of functions")

    def _nested(self, check: Callable[[Any], Any]) -> Nested:
        """Let the machine read the pickle of an array of objects; joblib reads it as a plain one."""
        self._inside = True

        def then(value: Any) -> Any:
            self._inside = False
            return check(value)

        return Nested(then)

    def _refuse_beside(self) -> None:
        what = "its arrays lie in files beside it, as joblib before 0.10 wrote them, and cannot be looked at"
        exceed(self._where, what, remedy="load it with joblib 0.9 to 1.6, all files in one folder, and dump it again")


def _is_array(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray):
        refuse("joblib", f"a {type(value).__name__} where an array of objects was expected")
    return value


def _array(content: memoryview, state: Mapping[str, Any]) -> Any:
    """Return the array: over the bytes themselves where they may be written to and lie well, else a copy."""
    import numpy as np

    dtype, shape, subclass = state["dtype"], state.get("shape"), state.get("subclass")
    if content.nbytes:
        flat = np.frombuffer(content, dtype)
        if not (flat.flags.writeable and flat.flags.aligned):
            flat = flat.copy()
    else:
        flat = np.empty(math.prod(shape or ()), dtype)
    found = flat.reshape(shape[::-1]).T if state.get("order") == "F" and shape else flat.reshape(shape)
    if _is_foreign(dtype):
        found = found.byteswap().view(dtype.newbyteorder("="))
    return found.view(np.matrix) if subclass is np.matrix and found.ndim == 2 else found  # noqa: PLR2004 (a matrix has two)


def _is_foreign(dtype: Any) -> bool:
    """Say whether joblib turns the bytes of elements round: of numbers, and of records all of whose fields are so."""
    foreign = ">" if sys.byteorder == "little" else "<"
    parts = [field[0] for field in (dtype.fields or {}).values()] or [dtype]
    return all(part.byteorder == foreign for part in parts)


def _measure(dtype: Any, where: str) -> tuple[int, bool]:
    """Return the bytes of an element of an inert dtype, and whether it holds objects."""
    size, objects = -1, False
    todo, seen = [dtype], 0
    while todo:
        one = todo.pop()
        seen += 1
        text = _text(one)
        found = _TYPE.fullmatch(text) if text is not None else None
        if found is None or seen > MAX_FIELDS:
            refuse(where, f"an array of {inert.shown(one)}")
        if size < 0:
            size = _sized(found[1], found[2], where)
        objects = objects or found[1] == "O"
        todo += _parts(one, size if seen == 1 else None, where)
    return size, objects


def _text(dtype: Any) -> str | None:
    """Return the text that a dtype is made from: ``f8``, ``V16``."""
    if not isinstance(dtype, inert.Call) or dtype.dotted != "numpy.dtype" or not dtype.args:
        return None
    text = dtype.args[0]
    return text.decode("latin1") if isinstance(text, bytes) else inert.text(text, 64)


def _sized(kind: str, digits: str, where: str) -> int:
    if not digits:
        if kind not in _SIZES:
            refuse(where, f"an array of {kind!r} without a size")
        return _SIZES[kind]
    size = 4 * int(digits) if kind == "U" else int(digits)
    if size >= 1 << 31:
        refuse(where, f"elements of {size} bytes")
    return size


def _parts(dtype: inert.Call, size: int | None, where: str) -> list[Any]:
    """Return the dtypes of the fields, or of the elements, of a dtype; its state must not change its size."""
    state = dtype.state
    if state is None:
        return []
    if type(state) is not tuple or len(state) < 8:  # noqa: PLR2004 (as NumPy writes it)
        refuse(where, f"a type with a state {inert.shown(state)}")
    if size is not None and state[5] not in {-1, size}:
        refuse(where, f"a type of {size} bytes that says {inert.shown(state[5])}")
    base, fields = state[2], state[4]
    parts = [base[0]] if type(base) is tuple and base else []
    if isinstance(fields, inert.Dict):
        parts += [field[0] for _, field in fields.items() if type(field) is tuple and field]
    return parts
