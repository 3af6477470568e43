"""Inert values: what a pickle would make, as data. Nothing is imported, called, hashed or compared.

``None``, ``bool``, ``int``, ``float``, short ``str`` and short ``bytes`` stand for themselves; so do ``list`` and
``tuple``, whose items are inert values. Everything else is one of the classes here. A pickle may share and nest as
it likes, and hold itself: whoever walks these values goes iteratively, with :func:`walk`. Their equality is
identity and their ``repr`` is one short line, so that no nesting can make either of them long.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = 4096
"""Text and bytes of at most this many bytes stand for themselves; longer ones are a :class:`Span`."""


class Span:
    """Text or bytes that were left where they are: ``view[start:end]``."""

    __slots__ = ("end", "kind", "start", "view")

    def __init__(self, view: memoryview, start: int, end: int, kind: str) -> None:
        """Take the place; ``kind`` is ``str``, ``latin1`` (text of Python 2), ``bytes`` or ``bytearray``."""
        self.view = view
        self.start = start
        self.end = end
        self.kind = kind

    @property
    def content(self) -> memoryview:
        """The bytes, not copied."""
        return self.view[self.start : self.end]

    def __len__(self) -> int:
        return self.end - self.start

    def __repr__(self) -> str:
        return f"<{len(self)} bytes of {self.kind} at {self.start}>"


class Global:
    """A class or function that the pickle names; ``module`` and ``name`` are today's (see ``Dialect.rename``)."""

    __slots__ = ("at", "module", "name", "pushed", "taken")

    def __init__(self, module: str, name: str, at: int) -> None:
        """Take the name, and the offset of the opcode that looks it up."""
        self.module = module
        self.name = name
        self.at = at
        self.pushed = 1  # how often it came to the stack, and how often it was taken from there to be called or made
        self.taken = 0

    @property
    def dotted(self) -> str:
        """The full name."""
        return f"{self.module}.{self.name}"

    def __repr__(self) -> str:
        return f"<global {self.dotted[:80]}>"


class Call:
    """What calling ``func`` would return, or (``made``) an instance of it that skipped its constructor.

    Attributes:
        func: A :class:`Global`, or whatever else the pickle calls.
        args: The arguments: a tuple in every honest pickle.
        made: Whether an empty instance is made (NEWOBJ, ``copyreg._reconstructor``), not a call.
        kwargs: A :class:`Dict`, or None.
        states: What BUILD gave to it, in order; honest pickles do that at most once.
        appended: What APPEND and APPENDS added to it.
        flat: What SETITEM and SETITEMS put into it: keys and values in turn.
    """

    __slots__ = ("appended", "args", "at", "flat", "func", "kwargs", "made", "pushed", "states")

    def __init__(self, func: Any, args: Any, at: int, *, made: bool = False, kwargs: Any = None) -> None:
        """Take what is called, with what, and the offset of the opcode that does it."""
        self.func = func
        self.args = args
        self.at = at
        self.made = made
        self.kwargs = kwargs
        self.pushed = 1  # how often it came to the stack
        self.states: tuple[Any, ...] = ()
        self.appended: list[Any] | None = None
        self.flat: list[Any] | None = None

    @property
    def dotted(self) -> str:
        """The full name of what is called; empty where that is no :class:`Global`."""
        return self.func.dotted if isinstance(self.func, Global) else ""

    @property
    def state(self) -> Any:
        """What BUILD gave to it last; None without."""
        return self.states[-1] if self.states else None

    def __repr__(self) -> str:
        return f"<{'instance' if self.made else 'call'} of {self.dotted[:80] or 'no global'}>"


class Dict:
    """A dictionary, as keys and values in turn, in the order in which they were put: keys may repeat."""

    __slots__ = ("flat",)

    def __init__(self, flat: list[Any]) -> None:
        """Take keys and values in turn."""
        self.flat = flat

    @property
    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """The keys and values."""
        return zip(self.flat[::2], self.flat[1::2], strict=True)

    def get(self, key: str, default: Any = None) -> Any:
        """Return what a text key leads to: the last pair counts."""
        found = default
        for name, value in self.pairs:
            if type(name) is str and name == key:
                found = value
        return found

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the pairs whose key is text."""
        return ((name, value) for name, value in self.pairs if type(name) is str)

    def __len__(self) -> int:
        return len(self.flat) // 2

    def __repr__(self) -> str:
        return f"<dictionary of {len(self)} pairs>"


class Group:
    """A set or frozenset, as its items in the order in which they were added; they may repeat."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: str, items: list[Any]) -> None:
        """Take ``set`` or ``frozenset``, and the items."""
        self.kind = kind
        self.items = items

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.items)} items>"


class Opaque:
    """A value that only running could tell, or that nothing here may touch: ``what`` says which."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        """Take a few words."""
        self.what = what

    def __repr__(self) -> str:
        return f"<{self.what[:80]}>"


COUNTED = frozenset({Global, Call})
"""What counts how often it came to the stack; no live value is of these classes."""


def is_inert(value: Any) -> bool:
    """Say whether a value is of a class of this module: a dialect's way to tell the passes apart."""
    return isinstance(value, Span | Global | Call | Dict | Group | Opaque)


def text(value: Any, most: int = 1 << 20) -> str | None:
    """Return a value's text, also where it was left in the file; None where it is no text of ``most`` bytes."""
    if isinstance(value, Span) and value.kind in _TEXT and len(value) <= most:
        return str(value.content, "latin1" if value.kind == "latin1" else "utf-8", "surrogatepass")
    return value if type(value) is str else None


def payload(value: Any) -> memoryview | None:
    """Return the bytes of a bytes value, not copied; None for anything else."""
    if isinstance(value, Span):
        return value.content if value.kind not in _TEXT else None
    return memoryview(value) if isinstance(value, bytes) else None


def parts(value: Any) -> list[Any]:
    """Return what a value holds directly, in order."""
    if type(value) is list or type(value) is tuple:
        return list(value)
    if isinstance(value, Group):
        return value.items
    if isinstance(value, Dict):
        return value.flat
    if isinstance(value, Call):
        return [value.func, value.args, value.kwargs, *value.states, *(value.appended or ()), *(value.flat or ())]
    return []


def walk(root: Any) -> Iterator[Any]:
    """Yield every container, call and global under ``root`` once, whatever is shared or circular."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        value = todo.pop()
        if id(value) in seen or not (type(value) in _HOLD or is_inert(value)):
            continue
        seen.add(id(value))
        yield value
        todo.extend(reversed(parts(value)))


_HOLD = frozenset({list, tuple})
_TEXT = frozenset({"str", "latin1"})


class _Short(reprlib.Repr):
    """What Python itself shows of a value, but no more than a message has room for."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 60, 60

    def repr_int(self, value: int, level: int) -> str:
        """Return a number's digits; Python refuses to write thousands of them."""
        return super().repr_int(value, level) if value.bit_length() < _LONG else f"<{value.bit_length()} bits>"


_LONG = 1024
_SHORT = _Short()


def shown(value: Any) -> str:
    """Return a value of a file as text for a message, however deep or long it is: at most 60 characters."""
    return _SHORT.repr(value)[:60]


def label(key: Any) -> str:
    """Return a key of a dictionary, or a name that may be a number, as text; thousands of digits are cut short."""
    return key if isinstance(key, str) else _SHORT.repr(key)
