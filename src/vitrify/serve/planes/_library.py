"""The native plane's library: where it is, why it is not there, and its functions (``native/src/ffi``) for ctypes.

It is ``libvitrify_plane.so`` beside this file. The environment variable ``VITRIFY_PLANE`` names another file, or turns
it ``off``. A library of another version of the interface is not used.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from vitrify.core import errors
from vitrify.serve.faults import codes, said

_ABI = 3
_FILE = Path(__file__).with_name("libvitrify_plane.so")
_VARIABLE = "VITRIFY_PLANE"
RANK = 8
"""The most dimensions that an array may have there."""

KINDS: tuple[type[errors.VitrifyError], ...] = (
    errors.BusyError,
    errors.ExpiredError,
    errors.UnavailableError,
    errors.LimitExceededError,
    errors.SignatureError,
    errors.MalformedError,
    errors.ReferenceNotFoundError,
    errors.AuthenticationError,
    errors.DeniedError,
    errors.ModelError,
    errors.VitrifyError,
)
"""The classes of faults, by the numbers that the library knows them by; the last is anything else."""


class Bytes(Structure):
    """Bytes that are borrowed."""

    _fields_ = (("data", c_void_p), ("size", c_size_t))

    def get(self) -> bytes:
        """Return a copy."""
        return ctypes.string_at(self.data, self.size) if self.size else b""

    def text(self) -> str:
        """Return them as text."""
        return self.get().decode(errors="replace")


class Array(Structure):
    """One array."""

    _fields_ = (
        ("index", c_uint32),
        ("datatype", c_uint32),
        ("rank", c_uint32),
        ("unused", c_uint32),
        ("shape", c_uint64 * RANK),
        ("data", c_void_p),
        ("size", c_size_t),
        ("offsets", c_void_p),
        ("count", c_size_t),
    )


class Told(Structure):
    """A fault."""

    _fields_ = (("kind", c_uint32), ("retry_after", c_uint32), ("message", Bytes))


class Due(Structure):
    """A batch that is to be run."""

    _fields_ = (
        ("handle", c_void_p),
        ("number", c_uint64),
        ("rows", c_uint64),
        ("count", c_uint64),
        ("arrays", POINTER(Array)),
        ("room", c_uint64),
    )


class Happened(Structure):
    """What happened."""

    _fields_ = (
        ("handle", c_void_p),
        ("what", c_uint32),
        ("streaming", c_uint32),
        ("number", c_uint64),
        ("head", Bytes),
        ("body", Bytes),
        ("fault", Told),
        ("count", c_uint64),
        ("arrays", POINTER(Array)),
        ("room", c_uint64),
    )


CALL, MESSAGE, END, GONE, ANSWER, FAULT = 1, 2, 3, 4, 5, 6
"""What happened, by its number."""


class Asked(Structure):
    """What a request asks beside its arrays."""

    _fields_ = (
        ("id", Bytes),
        ("client", Bytes),
        ("outputs", POINTER(c_uint32)),
        ("outputs_count", c_size_t),
        ("priority", c_uint32),
        ("unused", c_uint32),
        ("patience", c_double),
        ("ticket", c_uint64),
    )


_P, _N, _U64, _D = c_void_p, c_size_t, c_uint64, c_double
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "vp_abi": (c_uint32, ()),
    "vp_tls_missing": (_P, ()),
    "vp_error": (None, (POINTER(Told),)),
    "vp_house_new": (_P, ()),
    "vp_house_log": (None, (_P, c_int32)),
    "vp_house_free": (None, (_P,)),
    "vp_house_set": (c_int32, (_P, Bytes, Bytes)),
    "vp_house_start": (c_int32, (_P, Bytes, POINTER(c_int32 * 2), Bytes)),
    "vp_house_drain": (c_int32, (_P, _D)),
    "vp_house_close": (None, (_P,)),
    "vp_house_stop": (None, (_P,)),
    "vp_house_figures": (_P, (_P,)),
    "vp_text": (None, (_P, POINTER(Bytes))),
    "vp_text_free": (None, (_P,)),
    "vp_lane_open": (_P, (_P, Bytes)),
    "vp_lane_close": (c_int32, (_P, _P, _D)),
    "vp_lane_free": (None, (_P,)),
    "vp_lane_figures": (_P, (_P,)),
    "vp_lane_take": (c_int32, (_P, POINTER(Due))),
    "vp_lane_answer": (c_int32, (_P, _U64, POINTER(Array), _N, POINTER(_U64))),
    "vp_lane_fail": (None, (_P, _U64, POINTER(Told), POINTER(_U64))),
    "vp_batch_parts": (_P, (_P,)),
    "vp_batch_free": (None, (_P,)),
    "vp_submit": (c_int32, (_P, _P, POINTER(Array), _N, POINTER(Asked))),
    "vp_cancel": (c_int32, (_P, _P, _U64)),
    "vp_next": (c_int32, (_P, POINTER(Happened))),
    "vp_records": (_P, (_P,)),
    "vp_answered": (c_int32, (POINTER(Happened),)),
    "vp_happened_free": (None, (_P,)),
    "vp_answer": (c_int32, (_P, _U64, c_uint32, Bytes, Bytes)),
    "vp_begin": (c_int32, (_P, _U64, c_uint32, Bytes)),
    "vp_piece": (c_int32, (_P, _U64, Bytes)),
    "vp_end": (c_int32, (_P, _U64, c_uint32, Bytes, c_uint32)),
    "vp_reply": (c_int32, (_P, _U64, Bytes)),
    "vp_forget": (None, (_P, _U64)),
}
_QUICK = frozenset({"vp_error", "vp_text", "vp_text_free", "vp_batch_free", "vp_answered", "vp_happened_free"})
"""These never wait and do little: they keep the interpreter's lock, whose return costs more than they do."""


