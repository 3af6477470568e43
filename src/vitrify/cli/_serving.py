"""What the commands that talk to a running server share: where it is, who asks, and what its errors are here."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click

from vitrify.cli._options import json_option
from vitrify.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "VITRIFY_SERVE_TOKEN"  # noqa: S105 (the name of a variable)
_INSECURE = "VITRIFY_INSECURE_HTTP"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SECONDS = 600.0
"""A model may take long to load."""
_MOST = 64 * 1024 * 1024
_REFUSED = 400
_CLASSES: dict[int, type[errors.VitrifyError]] = {
    400: errors.UsageError,
    401: errors.AuthenticationError,
    403: errors.DeniedError,
    404: errors.ReferenceNotFoundError,
    409: errors.ConflictError,
    413: errors.LimitExceededError,
    422: errors.ModelError,
    429: errors.BusyError,
    501: errors.NotOfferedError,
    503: errors.UnavailableError,
    504: errors.ExpiredError,
}


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--server``, ``--token`` and ``--json``."""
    server = click.option(
        "--server",
        default="http://127.0.0.1:8080",
        show_default=True,
        envvar="VITRIFY_SERVER",
        metavar="URL",
        help="The server's REST address.  [env: VITRIFY_SERVER]",
    )
    token = click.option(
        "--token", envvar=TOKEN, metavar="TOKEN", help=f"An admin's token; better in {TOKEN}: others see arguments."
    )
    return server(token(json_option(command)))


class RunningServer:
    """A server that runs somewhere.

    Args:
        url: Its REST address.
        token: Who asks; None for nobody.

    Raises:
        UsageError: The URL is none, or would carry the token over plain HTTP to another machine.
    """

    def __init__(self, url: str, token: str | None) -> None:
        """Connect to nothing yet."""
        split = urlsplit(url)
        if split.scheme not in {"http", "https"} or not split.hostname or split.username or split.query:
            msg = f"{url!r} is no address of a server"
            raise errors.UsageError(msg, remedy="write it as https://host:port")
        plainly = split.scheme == "http" and split.hostname not in _LOOPBACK and os.environ.get(_INSECURE) != "1"
        if plainly and token:
            msg = f"plain HTTP would show the token to whoever is between here and {split.hostname}"
            raise errors.UsageError(msg, remedy=f"use https, or set {_INSECURE}=1 where the network is private")
        self._url = url.rstrip("/")
        self._headers = {"accept": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}

    def ask(self, method: str, *path: str, body: object = None, accept: str = "") -> Any:
        """Return what the server answers: JSON, or text where that was asked for; None for nothing.

        Args:
            method: Of HTTP.
            path: Its parts below ``/admin``; each may have any characters.
            body: JSON; None for none.
            accept: The type of text to ask for.

        Raises:
            UnavailableError: It cannot be reached.
            VitrifyError: What the server says.
        """
        import urllib3

        url = "/".join([self._url, "admin", *(quote(part, safe="") for part in path)])
        headers = {**self._headers, **({"accept": accept} if accept else {})}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib3.PoolManager(retries=False, timeout=_SECONDS) as pool:
                answer = pool.request(method, url, body=data, headers=headers, redirect=False, preload_content=False)
                text = answer.read(_MOST + 1, decode_content=True)
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            msg = f"nobody answers at {self._url}: {error}"
            raise errors.UnavailableError(
                msg, remedy="start it: vitrify serve; or say where it is: --server"
            ) from error
        if len(text) > _MOST:
            msg = f"{self._url} answers with more than {_MOST} bytes"
            raise errors.LimitExceededError(msg)
        if answer.status >= _REFUSED:
            raise _error(answer.status, text)
        if accept:
            return text.decode(errors="replace")
        return _json(text, self._url) if text else None


def _json(text: bytes, url: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{url} does not answer as vitrify serve does: {error}"
        raise errors.MalformedError(msg, remedy="say where the server is: --server") from error


def _error(status: int, text: bytes) -> errors.VitrifyError:
    try:
        said = json.loads(text)["error"]
    except (ValueError, RecursionError, LookupError, TypeError):
        said = text[:500].decode(errors="replace")
    message, _, remedy = str(said).partition("\n  -> ")
    kind = _CLASSES.get(status, errors.VitrifyError)
    return kind(message or f"the server answers with status {status}", remedy=remedy)
