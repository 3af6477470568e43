"""Tokens: a way in for programs and people. The database has only a hash of each secret.

A token is ``vit_<id>_<secret>``: the id finds the row, the secret is 256 random bits, so that a plain SHA-256 of it is
as good as a slow hash, and comparing takes the same time whatever is wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import bindparam, insert, select, update

from vitrify.core.errors import AuthenticationError, ReferenceNotFoundError, UsageError
from vitrify.registry.actor import Actor
from vitrify.registry.database.schema import tokens
from vitrify.registry.events import canonical, fingerprint, moment
from vitrify.registry.values import ROLES, Done, Token, Tokens

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Connection, Row

    from vitrify.registry import requests as r
    from vitrify.registry.work import Work

_DAY = 86_400_000_000
_MAX_DAYS = 3650
_TOKEN = re.compile(r"vit_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_BY_ID = select(tokens).where(tokens.c.id == bindparam("id"))


def create(work: Work, request: r.CreateToken) -> Token:
    """Make a token."""
    if not request.roles or not request.who or not request.models or set(request.roles) - set(ROLES):
        msg = "a token is somebody's, and has at least one role and one pattern of models"
        raise UsageError(msg, remedy=f"the roles are {', '.join(ROLES)}")
    if any("[" in pattern for pattern in request.models):
        msg = "a pattern of models has * and ? only"
        raise UsageError(msg, remedy="for example: team/*")
    if request.days is not None and not 0 < request.days <= _MAX_DAYS:
        msg = f"a token lives for up to {_MAX_DAYS} days, not {request.days}"
        raise UsageError(msg)
    id_, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    said = {"who": request.who, "roles": canonical(request.roles), "models": canonical(request.models)}
    expires = None if request.days is None else work.now + int(request.days * _DAY)
    own = _hash(secret)
    row = {"id": id_, "secret_hash": own, **said, "created": work.now, "expires": expires}
    work.connection.execute(insert(tokens), row)
    facts = {"id": id_, "who": request.who, "roles": request.roles, "models": request.models, "expires": expires}
    work.record("token.created", secret=fingerprint(own), **facts)
    return _value(_row(work, id_)).replace(secret=f"vit_{id_}_{secret}")


def list_(work: Work, request: r.ListTokens) -> Tokens:
    """Return every token, without its secret."""
    del request
    rows = work.connection.execute(select(tokens).order_by(tokens.c.created))
    return Tokens(tokens=tuple(map(_value, rows)))


def revoke(work: Work, request: r.RevokeToken) -> Done:
    """Refuse a token from now on."""
    if _row(work, request.id).revoked is None:
        work.connection.execute(update(tokens).where(tokens.c.id == request.id), {"revoked": work.now})
        work.record("token.revoked", id=request.id)
    return Done()


def authenticate(connection: Connection, given: str, now: int) -> Actor:
    """Return whose token it is.

    Raises:
        AuthenticationError: It is none, or revoked, or expired; the message does not say which.
    """
    found = _TOKEN.fullmatch(given)
    row = connection.execute(_BY_ID, {"id": found[1]}).first() if found else None
    secret = _hash(found[2]) if found else ""
    if row is None or not hmac.compare_digest(row.secret_hash, secret) or _over(row, now):
        msg = "this token does not count (any more)"
        raise AuthenticationError(
            msg, remedy="ask an admin of the registry for a new one: vitrify registry token create"
        )
    return Actor(row.who, tuple(msgspec.json.decode(row.roles)), tuple(msgspec.json.decode(row.models)))


def _over(row: Row[Any], now: int) -> bool:
    return row.revoked is not None or (row.expires is not None and row.expires <= now)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _row(work: Work, id_: str) -> Row[Any]:
    if (row := work.connection.execute(_BY_ID, {"id": id_}).first()) is None:
        msg = f"no token has the id {id_!r}"
        raise ReferenceNotFoundError(msg, remedy="list them: vitrify registry token list")
    return row


def _value(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        who=row.who,
        roles=tuple(msgspec.json.decode(row.roles)),
        models=tuple(msgspec.json.decode(row.models)),
        created=moment(row.created),
        expires=None if row.expires is None else moment(row.expires),
        revoked=None if row.revoked is None else moment(row.revoked),
    )
