"""Answering a registry that asks who we are: Basic, and Bearer with a token from the server that it names.

Source: RFC 7235 (challenges), RFC 7617 (Basic), and the distribution project's token specification
(https://distribution.github.io/distribution/spec/auth/token/).
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from vitrify.core.errors import AuthenticationError, MalformedError
from vitrify.core.nesting import shallow
from vitrify.stores.oci_registry._credentials import credentials
from vitrify.stores.oci_registry._transport import plain, read_bounded

if TYPE_CHECKING:
    from vitrify.stores.oci_registry._credentials import Credentials
    from vitrify.stores.oci_registry._transport import Transport

_MAX_ANSWER = 1024 * 1024
_MAX_CHALLENGE = 8192
_MAX_TOKEN = 64 * 1024
_SCHEME = re.compile(r"\s*(Basic|Bearer)(?:\s+|$)", re.IGNORECASE)
_PART = re.compile(r'\s*([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*(?:,|$)')
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")


class Login:
    """The ``Authorization`` header of one repository, for as long as the registry takes it."""

    def __init__(self, transport: Transport, scopes: tuple[str, ...]) -> None:
        """Know nothing yet; ``scopes`` are what tokens are asked for, beside what the registry itself names."""
        self._transport = transport
        self._scopes = scopes
        self._header: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def header(self) -> dict[str, str]:
        """What goes along with a request to the registry; nothing before it has asked."""
        return self._header

    def answer(self, challenge: str, refused: dict[str, str]) -> None:
        """Learn the header that a challenge asks for.

        Args:
            challenge: The value of ``WWW-Authenticate``.
            refused: What went along with the request that was refused.

        Raises:
            AuthenticationError: We have nothing to answer with, or it was refused.
            MalformedError: The challenge, or the token server's answer, is none.
        """
        with self._lock:
            if self._header != refused:  # another thread has answered meanwhile
                return
            known = credentials(self._transport.host)
            scheme, parts = _parse(challenge, self._transport.host)
            if scheme == "basic":
                if known is None or refused:
                    raise _refused(self._transport.host, known)
                self._header = {"Authorization": known.basic}
            else:
                token = self._token(parts, known)
                if self._header.get("Authorization") == f"Bearer {token}":
                    raise _refused(self._transport.host, known)
                self._header = {"Authorization": f"Bearer {token}"}

    def _token(self, parts: dict[str, str], known: Credentials | None) -> str:
        host = self._transport.host
        if not parts.get("realm"):
            msg = f"{host} asks for a token and does not say where to get one"
            raise MalformedError(msg, remedy="tell whoever runs the registry")
        realm = self._transport.url(parts["realm"])
        scopes = dict.fromkeys([*self._scopes, *filter(None, [parts.get("scope")])])
        query = [("service", parts["service"])] if "service" in parts else []
        if known and known.refresh_token:
            form = [("grant_type", "refresh_token"), ("client_id", "vitrify"), *query, ("scope", " ".join(scopes))]
            body = urlencode([*form, ("refresh_token", known.refresh_token)]).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(body))}
            method, url, secret = "POST", realm, {}
        else:
            query += [("scope", scope) for scope in scopes]
            method, url, body = "GET", realm + ("&" if "?" in realm else "?") + urlencode(query), None
            headers, secret = {}, {"Authorization": known.basic} if known else {}
        with self._transport.send(method, url, headers, body=body, secret=secret) as answer:
            data = read_bounded(answer, _MAX_ANSWER, where=f"the token server of {host}")
            if answer.status in {400, 401, 403}:
                raise _refused(host, known)
        return _read_token(data, answer.status, host)


def _read_token(data: bytes, status: int, host: str) -> str:
    try:
        raw = msgspec.json.decode(shallow(data)) if status == 200 else None  # noqa: PLR2004 (HTTP's OK)
    except (msgspec.DecodeError, RecursionError):
        raw = None
    token = (raw.get("token") or raw.get("access_token")) if isinstance(raw, dict) else None
    if not isinstance(token, str) or len(token) > _MAX_TOKEN or not _TOKEN.fullmatch(token):
        msg = f"the token server of {host} gives no token (status {status})"
        raise MalformedError(msg, remedy="run it again; if that does not help, tell whoever runs the registry")
    return token


def _parse(challenge: str, host: str) -> tuple[str, dict[str, str]]:
    """Return the scheme and its parameters."""
    scheme = _SCHEME.match(challenge[:_MAX_CHALLENGE])
    if scheme is None:
        msg = f"{host} asks for a login of a kind that is not known here: {plain(challenge, 80)!r}"
        raise AuthenticationError(msg, remedy="expected Basic or Bearer: see how others log in to this registry")
    parts: dict[str, str] = {}
    place = scheme.end()
    while found := _PART.match(challenge, place, _MAX_CHALLENGE):
        name, quoted, bare = found.groups()
        parts[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
        place = found.end()
    return scheme[1].lower(), parts


def _refused(host: str, known: Credentials | None) -> AuthenticationError:
    if known is None:
        msg = f"{host} wants to know who asks, and there are no credentials for it"
    else:
        msg = f"{host} does not take the credentials of {known.user!r}"
    remedy = f"skopeo login {host} (or docker login, without a credential helper)"
    return AuthenticationError(msg, remedy=remedy)
