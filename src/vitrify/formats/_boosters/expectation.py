"""The one way in which a booster's file is refused: what was expected of it."""

from __future__ import annotations

from vitrify.core.errors import MalformedError


def expect(condition: bool, where: str, what: str) -> None:  # noqa: FBT001 (reads like an assertion)
    """Refuse a file whose library would crash on it.

    Raises:
        MalformedError: ``condition`` is false.
    """
    if not condition:
        msg = f"{where}: not a model that its library can use (expected: {what})"
        raise MalformedError(msg)