@cache
def library() -> Any:
    """Return the library's functions, as attributes without their prefix.

    Raises:
        MissingDependencyError: It is not there, or of another version; the message says which.
    """
    given = os.environ.get(_VARIABLE, "")
    if given == "off":
        msg = f"the native plane is turned off by {_VARIABLE}=off"
        raise errors.MissingDependencyError(msg)
    path = Path(given) if given else _FILE
    if not path.is_file():
        msg = f"the native plane was not built for this platform: there is no {path.name}"
        raise errors.MissingDependencyError(msg, remedy="install a wheel that has it, or build it from the sources")
    try:
        free, held = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        return _declared(free, held, path)
    except (OSError, AttributeError) as error:
        msg = f"the native plane in {path.name} cannot be loaded: {error}"
        raise errors.MissingDependencyError(msg, remedy="build it again for this machine") from error


def _declared(free: Any, held: Any, path: Path) -> Any:
    functions = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(held if name in _QUICK else free, name)
        function.restype, function.argtypes = result, list(arguments)
        functions[name.removeprefix("vp_")] = function
        if name == "vp_abi" and (found := function()) != _ABI:
            msg = f"the native plane in {path.name} has the interface {found}; this Vitrify has {_ABI}"
            raise errors.MissingDependencyError(msg, remedy="build it again from the same sources")
    return type("Library", (), {name: staticmethod(function) for name, function in functions.items()})


def missing() -> str:
    """Return why there is no native plane; empty where there is one."""
    try:
        library()
    except errors.MissingDependencyError as error:
        return error.message
    return ""


def tls_missing() -> str:
    """Return why the native plane, where there is one, has no TLS; empty where it has.

    It speaks TLS by the OpenSSL that Python's own ``ssl`` is linked with: one copy a process, and one to be kept up to
    date.
    """
    try:
        import ssl  # noqa: F401 (it loads the library)
    except ImportError as error:
        return f"this Python has no ssl: {error}"
    return taken(library().tls_missing()).decode()


def lend(data: bytes) -> Bytes:
    """Lend bytes to the library for one call; the caller keeps them that long."""
    return Bytes(ctypes.cast(ctypes.c_char_p(data), c_void_p), len(data))


def taken(text: int) -> bytes:
    """Return a text that the library made, and let go of it there."""
    found = Bytes()
    library().text(text, byref(found))
    try:
        return found.get()
    finally:
        library().text_free(text)


def last_error() -> errors.VitrifyError:
    """Return the last error of this thread."""
    told = Told()
    library().error(byref(told))
    return error_of(told)


def error_of(told: Told) -> errors.VitrifyError:
    """Return a fault as an exception."""
    kind: type[errors.VitrifyError] = KINDS[told.kind]
    if kind is errors.BusyError:
        return errors.BusyError(told.message.text(), retry_after=told.retry_after)
    return kind(told.message.text())


def kind_of(error: BaseException) -> int:
    """Return the number of the class that is said of an error in the same way."""
    status = codes(error)
    exact = (number for number, kind in enumerate(KINDS) if type(error) is kind)
    alike = (number for number, kind in enumerate(KINDS) if codes(kind("")) == status)
    return next(exact, next(alike, len(KINDS) - 1))


def told_of(error: BaseException) -> tuple[Told, bytes]:
    """Return a fault for an exception, and the text that it borrows."""
    text = said(error).encode()
    retry = max(1, round(getattr(error, "retry_after", 1)))
    return Told(kind_of(error), retry, lend(text)), text
