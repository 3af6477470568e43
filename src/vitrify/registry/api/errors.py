"""One table from errors to HTTP statuses, and the way back: a client raises what the server raised.

A body is ``{"error": class, "message", "remedy", "id", "report"?, "names"?}``. What is no fault of the caller's may
hold what is no business of the caller's (paths, hosts, SQL): the answer then has the id under which the log has it all.
"""

from __future__ import annotations

import errno
import sqlite3
from typing import Any

import msgspec

from vitrify.core import errors as e
from vitrify.core.nesting import shallow
from vitrify.core.report import Report
from vitrify.core.wire import to_builtins
from vitrify.registry.api.routing import Answer

STATUS: dict[type[e.VitrifyError], int] = {
    e.UsageError: 400,
    e.MalformedError: 400,
    e.CorruptError: 400,
    e.SignatureError: 400,
    e.ModelError: 400,
    e.AuthenticationError: 401,
    e.DeniedError: 403,
    e.ReferenceNotFoundError: 404,
    e.ConflictError: 409,
    e.LimitExceededError: 413,
    e.CheckFailedError: 422,
    e.ForgedError: 422,
    e.UnsupportedModelError: 422,
    e.UntrustedCodeError: 422,
    e.VitrifyError: 500,
    e.StoreError: 500,
    e.BusyError: 429,
    e.MissingDependencyError: 501,
    e.NotOfferedError: 501,
    e.UnavailableError: 503,
    e.ExpiredError: 504,
}
FULL = 507
"""The status of a :class:`vitrify.core.errors.StoreError` because there is no space left."""
BY_STATUS: dict[int, type[e.VitrifyError]] = {
    401: e.AuthenticationError,
    403: e.DeniedError,
    404: e.ReferenceNotFoundError,
    409: e.ConflictError,
    413: e.LimitExceededError,
    429: e.BusyError,
    502: e.UnavailableError,
    503: e.UnavailableError,
    504: e.UnavailableError,
    FULL: e.StoreError,
}
"""What a status means that came without a body of ours: from a proxy, say."""
RETRY_SECONDS = 1
_INTERNAL = 500
_LONGEST = 4096
_CHALLENGE = 'Bearer realm="vitrify", Basic realm="vitrify", charset="UTF-8"'


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for what nobody raised on purpose."""
    if isinstance(error, e.StoreError) and _is_full(error):
        return FULL
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), _INTERNAL)


def said(error: BaseException, status: int, id_: str) -> e.VitrifyError:
    """Return the error as a stranger may see it."""
    match error:
        case e.UnavailableError() if error.__cause__ is not None:
            msg = f"the registry's database or content does not answer (see {id_} in the server's log)"
            return e.UnavailableError(msg, remedy="try again in a moment")
        case e.StoreError() if status >= _INTERNAL:
            what = "has no space left" if status == FULL else "could not do it"
            return e.StoreError(
                f"the registry's store {what} (see {id_} in the server's log)", remedy="tell who runs the registry"
            )
        case e.VitrifyError() if status != _INTERNAL:
            return error
        case _:
            return e.VitrifyError(f"the server failed (see {id_} in its log)", remedy="tell who runs the registry")


def answer_of(error: e.VitrifyError, status: int, id_: str) -> Answer:
    """Return the answer that says an error."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy, "id": id_}
    if (report := getattr(error, "report", None)) is not None:
        body["report"] = to_builtins(report)
    if names := getattr(error, "names", ()):
        body["names"] = list(names)
    return Answer(status, msgspec.json.encode(body), headers_of(status))


def headers_of(status: int) -> dict[str, str]:
    """Return the headers that a status asks for, however its error is said."""
    headers = {"content-type": "application/json"}
    if status == STATUS[e.AuthenticationError]:
        headers["www-authenticate"] = _CHALLENGE
    elif status == STATUS[e.UnavailableError]:
        headers["retry-after"] = str(RETRY_SECONDS)
    return headers


def error_from(status: int, data: bytes, where: str) -> e.VitrifyError:
    """Return the error that an answer says; what is no answer of ours becomes an error by its status.

    Args:
        status: 400 or more.
        data: The body, or the beginning of it.
        where: Which server, for the message.
    """
    try:
        raw: Any = msgspec.json.decode(shallow(data))
        kind, message, remedy = (raw[name] for name in ("error", "message", "remedy"))
        texts = all(isinstance(text, str) for text in (kind, message, remedy))
        found = _rebuilt(kind, message[:_LONGEST], remedy[:_LONGEST], raw) if texts else None
    except (msgspec.DecodeError, e.MalformedError, RecursionError, LookupError, TypeError):
        found = None
    if found is not None:
        return found
    kind_ = BY_STATUS.get(status, e.UnavailableError if status >= _INTERNAL else e.UsageError)
    return kind_(f"{where} answered with status {status}, and not as a registry does", remedy="check the URL")


def _rebuilt(kind: str, message: str, remedy: str, raw: dict[str, Any]) -> e.VitrifyError | None:
    class_ = vars(e).get(kind)
    if not (isinstance(class_, type) and issubclass(class_, e.VitrifyError)):
        return None
    report = None if raw.get("report") is None else Report.from_builtins(raw["report"], where="the error's report")
    if issubclass(class_, e.DeniedError):
        return class_(message, report=report, remedy=remedy)
    if issubclass(class_, e.CheckFailedError):
        return class_(message, report=report or Report.of("registry", ()), remedy=remedy)
    if issubclass(class_, e.UntrustedCodeError):
        return class_(message, names=map(str, raw.get("names", ())), remedy=remedy)
    return class_(message, remedy=remedy)


def _is_full(error: e.StoreError) -> bool:
    cause: BaseException | None = error.__cause__
    original = getattr(cause, "orig", None)
    if isinstance(original, sqlite3.Error):
        return getattr(original, "sqlite_errorname", "") == "SQLITE_FULL"
    return isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
