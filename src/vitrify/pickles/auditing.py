"""The first pass: values stay inert, and whatever running would do is written down.

It imports, calls, hashes and compares nothing that the file names. What no allow-list could make harmless is a finding
of its own: a name put together while it runs, a way through one object to another, a state for what the pickle did
not make.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.pickles import alike, arguments, effects, names
from vitrify.pickles._trust import arrays
from vitrify.pickles.inert import SHORT, Call, Dict, Global, Group, Opaque, Span, parts
from vitrify.pickles.names import Name
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from vitrify.pickles.dialect import Dialect
    from vitrify.pickles.names import Use

MAX_KEY_DEPTH = 64
MAX_KEY_PARTS = 10_000
MAX_KEYS = 2_000_000
MAX_ALIKE = 200
MAX_COPIES = 1_000_000
"""Items and bytes that calls may take from their arguments beyond twice those of the file: who has one list, and
calls ``list`` with it a thousand times, has a thousand."""

MAX_FINDINGS = 200

_DECODE = {"str": ("utf-8", "surrogatepass"), "latin1": ("latin1", "strict")}
_LISTS = frozenset({"collections.deque", "builtins.list", "array.array"})
_DICTS = frozenset(
    {
        *("builtins.dict", "collections.Counter", "collections.OrderedDict", "collections.defaultdict"),
        *("sklearn.utils._bunch.Bunch", "sklearn.utils.Bunch"),
        *("scipy.optimize._optimize.OptimizeResult", "scipy.optimize._zeros_py.RootResults"),
    }
)
_SETS = frozenset({"builtins.set"})
_TEXTS = frozenset({"__doc__", "__name__", "__overloads__"})
"""Attributes that Python or PyTorch's compiler left and that nobody calls, where they are text or lists of text."""
_MAX_TEXTS = 64

_MAY_HOLD_ITSELF = frozenset({"types.SimpleNamespace"})
"""What is called and then gets its state, like an array, but of which nobody keeps a size or a type meanwhile."""


