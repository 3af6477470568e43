"""Which classes and functions a file may use without anyone's permission.

A name in a file is used in one of these ways, and each has its own list:

* ``state``: an empty instance is made, past its constructor, and given its attributes;
* ``call``: it is called while the file is read;
* ``refer``: it stands in the model as a value, and the model may call it with data when it predicts;
* ``pickle``: it stands in a pickle, which may do any of these with it.

Everything else needs its exact dotted name in :class:`vitrify.core.protocols.Allow`. The list is data that is shipped
with the package (:mod:`vitrify.pickles.generate` writes it), so deciding imports nothing.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

Use = Literal["state", "call", "refer", "pickle"]

TABLE = Path(__file__).with_name("_trusted.txt")
"""A name a line: module, name and its uses, a letter each."""

_LETTERS = {"state": "s", "call": "c", "refer": "r"}
_IN_PICKLE = {"state": frozenset("sS"), "call": frozenset("C"), "refer": frozenset("rR")}
"""Capital letters are for pickles alone: how they make what other formats keep as data."""

_METHOD = "M"
"""Of a class, not of a module: a pickle reaches it with ``getattr``, or by a dotted name."""

TREE = "sklearn.tree._tree.Tree"
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
LOSSES = frozenset(
    {
        *(
            f"sklearn._loss._loss.Cy{name}"
            for name in (
                *("AbsoluteError", "ExponentialLoss", "HalfBinomialLoss", "HalfGammaLoss", "HalfMultinomialLoss"),
                *("HalfPoissonLoss", "HalfSquaredError", "HalfTweedieLoss", "HalfTweedieLossIdentity", "HuberLoss"),
                "PinballLoss",
            )
        ),
        *(
            f"sklearn.linear_model._sgd_fast.{name}"
            for name in (
                *("EpsilonInsensitive", "Hinge", "Huber", "Log", "ModifiedHuber", "SquaredEpsilonInsensitive"),
                *("SquaredHinge", "SquaredLoss"),
            )
        ),
    }
)


class Name(NamedTuple):
    """One name that a file uses, and how."""

    module: str
    name: str
    use: Use

    @property
    def dotted(self) -> str:
        """The full name."""
        return f"{self.module}.{self.name}"


def untrusted(names: Iterable[Name]) -> tuple[str, ...]:
    """Return the dotted names that someone has to allow, sorted, each once."""
    return tuple(sorted({name.dotted for name in set(names) if not trusted(name)}))


def trusted(name: Name) -> bool:
    """Say whether a name may be used in this way by any file."""
    letters = _table().get(f"{name.module} {name.name}", "")
    return bool(letters) and (name.use == "pickle" or _LETTERS[name.use] in letters)


def trusted_in_pickle(name: Name) -> bool:
    """Say whether any pickle may use a name in this way: it calls other functions than the rest, and fewer classes."""
    letters = _table().get(f"{name.module} {name.name}", "")
    return bool(letters) and (name.use == "pickle" or not _IN_PICKLE[name.use].isdisjoint(letters))


def is_method(cls: str, name: str) -> bool:
    """Say whether a trusted class has a method of that name which a pickle may reach, and nothing beyond it."""
    return _METHOD in _table().get(f"{cls} {name}", "")


def split(module: str, name: str) -> tuple[str, str]:
    """Return a method's class and name, where protocol 4 names it in its module; any other name as it is."""
    cls, dot, method = name.partition(".")
    return (f"{module}.{cls}", method) if dot and is_method(f"{module}.{cls}", method) else (module, name)


def resolve(module: str, name: str) -> Any:
    """Return what an audited name stands for, importing its module.

    Raises:
        MalformedError: There is no such module or name here, or it is a module.
    """
    try:
        if is_method(module, name):
            owner, _, cls = module.rpartition(".")
            return getattr(resolve(owner, cls), name)
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        msg = f"the model needs {module}.{name}, which is not there ({error})"
        remedy = f"install the version of {module.partition('.')[0]} that the model was made with, or bring its source"
        raise MalformedError(msg, remedy=remedy) from error
    if isinstance(found, ModuleType):
        msg = f"the model names {module}.{name}, which is a module"
        raise MalformedError(msg, remedy="do not use this file: no honest writer makes one like it")
    return found


@cache
def _table() -> dict[str, str]:
    """The list: module and name, with a blank between them, to letters."""
    lines = TABLE.read_text("ascii").splitlines()
    return {name: letters for name, _, letters in (line.rpartition(" ") for line in lines)}
