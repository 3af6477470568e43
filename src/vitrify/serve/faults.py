"""What each error is called on the wire: one table for HTTP and gRPC.

Nothing of the server's inside goes to a client: an error that is none of ours is ``internal error`` and the request's
id, by which the log tells the rest.

Source: https://grpc.io/docs/guides/status-codes/ for the codes.
"""

from __future__ import annotations

from vitrify.core import errors

Codes = tuple[int, int]

INVALID, EXPIRED, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, PRECONDITION = 3, 4, 5, 6, 7, 8, 9
UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 12, 13, 14, 16

CODES: tuple[tuple[type[errors.VitrifyError], Codes], ...] = (
    (errors.BusyError, (429, EXHAUSTED)),
    (errors.ExpiredError, (504, EXPIRED)),
    (errors.UnavailableError, (503, UNAVAILABLE)),
    (errors.LimitExceededError, (413, EXHAUSTED)),
    (errors.SignatureError, (400, INVALID)),
    (errors.MalformedError, (400, INVALID)),
    (errors.NotOfferedError, (501, UNIMPLEMENTED)),
    (errors.UsageError, (400, INVALID)),
    (errors.ReferenceNotFoundError, (404, NOT_FOUND)),
    (errors.AuthenticationError, (401, UNAUTHENTICATED)),
    (errors.DeniedError, (403, DENIED)),
    (errors.ConflictError, (409, EXISTS)),
    (errors.ModelError, (422, PRECONDITION)),
    (errors.UnsupportedModelError, (422, PRECONDITION)),
    (errors.UntrustedCodeError, (403, DENIED)),
    (errors.CheckFailedError, (409, PRECONDITION)),
)
"""HTTP status and gRPC code by class; of two classes that fit, the one that comes first."""


def codes(error: BaseException) -> Codes:
    """Return the HTTP status and the gRPC code."""
    return next((found for kind, found in CODES if isinstance(error, kind)), (500, INTERNAL))


def said(error: BaseException, id_: str = "") -> str:
    """Return what a client is told."""
    if isinstance(error, errors.VitrifyError) and codes(error)[0] != 500:  # noqa: PLR2004
        return str(error)
    return f"internal error; the server's log has it under {id_}" if id_ else "internal error"
