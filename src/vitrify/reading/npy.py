"""An array as ``.npy``: header and content, none of it believed.

The header is parsed by a grammar of our own, its element type has to be one that NumPy writes, and its shape has to
account for every byte that follows. An array of objects is a pickle behind a header: it is told apart here, and is
the pickle machine's to read.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from vitrify.core.errors import MalformedError
from vitrify.reading.literal import parse
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAGIC = b"\x93NUMPY"
MAX_HEADER = 64 * 1024
MAX_START = 12 + MAX_HEADER
"""Bytes from the beginning of a file that hold its header, whatever it is."""

MAX_RANK = 64
MAX_ITEM = 2**31 - 1
MAX_OF_NOTHING = 2**31
"""Elements of zero bytes cost no file space; this many are believed."""

_LENGTH_SIZES = {1: 2, 2: 4, 3: 4}
_TYPE = re.compile(r"[<>|=]?(?P<kind>[biufcmMOSUV])(?P<size>[0-9]{0,10})(?P<unit>\[[0-9A-Za-z/]{1,24}\])?")
_SIZES = {
    "b": {1},
    "i": {1, 2, 4, 8},
    "u": {1, 2, 4, 8},
    "f": {2, 4, 8, 12, 16},
    "c": {8, 16, 24, 32},
    "m": {8},
    "M": {8},
    "O": {4, 8},
}
_NAMES = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_POINTER = 8
_DAMAGE = (ValueError, TypeError, LookupError, OverflowError, MemoryError)


@dataclass(frozen=True)
class Layout:
    """What a header says.

    Attributes:
        shape: The shape.
        fortran: Whether the first index runs fastest.
        descr: The element type as the header has it, validated: text, or a list of fields.
        itemsize: Bytes of one element.
        objects: Whether an element holds Python objects; then a pickle follows the header.
        start: Where the content begins.
    """

    shape: tuple[int, ...]
    fortran: bool
    descr: Any
    itemsize: int
    objects: bool
    start: int

    @property
    def count(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return self.count * self.itemsize

    @property
    def type(self) -> str:
        """The element type in NumPy's words where it has any: ``float64``, ``<U5``, or the fields."""
        if not isinstance(self.descr, str):
            return str(self.descr)
        kind = self.descr.lstrip("<>|=")[:1]
        return "object" if kind == "O" else "bool" if kind == "b" else self._sized(kind)

    def _sized(self, kind: str) -> str:
        return f"{_NAMES[kind]}{8 * self.itemsize}" if kind in _NAMES else str(self.descr)


def layout(view: memoryview, *, where: str, size: int | None = None) -> Layout:
    """Return what the header says, once it accounts for all that follows; no element is read.

    Args:
        view: The file, or its beginning.
        where: What it is, for error messages.
        size: Bytes of the whole file, where ``view`` is its beginning only.

    Raises:
        MalformedError: There is no such header, or it does not describe exactly the bytes that follow.
        LimitExceededError: The header is longer than ``MAX_HEADER``.
    """
    version = view[6] if view.nbytes > len(MAGIC) else 0
    digits = _LENGTH_SIZES.get(version)
    if bytes(view[:6]) != MAGIC or digits is None:
        refuse(where, "no .npy header of version 1, 2 or 3")
    start = 8 + digits
    length = int.from_bytes(view[8:start], "little")
    if length > MAX_HEADER:
        exceed(where, f"an .npy header of {length} bytes, more than {MAX_HEADER}")
    if view.nbytes < start + length:
        refuse(where, "the .npy header is cut off")
    try:
        found = _header(bytes(view[start : start + length]), start + length, "utf-8" if version > 2 else "latin1")  # noqa: PLR2004 (version 3 brought UTF-8)
    except MalformedError as error:
        msg = f"{where}: {error.message}"
        raise type(error)(msg, remedy=error.remedy) from error
    held = (view.nbytes if size is None else size) - found.start
    nothing = not found.nbytes and found.count > MAX_OF_NOTHING
    if nothing or (not found.objects and found.nbytes != held):
        refuse(where, f"{held} bytes for an array of shape {found.shape} and type {found.type}")
    return found


def array(view: memoryview, *, where: str) -> Array:
    """Return the array, read-only, over bytes that are not copied.

    Raises:
        MalformedError: It is no array, or one of objects.
    """
    import numpy as np

    found = layout(view, where=where)
    if found.objects:
        refuse(where, "an array of Python objects, which is a pickle", remedy="save it as numbers or text")
    order: Literal["C", "F"] = "F" if found.fortran else "C"
    try:
        dtype = np.lib.format.descr_to_dtype(found.descr)
        if dtype.itemsize != found.itemsize or dtype.hasobject:
            refuse(where, f"NumPy reads the type {found.descr!r:.60} as {dtype}")
        if not found.nbytes:
            return np.empty(found.shape, dtype, order=order)
        return np.frombuffer(view[found.start :], dtype).reshape(found.shape, order=order)
    except _DAMAGE as error:
        msg = f"{where}: not an array ({error})"
        raise MalformedError(msg) from error


