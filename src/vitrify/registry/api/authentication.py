"""Who asks: the token of a request, as a bearer or as the password of Basic.

Who was let in is remembered for a second, so that most requests ask no database; a revoked token is refused after that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from typing import TYPE_CHECKING

from vitrify.core.errors import AuthenticationError
from vitrify.registry.actor import Actor
from vitrify.registry.handlers.tokens import authenticate

if TYPE_CHECKING:
    from vitrify.registry.database import Database
    from vitrify.registry.values import Role

REMEMBERED_SECONDS = 1.0
_MOST_REMEMBERED = 1024
_MOST_HEADER = 1024


class Doorkeeper:
    """Tells tokens apart.

    Args:
        database: Where the tokens are.
        anonymous: Roles of whoever has no token; none means that nobody gets in without.
    """

    def __init__(self, database: Database, anonymous: tuple[Role, ...] = ()) -> None:
        """Know nobody yet."""
        self._database = database
        self._anonymous = Actor("anonymous", anonymous) if anonymous else None
        self._known: dict[bytes, tuple[float, Actor]] = {}

    def known(self, header: str) -> Actor | None:
        """Return who it is, if that needs no database."""
        if not header:
            return self._anonymous
        # The key is a hash: how long a look-up takes says nothing about the tokens that are known.
        found = self._known.get(_key(header))
        return found[1] if found is not None and found[0] > time.monotonic() else None

    def ask(self, header: str) -> Actor:
        """Return who it is; asks the database.

        Raises:
            AuthenticationError: There is no token, or it does not count.
        """
        token = token_of(header)
        until = time.monotonic() + REMEMBERED_SECONDS
        with self._database.read() as connection:
            actor = authenticate(connection, token, time.time_ns() // 1000)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[_key(header)] = until, actor
        return actor


def token_of(header: str) -> str:
    """Return the token in an ``Authorization`` header.

    Raises:
        AuthenticationError: There is none.
    """
    scheme, _, given = header.partition(" ")
    given = given.strip()
    if len(header) <= _MOST_HEADER:
        if scheme.lower() == "bearer":
            return given
        if scheme.lower() == "basic":
            return _password(given)
    msg = "nobody says who is asking: a token is needed"
    raise AuthenticationError(msg, remedy="set VITRIFY_TOKEN, or send it as Authorization: Bearer vit_...")


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _key(header: str) -> bytes:
    return hashlib.sha256(header.encode()).digest()
