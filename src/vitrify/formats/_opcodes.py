"""What a pickle would import, read from its opcodes without running one.

Source: CPython ``Lib/pickletools.py``, which says for each opcode what it takes from the stack and leaves there.
"""

from __future__ import annotations

import pickletools
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO

from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_OPCODES = 100_000_000

_REFUSED = {
    "EXT1": "an extension code",
    "EXT2": "an extension code",
    "EXT4": "an extension code",
    "PERSID": "a persistent id",
    "BINPERSID": "a persistent id",
    "NEXT_BUFFER": "a buffer outside of the file",
}
_MARK = object()


def global_names(stream: BinaryIO, *, where: str) -> frozenset[tuple[str, str]]:
    """Return module and name of every global that the pickle looks up.

    Raises:
        MalformedError: It is no complete pickle, or a global's name cannot be told without running it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pickletools unescapes text, also of what is no pickle
        return frozenset(_Walk(where).globals(stream))


class _Walk:
    """A stack and a memo that know text and nothing else."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def globals(self, stream: BinaryIO) -> Iterator[tuple[str, str]]:
        for count, (opcode, argument) in enumerate(self._opcodes(stream)):
            if count > MAX_OPCODES:
                refuse(self._where, f"more than {MAX_OPCODES} opcodes")
            if opcode.name in _REFUSED:
                refuse(self._where, f"it uses {_REFUSED[opcode.name]}")
            try:
                found = self._step(opcode, argument)
            except (IndexError, KeyError, ValueError):
                refuse(self._where, f"{opcode.name} does not fit its stack or memo")
            if found:
                yield found

    def _opcodes(self, stream: BinaryIO) -> Iterator[tuple[pickletools.OpcodeInfo, Any]]:
        try:
            for opcode, argument, _ in pickletools.genops(stream):
                yield opcode, argument
        except (ValueError, EOFError, OverflowError, MemoryError) as error:
            refuse(self._where, f"not a pickle ({error})")

    def _step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> tuple[str, str] | None:
        """Do to the stack what the opcode does, and return the global that it looks up."""
        name = opcode.name
        if name == "STACK_GLOBAL":
            module, attribute = self._stack[-2:]
            if not (isinstance(module, str) and isinstance(attribute, str)):
                refuse(self._where, "the name of a global is made while it runs")
            self._stack[-2:] = [None]
            return module, attribute
        if name in {"PUT", "BINPUT", "LONG_BINPUT"}:
            self._memo[argument] = self._stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._stack[-1]
        elif name in {"GET", "BINGET", "LONG_BINGET"}:
            self._stack.append(self._memo[argument])
        elif name == "DUP":
            self._stack.append(self._stack[-1])
        elif name == "POP":
            self._stack.pop()
        else:
            self._apply(opcode, argument)
        if name in {"GLOBAL", "INST"}:
            module, _, attribute = argument.partition(" ")
            return module, attribute
        return None

    def _apply(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        before = opcode.stack_before
        if pickletools.markobject in before:
            while self._stack.pop() is not _MARK:
                pass
            before = before[: before.index(pickletools.markobject)]
        if len(before) > len(self._stack) or any(
            item is _MARK for item in self._stack[len(self._stack) - len(before) :]
        ):
            refuse(self._where, f"{opcode.name} does not fit its stack")
        del self._stack[len(self._stack) - len(before) :]
        for left in opcode.stack_after:
            self._stack.append(
                _MARK if left is pickletools.markobject else argument if isinstance(argument, str) else None
            )