def decode(view: memoryview, *, where: str) -> Array:
    """Return a writable copy of the array; raises what :func:`array` does."""
    return array(view, where=where).copy(order="K")


def encode(values: Any) -> tuple[bytes, bytes | memoryview]:
    """Return header and content. Values, dtype, and C or Fortran order are kept; the same array gives the same bytes.

    Raises:
        ValueError: NumPy cannot write this dtype without pickle, or its header is longer than ``MAX_HEADER``.
    """
    import io

    import numpy as np

    values = np.asarray(values)
    if values.dtype.hasobject:
        msg = f"an array of dtype {values.dtype} holds Python objects"
        raise ValueError(msg)
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        values = np.ascontiguousarray(values)
    values = _without_gaps(values)
    header = np.lib.format.header_data_from_array_1_0(values)
    stream = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, header)
    except UnicodeEncodeError:  # names that are not Latin-1; NumPy's writer of version 3 is private
        text = repr(header).encode()
        padded = text + b" " * (-(len(text) + 13) % 64) + b"\n"
        stream.write(MAGIC + b"\x03\x00" + len(padded).to_bytes(4, "little") + padded)
    if values.nbytes == 0:
        return stream.getvalue(), b""
    flat = (values if values.flags.c_contiguous else values.T).reshape(-1)
    return stream.getvalue(), flat.view(np.uint8).data


def _without_gaps(values: Array) -> Array:
    """Return the array with zeros between the fields of its records, where memory is left as it was found."""
    import numpy as np

    if values.dtype.names is None:
        return values
    clean = np.zeros(values.shape, values.dtype, order="C" if values.flags.c_contiguous else "F")
    for name in values.dtype.names:
        clean[name] = _without_gaps(values[name])
    return clean


@lru_cache(maxsize=1024)
def _header(header: bytes, start: int, encoding: str) -> Layout:
    """Parse the literal dict of a header; a forest repeats the same few hundreds of times."""
    where = ".npy header"
    try:
        literal = parse(header.decode(encoding), where=where)
    except UnicodeDecodeError:
        refuse(where, "no UTF-8 text")
    if type(literal) is not dict or set(literal) != {"descr", "fortran_order", "shape"}:
        refuse(where, "not a dict of descr, fortran_order and shape")
    shape = _shape(literal["shape"], where)
    fortran = literal["fortran_order"]
    if type(fortran) is not bool:
        refuse(where, f"fortran_order is {fortran!r:.60}")
    itemsize, objects = _measure(literal["descr"], where)
    return Layout(shape, fortran, literal["descr"], itemsize, objects, start)


def _shape(value: Any, where: str) -> tuple[int, ...]:
    if type(value) is not tuple or len(value) > MAX_RANK or any(type(size) is not int or size < 0 for size in value):
        refuse(where, f"no shape: {value!r:.60}")
    return value


def _measure(descr: Any, where: str) -> tuple[int, bool]:
    """Return the size of one element, and whether it holds objects."""
    if type(descr) is str:
        size, objects = _measure_plain(descr, where)
    elif type(descr) is tuple and len(descr) == 2:  # noqa: PLR2004 (type and shape)
        part, objects = _measure(descr[0], where)
        size = part * math.prod(_shape(descr[1], where))
    elif type(descr) is list and descr:
        parts = [_measure_field(field, where) for field in descr]
        size, objects = sum(part for part, _ in parts), any(held for _, held in parts)
    else:
        refuse(where, f"no element type: {descr!r:.60}")
    if size > MAX_ITEM:
        refuse(where, f"an element of {size} bytes")
    return size, objects


def _measure_plain(descr: str, where: str) -> tuple[int, bool]:
    found = _TYPE.fullmatch(descr)
    if found is None or (found["unit"] and found["kind"] not in "mM"):
        refuse(where, f"no element type: {descr!r:.60}")
    kind = found["kind"]
    size = int(found["size"]) if found["size"] else _POINTER if kind == "O" else -1
    if size < 0 or size not in _SIZES.get(kind, {size}):
        refuse(where, f"no element type: {descr!r:.60}")
    return 4 * size if kind == "U" else size, kind == "O"


def _measure_field(field: Any, where: str) -> tuple[int, bool]:
    """Measure one field of a record: name (or title and name), type, and perhaps a shape."""
    if type(field) is not tuple or len(field) not in {2, 3}:
        refuse(where, f"no field: {field!r:.60}")
    name = field[0]
    names = name if type(name) is tuple and len(name) == 2 else (name,)  # noqa: PLR2004 (title and name)
    if not all(type(one) is str for one in names):
        refuse(where, f"no name of a field: {name!r:.60}")
    return _measure(field[1] if len(field) == 2 else (field[1], field[2]), where)  # noqa: PLR2004 (no shape)
