"""A conversion that only making it can tell the problems of."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.protocols import Subject
    from vitrify.core.report import Finding

Made = TypeVar("Made")


class Once(Generic[Made]):
    """A conversion that is made to find its problems, and is then written as it was made: it is not made twice.

    Args:
        make: Converts a source, or raises UnsupportedModelError.
    """

    def __init__(self, make: Callable[[Subject], Made]) -> None:
        """Start with nothing made."""
        self._make = make
        self._held: tuple[weakref.ref[Any], Made] | None = None

    def problems(self, source: Subject) -> tuple[Finding, ...]:
        """List what stands against it."""
        self._held = None
        try:
            model = self._make(source)
        except UnsupportedModelError as error:
            return error.problems
        self._held = weakref.ref(source.files), model
        return ()

    def model(self, source: Subject) -> Made:
        """Return what is made, which is the caller's from now on.

        Raises:
            UnsupportedModelError: It cannot be made.
        """
        held, self._held = self._held, None
        return held[1] if held is not None and held[0]() is source.files else self._make(source)
