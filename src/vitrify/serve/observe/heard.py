"""What becomes of one call: noted where it happens, read when the call has ended.

A call is answered in one task, and in tasks that this one starts: so a context variable finds its note, and no protocol
has to carry it.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitrify.serve.values import Infer, Reply


@dataclass(slots=True)
class Heard:
    """The note of a call.

    Attributes:
        began: By ``time.time()``.
        model: Which model was asked last; an ensemble is asked after its parts.
        version: Which version of it answered, or was to.
        digest: The artifact's.
        rows: How many were asked for, by the first input.
        waited: Seconds in the queue; None where the lane does not tell.
        computed: Seconds from there to the answer; likewise.
        error: The name of the error's class; empty for none.
        span: Of the call, where it is traced.
    """

    began: float = field(default_factory=time.time)
    model: str = ""
    version: str = ""
    digest: str = ""
    rows: int = 0
    waited: float | None = None
    computed: float | None = None
    error: str = ""
    span: Any = None

    def take(self, request: Infer, answer: Reply | BaseException) -> None:
        """Note what a model answered."""
        self.model, self.rows = request.model, _rows(request)
        if isinstance(answer, BaseException):
            self.version, self.digest = request.version, ""
            self.waited = self.computed = None
            self.error = type(answer).__name__
            return
        self.version, self.digest = answer.version, answer.digest
        self.waited, self.computed = answer.waited, answer.computed
        self.error = ""


_current: ContextVar[Heard | None] = ContextVar("vitrify_heard", default=None)


def begin() -> Heard:
    """Return a new note, which the task that runs now has from here on."""
    heard = Heard()
    _current.set(heard)
    return heard


def failed(error: BaseException) -> None:
    """Note why the call that is being answered failed, whoever found it."""
    heard = _current.get()
    if heard is not None:
        heard.error = type(error).__name__


def current() -> Heard | None:
    """Return the note of the call that is being answered; None outside of any."""
    return _current.get()


def _rows(request: Infer) -> int:
    first = next(iter(request.inputs.values()), None)
    return int(first.shape[0]) if first is not None and first.ndim else 0
