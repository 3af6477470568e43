"""Every error that Vitrify raises on purpose, on one page.

A message says what was found, what was expected and what to do next. The class says who has to act, and
its ``exit_code`` is what the command line returns: one table for people and for scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.report import Finding, Report


class VitrifyError(Exception):
    """The root of the tree: catch this to catch all.

    Args:
        message: What was found and what was expected.
        remedy: The next thing to do, as an imperative sentence or a command.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        """Keep the message and the remedy apart, so that each front end can lay them out."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the message, with the remedy on its own line."""
        return f"{self.message}\n  -> {self.remedy}" if self.remedy else self.message


class UsageError(VitrifyError):
    """A call or a command line that cannot be meant as written."""

    exit_code = 2


class NotOfferedError(UsageError):
    """Something that a protocol knows and this server does not do."""


class ReferenceNotFoundError(VitrifyError):
    """A name, digest or path that leads to no artifact."""

    exit_code = 3


class MissingDependencyError(VitrifyError):
    """A library that this work needs is not installed; the remedy is the install command."""

    exit_code = 4


class StoreError(VitrifyError):
    """The store could not do it (disk full, permission denied, lock held); nothing was changed."""

    exit_code = 5


class CorruptError(StoreError):
    """Bytes that are not the bytes their digest promises. Raised before any parser sees them."""

    exit_code = 6


class MalformedError(VitrifyError):
    """Content that its own format does not allow: truncated, out of bounds, of the wrong type."""

    exit_code = 7


class LimitExceededError(MalformedError):
    """Content that is larger, deeper or longer than what is read from a stranger; it was not looked at to its end."""

    exit_code = 13


class UnsupportedModelError(VitrifyError):
    """A model that a format or a transform cannot carry; ``problems`` lists every reason at once.

    A remedy that helps against all of them is said once.
    """

    exit_code = 8

    def __init__(self, message: str, *, problems: Iterable[Finding] = (), remedy: str = "") -> None:
        """List each problem below the message."""
        self.problems = tuple(problems)
        told, remedies = self.problems, {problem.remedy for problem in self.problems}
        if not remedy and len(told) > 1 and len(remedies) == 1:
            (remedy,) = remedies
            told = tuple(problem.replace(remedy="") for problem in told)
        super().__init__("\n".join([message, *(f"  - {problem}" for problem in told)]), remedy=remedy)


class SignatureError(VitrifyError):
    """Data that does not fit a signature; the message is a table of expected against given."""

    exit_code = 9


class ModelError(VitrifyError):
    """The model itself raised, or was never fitted: the data reached it and it refused."""

    exit_code = 10


class CheckFailedError(VitrifyError):
    """A check that gates (parity, replay, the clean-process trial) did not pass; ``report`` says why."""

    exit_code = 11

    def __init__(self, message: str, *, report: Report, remedy: str = "") -> None:
        """Keep the report of the failed check."""
        super().__init__(message, remedy=remedy)
        self.report = report


class ConflictError(VitrifyError):
    """Somebody else was first, or the name is taken; nothing was changed."""

    exit_code = 14


class DeniedError(VitrifyError):
    """A policy or a role does not allow it; ``report`` says which rule, where a policy was asked."""

    exit_code = 15

    def __init__(self, message: str, *, report: Report | None = None, remedy: str = "") -> None:
        """Keep the policy's answer."""
        super().__init__(message, remedy=remedy)
        self.report = report


class AuthenticationError(VitrifyError):
    """Nobody knows who is asking: no token, or one that is forged, expired or revoked."""

    exit_code = 16


class ForgedError(VitrifyError):
    """A signature that does not hold, or is by no key that counts."""

    exit_code = 17


class UnavailableError(VitrifyError):
    """A database or a server that cannot be reached or is busy; nothing was changed, and trying again may help."""

    exit_code = 18


class BusyError(UnavailableError):
    """More was asked than is taken: a queue is full, or a client asks too often.

    Args:
        retry_after: Seconds after which to come again.
    """

    exit_code = 19

    def __init__(self, message: str, *, retry_after: float = 1.0, remedy: str = "") -> None:
        """Keep how long to wait."""
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after


class ExpiredError(UnavailableError):
    """The caller's deadline passed before there was an answer; what had not begun by then is never run."""

    exit_code = 20


class UntrustedCodeError(VitrifyError):
    """The artifact needs code that nobody allowed; ``names`` are the exact names to allow."""

    exit_code = 12

    def __init__(self, message: str, *, names: Iterable[str], remedy: str = "") -> None:
        """Keep the names, so that a front end can offer them."""
        super().__init__(message, remedy=remedy)
        self.names = tuple(names)
