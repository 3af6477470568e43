"""Who asks, and what that person or program may do. What is not granted is denied."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from vitrify.core.errors import DeniedError
from vitrify.registry.values import ROLES

if TYPE_CHECKING:
    from vitrify.registry.values import Role

_INCLUDES: dict[Role, frozenset[Role]] = {
    "reader": frozenset({"reader"}),
    "writer": frozenset({"reader", "writer"}),
    "approver": frozenset({"reader", "approver"}),
    "admin": frozenset(ROLES),
}


@dataclass(frozen=True)
class Actor:
    """Somebody known.

    Attributes:
        who: The name that goes into the log.
        roles: As granted.
        models: Globs of the names that may be touched.
    """

    who: str
    roles: tuple[Role, ...]
    models: tuple[str, ...] = ("*",)

    def has(self, role: Role) -> bool:
        """Say whether a role, or one that includes it, was granted."""
        return any(role in _INCLUDES[granted] for granted in self.roles)

    def require(self, role: Role) -> None:
        """Refuse without the role.

        Raises:
            DeniedError: It was not granted.
        """
        if not self.has(role):
            msg = f"{self.who} is {' and '.join(self.roles) or 'nobody here'}; this needs the role {role}"
            raise DeniedError(msg, remedy="ask an admin of the registry for a token with that role")

    def sees(self, model: str) -> bool:
        """Say whether a model is among those that may be touched."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    @property
    def sees_all(self) -> bool:
        """Whether every model may be touched."""
        return "*" in self.models


def everyone(who: str) -> Actor:
    """Return who owns the registry's files, and so may do everything."""
    return Actor(who, ("admin",))
