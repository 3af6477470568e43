"""Settings as values, read from TOML and JSON.

A name that is not known is refused: a slip of the pen must not be a setting that does nothing.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from vitrify.core.errors import UsageError


class Setting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A frozen value whose fields are called the same everywhere."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def from_builtins(cls, raw: object, *, where: str) -> Self:
        """Return the value of plain dicts and lists.

        Args:
            raw: As a parser of TOML or JSON gives them.
            where: What they are, for the error message.

        Raises:
            UsageError: A name is not known, or a value is not of its type; the message has the path.
        """
        try:
            return msgspec.convert(raw, cls)
        except msgspec.ValidationError as error:
            msg = f"{where}: {error}"
            raise UsageError(msg, remedy="docs/how-to/serve.md lists the settings") from error