class Auditor:
    """Hands that make inert values and remember what they met."""

    def __init__(self, view: memoryview, dialect: Dialect, *, where: str) -> None:
        """Take the dialect, and what the file is called."""
        self.findings: list[Finding] = []
        self.versions: dict[str, str] = {}
        self._view = view
        self._dialect = dialect
        self._where = where
        self._uses: dict[Name, int] = {}
        self._globals: list[Global] = []
        self._taken: dict[int, Any] = {}
        self._hashes: dict[int, Hashable] = {}
        self._others: dict[int, set[Hashable]] = {}
        self._keys = MAX_KEYS + 4 * len(view)
        self._copies = MAX_COPIES + 2 * len(view)

    def names(self) -> dict[Name, int]:
        """Return every name and use, and where the first such use stands."""
        found = dict(self._uses)
        for each in self._globals:
            if each.pushed > each.taken:  # one of them went into something, or was dropped: it was imported
                found.setdefault(Name(each.module, each.name, "refer"), each.at)
        return found

    def trusted(self, name: Name) -> bool:
        """Say whether a name may be used like this without anyone's permission."""
        dialect = self._dialect
        known = dialect.refers if name.use == "refer" else dialect.constructors
        return name.dotted in known or names.trusted_in_pickle(name)

    def untrusted(self) -> list[Finding]:
        """Return a finding for each name that somebody has to allow, in the order in which the pickle needs them."""
        first: dict[str, int] = {}
        for name, at in sorted(self.names().items(), key=lambda item: item[1]):
            if _plain(name.module, name.name) and not self.trusted(name):
                first.setdefault(name.dotted, at)
        return [self._finding("untrusted-global", at, effects.of(name), subject=name) for name, at in first.items()]

    # Hands

    def string(self, view: memoryview, start: int, end: int, kind: str) -> Any:
        """Leave long ones where they are."""
        if end - start > SHORT:
            return Span(view, start, end, kind)
        if kind in _DECODE:
            return str(view[start:end], *_DECODE[kind])
        return Span(view, start, end, kind) if kind == "bytearray" else bytes(view[start:end])

    def find(self, module: Any, name: Any, at: int) -> Any:
        """Note the name; nothing is imported."""
        if type(module) is not str or type(name) is not str:
            self._note("computed-global", at, "looks up a class or function whose name is made while it runs")
            return Opaque("global")
        module, name = self._dialect.rename(module, name) or names.split(module, name)
        found = Global(module, name, at)
        self._globals.append(found)
        if not _plain(module, name):
            shown = f"{module}.{name}"[:200]
            self._note("dotted-global", at, f"reaches {shown!r} through other objects, which {effects.of(shown)}")
        return found

    def call(self, func: Any, args: Any, at: int) -> Any:
        """Note the call, and what is wrong with its arguments."""
        if type(args) is not tuple:
            self._note("computed-call", at, "calls something with what is no list of arguments")
            return Opaque("call")
        if type(func) is not Global:
            return self._computed(func, args, at)
        dotted = func.dotted
        if dotted == "builtins.getattr" and self._is_method(args):
            func.taken += 1
            return self._method(args, at)
        self._use(func, "call", at)
        if dotted in {"copyreg._reconstructor", "copyreg.__newobj__"} and args and type(args[0]) is Global:
            self._take(args, "state", at)
            self._argue(dotted, args, at)
            return Call(args[0], args, at, made=True)
        if dotted not in self._dialect.constructors:
            self._argue(dotted, args, at)
        return Call(func, args, at)

    def make(self, cls: Any, args: Any, kwargs: Any, at: int) -> Any:
        """Note the class that is made past its constructor."""
        if type(args) is not tuple or not (kwargs is None or type(kwargs) is Dict):
            self._note("computed-call", at, "makes something from what is no list of arguments")
            return Opaque("instance")
        if type(cls) is not Global:
            return self._computed(cls, args, at)
        self._use(cls, "state", at)
        return Call(cls, args, at, made=True, kwargs=kwargs)

    def instance(self, cls: Any, args: tuple[Any, ...], at: int) -> Any:
        """INST and OBJ call, as far as anyone can tell who does not import."""
        return self.call(cls, args, at)

    def build(self, instance: Any, state: Any, at: int) -> None:
        """Keep the state, and note what no honest state is or does."""
        if type(instance) is not Call:
            if type(instance) is not Opaque:
                what = instance.dotted if type(instance) is Global else "a plain value"
                self._note("state-of-another", at, f"puts attributes on {what}, which this pickle did not make")
            return
        if instance.states:
            self._note("state-twice", at, f"gives {instance.dotted} a state twice; no pickler does that")
        elif not instance.made and instance.pushed > 1 and instance.dotted not in _MAY_HOLD_ITSELF:
            self._note("state-late", at, f"changes {instance.dotted} after it was used")
        instance.states = (*instance.states, state)
        self._charge(arguments.cost("", state if type(state) is tuple else (state,)))
        if problem := arguments.state_problem(instance.dotted, state):
            self._note("unsafe-arguments", at, problem)
        for part in state if type(state) is tuple else (state,):
            if type(part) is Dict:
                self._attributes(instance, part, at)
        if type(state) is tuple and len(state) == 2 and type(state[1]) is Dict and state[1].flat:  # noqa: PLR2004 (state and slots)
            self._slots(instance, state[1], at)

    def dictionary(self, pairs: list[Any]) -> Any:
        """Keep the pairs as they are: nothing is hashed."""
        if pairs:
            self._hashable(pairs[::2])
        return Dict(pairs)

    def group(self, kind: str, items: list[Any]) -> Any:
        """Keep the items as they are."""
        self._hashable(items)
        return Group(kind, items)

    def append(self, target: Any, items: list[Any]) -> None:
        """Only what is a list may be extended."""
        if self._fills(target, _LISTS):
            target.appended = _grown(target.appended, items)

    def put(self, target: Any, pairs: list[Any]) -> None:
        """Only what is a dictionary may get keys."""
        self._hashable(pairs[::2])
        if type(target) is Dict:
            target.flat += pairs
        elif self._fills(target, _DICTS):
            target.flat = _grown(target.flat, pairs)

    def add(self, target: Any, items: list[Any]) -> None:
        """Only what is a set may get items."""
        self._hashable(items)
        if type(target) is Group and target.kind == "set":
            target.items += items
        elif self._fills(target, _SETS):
            target.appended = _grown(target.appended, items)

    def persistent(self, pid: Any, at: int) -> Any:
        """Ask the dialect, where it has such ids."""
        if self._dialect.persists:
            return self._dialect.persistent(pid)
        self._note("persistent-id", at, "asks the program that loads it for an object by a persistent id")
        return Opaque("persistent id")

    def strange(self, rule: str, what: str, at: int) -> Any:
        """Note it."""
        self._note(rule, at, f"uses a {what}")
        return Opaque(what)

    def built(self, instance: Any, state: Any, at: int) -> tuple[Any, int] | None:
        """Ask the dialect about what the pickle made itself."""
        return self._dialect.built(instance, state, self._view, at) if type(instance) is Call else None

    # What the hands have in common

    def _finding(self, rule: str, at: int, message: str, subject: str = "") -> Finding:
        return Finding(place=f"{self._where}:opcode {at}", message=message, rule=rule, subject=subject)

    def _note(self, rule: str, at: int, message: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(self._finding(rule, at, message))

    def _use(self, found: Global, use: Use, at: int) -> None:
        found.taken += 1
        self._uses.setdefault(Name(found.module, found.name, use), at)

    def _take(self, args: tuple[Any, ...], use: Use, at: int) -> None:
        """Count the class that stands first in the arguments as made: once, however often the arguments serve."""
        if id(args) in self._taken:
            self._uses.setdefault(Name(args[0].module, args[0].name, use), at)
        else:
            self._taken[id(args)] = args
            self._use(args[0], use, at)

    def _computed(self, func: Any, args: Any, at: int) -> Any:
        if type(func) is not Opaque:
            what = func.dotted if type(func) is Call and func.dotted else "a plain value"
            self._note("computed-call", at, f"calls what it made itself ({what}), not a class or function by its name")
        return Call(Opaque("what a pickle made"), args, at)

    def _argue(self, dotted: str, args: tuple[Any, ...], at: int) -> None:
        """Note arguments that a trusted name must not be called with."""
        self._charge(arguments.cost(dotted, args))
        if problem := arguments.problem(dotted, args):
            self._note("unsafe-arguments", at, problem)
        elif dotted in arguments.HASHES:
            for arg in args:
                self._hashable(parts(arg))

    def _charge(self, cost: int) -> None:
        """Bound how often calls and states may copy what the file has once.

        Raises:
            LimitExceededError: It is more often than any honest file asks for.
        """
        self._copies -= cost
        if self._copies < 0:
            exceed(self._where, "calls that copy what they are given more often than the file has it")

    def _is_method(self, args: tuple[Any, ...]) -> bool:
        if len(args) != 2 or type(args[1]) is not str:  # noqa: PLR2004 (object and name)
            return False
        owner = args[0].func if type(args[0]) is Call and args[0].made else args[0]
        return type(owner) is Global and names.is_method(owner.dotted, args[1])

    def _method(self, args: tuple[Any, ...], at: int) -> Global:
        """Note a method of a class, or of an instance that was made past its constructor."""
        if type(args[0]) is Global:
            self._take(args, "refer", at)
        method = Global(args[0].dotted, args[1], at)
        self._globals.append(method)
        return method

    def _attributes(self, instance: Call, state: Dict, at: int) -> None:
        for key, value in state.items():
            if key[:2] == "__" and key[-2:] == "__" and not (key in _TEXTS and _is_text(value)):
                self._note("dunder-state", at, f"gives {instance.dotted} its own {key}, which Python itself would use")
            elif key.endswith("_version") and type(value) is str and len(value) < 100:  # noqa: PLR2004 (a version is short)
                self.versions[key] = value

    def _slots(self, instance: Call, slots: Dict, at: int) -> None:
        known = arrays.SLOTS.get(instance.dotted, frozenset())
        if all(type(name) is str and name in known for name in slots.flat[::2]):
            return
        if type(instance.func) is Global and self.trusted(Name(instance.func.module, instance.func.name, "state")):
            self._note("slots-state", at, f"sets attributes of {instance.dotted} one by one, past its own methods")

    def _fills(self, target: Any, classes: frozenset[str]) -> bool:
        """Say whether a call's result may be filled; what somebody has to allow anyway, may."""
        if type(target) is Opaque:
            return False
        if type(target) is Call and type(target.func) is Global:
            name = Name(target.func.module, target.func.name, "state" if target.made else "call")
            if name.dotted in classes or not self.trusted(name):
                return True
        what = getattr(target, "dotted", "") or "a plain value"
        self._note("state-of-another", target.at if type(target) is Call else 0, f"puts items into {what}")
        return False

    def _hashable(self, keys: Iterable[Any]) -> None:
        """Bound what hashing and comparing these keys would cost: shared tuples in tuples double with each level.

        Raises:
            LimitExceededError: It is more than any honest key costs.
        """
        for key in keys:
            if type(key) is int:
                if not -_HASH_MODULUS < key < _HASH_MODULUS:
                    self._alike(key)
            elif type(key) not in _CHEAP:
                self._keys -= self._parts_of_key(key) + 1
                if self._keys < 0:
                    exceed(self._where, "keys of dictionaries and sets that are too many to compare")
                if (known := alike.chosen(key)) is not None:
                    self._alike(known)

    def _parts_of_key(self, key: Any) -> int:
        level, count = [key], 0
        for _ in range(MAX_KEY_DEPTH):
            level = [part for value in level for part in parts(value) if type(part) not in _CHEAP]
            count += len(level)
            if not level or count > MAX_KEY_PARTS:
                break
        if level:
            exceed(self._where, "a key of a dictionary or set that is too deep or too large to compare")
        return count

    def _alike(self, key: Hashable) -> None:
        """Bound how many different keys have one hash: each is compared with all before it."""
        first = self._hashes.setdefault(hash(key), key)
        if first is key or first == key:
            return
        others = self._others.setdefault(hash(key), set())
        others.add(key)
        if len(others) > MAX_ALIKE:
            exceed(self._where, f"more than {MAX_ALIKE} keys with the same hash")


_HASH_MODULUS = sys.hash_info.modulus
_CHEAP = frozenset({str, int, float, bytes, bool, type(None), Span, Global, Opaque})


def _plain(module: str, name: str) -> bool:
    """Say whether a name is one part in a module of plain parts."""
    if names.is_method(module, name):
        return True
    return name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _is_text(value: Any) -> bool:
    """Say whether a value is text, or a small table of lists of it."""
    if type(value) is not Dict:
        return value is None or type(value) is str or (type(value) is Span and value.kind in _DECODE)
    lists = value.flat[1::2]
    if len(lists) > _MAX_TEXTS or not all(type(texts) is list and len(texts) <= _MAX_TEXTS for texts in lists):
        return False
    return all(type(text) is str for texts in lists for text in texts)


def _grown(held: list[Any] | None, more: list[Any]) -> list[Any]:
    if held is None:
        return more
    held += more
    return held
