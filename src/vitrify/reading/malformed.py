"""The two ways in which a reader says that a file is not what it should be."""

from __future__ import annotations

from typing import NoReturn

from vitrify.core.errors import LimitExceededError, MalformedError


def refuse(where: str, what: str, *, remedy: str = "get the file again, or save the model again") -> NoReturn:
    """Raise a MalformedError.

    Args:
        where: The file, or the part of it.
        what: What was found there, and what was expected.
        remedy: What to do.
    """
    msg = f"{where}: {what}"
    raise MalformedError(msg, remedy=remedy)


def exceed(where: str, what: str, *, remedy: str = "if you know it, look at its parts one by one") -> NoReturn:
    """Raise a LimitExceededError: the file may be honest, but is not read to its end."""
    msg = f"{where}: {what}"
    raise LimitExceededError(msg, remedy=remedy)
