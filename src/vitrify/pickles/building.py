"""The second pass: values are live, made by constructors that the first pass has found trusted or allowed.

Nothing is decided here by a name any more. What is decided here are numbers that only live values show: those that
NumPy and the libraries' compiled code would follow without looking (:mod:`vitrify.pickles.bounds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.pickles import arrow, names
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from vitrify.pickles.dialect import Dialect

NATIVE = frozenset({"xgboost.core.Booster", "lightgbm.basic.Booster", "catboost.core._CatBoostBase"})
"""Classes whose state is a model that native code parses: only loaded where the dialect has a check for it."""


class Builder:
    """Hands that make live values."""

    def __init__(self, view: memoryview, dialect: Dialect, *, where: str) -> None:
        """Take the dialect, and what the file is called."""
        self._view = view
        self._dialect = dialect
        self._where = where
        self._made: list[Any] = []

    def finish(self) -> None:
        """Check everything that was made, now that all of it has its state.

        Raises:
            MalformedError: Native code would read outside of it.
        """
        from vitrify.pickles import bounds

        bounds.check_all(self._made, where=self._where)

    # Hands

    def string(self, view: memoryview, start: int, end: int, kind: str) -> Any:
        """Copy it, once."""
        if kind == "str":
            return str(view[start:end], "utf-8", "surrogatepass")
        if kind == "latin1":
            return str(view[start:end], "latin1")
        return bytearray(view[start:end]) if kind == "bytearray" else bytes(view[start:end])

    def find(self, module: Any, name: Any, at: int) -> Any:  # noqa: ARG002 (the protocol's)
        """Import what was decided on."""
        module, name = self._dialect.rename(module, name) or names.split(module, name)
        dotted = f"{module}.{name}"
        ours = arrow.stand_in(dotted, where=self._where) or self._dialect.constructors.get(dotted)
        return ours if ours is not None else names.resolve(module, name)

    def call(self, func: Any, args: Any, at: int) -> Any:  # noqa: ARG002 (the protocol's)
        """Call it."""
        if getattr(func, "__module__", None) == "copyreg" and args:
            arrow.check_class(args[0], where=self._where)
        if getattr(func, "__name__", "") == "Tree":
            from vitrify.pickles import bounds

            bounds.check_tree(args, where=self._where)
        if getattr(func, "__name__", "") == "scalar":
            from vitrify.pickles import numpy_bounds

            numpy_bounds.check_scalar(args, where=self._where)
        if (getattr(func, "__module__", None) or "").partition(".")[0] == "pandas":
            for arg in args:
                for part in arg.values() if isinstance(arg, dict) else (arg,):
                    self._check_pandas(part)
        made = self._kept(func(*args))
        if isinstance(func, type) and type(made).__name__.endswith("BlockManager"):  # else it gets its state next
            self._check_pandas(made)
        return made

    def make(self, cls: Any, args: Any, kwargs: Any, at: int) -> Any:  # noqa: ARG002 (the protocol's)
        """Make an instance past its constructor."""
        arrow.check_class(cls, where=self._where)
        return self._kept(cls.__new__(cls, *args, **(kwargs or {})))

    def instance(self, cls: Any, args: tuple[Any, ...], at: int) -> Any:
        """Do what CPython does: a class without arguments is made, everything else called."""
        if args or not isinstance(cls, type) or hasattr(cls, "__getinitargs__"):
            return self.call(cls, args, at)
        return self.make(cls, args, None, at)

    def build(self, instance: Any, state: Any, at: int) -> None:  # noqa: ARG002 (the protocol's)
        """Give the state as pickle does (``object.__setstate__``), checked where native code takes it."""
        cls = type(instance)
        dotted = f"{cls.__module__}.{cls.__qualname__}"
        state = arrow.checked(dotted, self._dialect.migrate(dotted, state), where=self._where)
        self._check_native(cls, state)
        libraries = {base.__module__.partition(".")[0] for base in cls.__mro__}
        if "sklearn" in libraries:
            from vitrify.pickles import native_states

            native_states.check(cls, state, where=self._where)
        if "scipy" in libraries:
            from vitrify.pickles import distributions

            if distributions.is_one(cls):
                distributions.set_state(instance, state, where=self._where)
                return
        if hasattr(cls, "__setstate__"):
            if "numpy" in libraries:
                from vitrify.pickles import numpy_bounds

                numpy_bounds.set_state(instance, state, where=self._where)
            else:
                if cls.__name__.endswith("BlockManager"):
                    from vitrify.pickles import bounds

                    bounds.check_manager(state, where=self._where)
                cls.__setstate__(instance, state)
                self._check_pandas(instance)
            return
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)  # noqa: PLR2004 (attributes and slots)
        for name, value in (attributes or {}).items():
            instance.__dict__[name] = value
        for name, value in (slots or {}).items():
            setattr(instance, name, value)

    def dictionary(self, pairs: list[Any]) -> Any:
        """Make one."""
        return dict(zip(pairs[::2], pairs[1::2], strict=True))

    def group(self, kind: str, items: list[Any]) -> Any:
        """Make one."""
        return set(items) if kind == "set" else frozenset(items)

    def append(self, target: Any, items: list[Any]) -> None:
        """Extend it, or append one by one."""
        if hasattr(target, "extend"):
            target.extend(items)
        else:
            for item in items:
                target.append(item)

    def put(self, target: Any, pairs: list[Any]) -> None:
        """Set the items."""
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[key] = value

    def add(self, target: Any, items: list[Any]) -> None:
        """Add the items."""
        if isinstance(target, set):
            target.update(items)
        else:
            for item in items:
                target.add(item)

    def persistent(self, pid: Any, at: int) -> Any:  # noqa: ARG002 (the protocol's)
        """Ask the dialect."""
        return self._dialect.persistent(pid)

    def strange(self, rule: str, what: str, at: int) -> Any:
        """Refuse: the first pass has found it already."""
        refuse(self._where, f"{rule}: a {what} at {at}")

    def built(self, instance: Any, state: Any, at: int) -> tuple[Any, int] | None:
        """Ask the dialect."""
        return self._dialect.built(instance, state, self._view, at)

    def _kept(self, value: Any) -> Any:
        if type(value).__module__.partition(".")[0] in _CHECKED:
            self._made.append(value)
        return value

    def _check_pandas(self, value: Any) -> None:
        """Check an object of pandas at once: its functions may be called with it before the pickle ends."""
        if type(value).__module__.partition(".")[0] == "pandas":
            from vitrify.pickles import bounds

            bounds.check(value, where=self._where)

    def _check_native(self, cls: type, state: Any) -> None:
        for base in cls.__mro__:
            dotted = f"{base.__module__}.{base.__qualname__}"
            if dotted in self._dialect.checks:
                self._dialect.checks[dotted](state)
            elif dotted in NATIVE:
                remedy = "save it in its library's own format"
                refuse(self._where, f"the state of a {dotted}, which cannot be checked here", remedy=remedy)


_CHECKED = frozenset({"sklearn", "scipy", "numpy", "pandas"})
