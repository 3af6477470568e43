"""Whether bytes are a pickle, at the cost of a few opcodes."""

from __future__ import annotations

import re

from vitrify.core.errors import VitrifyError
from vitrify.pickles.auditing import Auditor
from vitrify.pickles.dialect import PLAIN
from vitrify.pickles.opcodes import HIGHEST_PROTOCOL, PROTO, is_opcode
from vitrify.pickles.program import Program

OPCODES = 64
HEAD = 1 << 20

_JOBLIB = re.compile(rb"joblib\.numpy_pickle")
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C


def is_plain(view: memoryview) -> bool:
    """Say whether bytes begin like a pickle of Python's own: not one that joblib or torch wrote and would read.

    A pickle runs as it is read, so one that breaks later counts as soon as it has called something. Text and other
    files do not: without a protocol number, what was read has to be whole.
    """
    return begins(view) and not _JOBLIB.search(view[:HEAD])


def is_joblib(view: memoryview) -> bool:
    """Say whether bytes begin like a pickle and name what joblib writes in the place of arrays."""
    return _JOBLIB.search(view[:HEAD]) is not None and begins(view)


def begins(view: memoryview) -> bool:
    """Say whether bytes begin like a pickle of any kind, or would do something before they break."""
    numbered = len(view) > 2 and view[0] == PROTO and view[1] <= HIGHEST_PROTOCOL and is_opcode(view[2])  # noqa: PLR2004 (an opcode and its number)
    at, left, hands = 0, OPCODES, _Look(view)
    while at < len(view) and left > 0:
        program = Program(view, hands, where="")
        try:
            at, left = program.steps(left, at)
        except (VitrifyError, LookupError, ValueError):
            return hands.acts or numbered
        if program.done and program.stack and program.stack[-1] == _TORCH_MAGIC:
            return False
    return left <= 0 or (at == len(view) and at > 0)


class _Look(Auditor):
    """Hands that also tell whether anything was called."""

    def __init__(self, view: memoryview) -> None:
        super().__init__(view, PLAIN, where="")

    @property
    def acts(self) -> bool:
        return any(name.use != "refer" for name in self.names())
