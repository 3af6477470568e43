"""The opcodes of a pickle as a straight-line program, and the one loop that runs it, with either pair of hands.

The loop reads operands, keeps stack, marks and memo; whatever makes or changes a value is left to its ``hands``: those
of the first pass make inert values, those of the second live ones. As both run over the same bytes through the same
code, what is decided on is what is loaded.

An opcode is at least a byte and does work in proportion to the bytes and stack items that it takes, so a program ends.
Where CPython's two unpicklers differ or are lenient (numbers with blanks, a frame that ends within an opcode), this one
refuses. Source: CPython ``Lib/pickletools.py`` and ``Modules/_pickle.c``; protocols 0 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from vitrify.pickles.opcodes import TABLE
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from vitrify.pickles.hands import Hands

MAX_LINE = 1 << 24
"""Protocol 0 writes text, and an array's bytes as text, as one line."""
MAX_NESTED = 16
OBJECTS = 250_000
"""Containers and objects that any pickle may have; larger ones, one more for every six bytes."""


class Program:
    """One pickle in a buffer, being run."""

    def __init__(self, view: memoryview, hands: Hands, *, where: str, depth: int = 0) -> None:
        """Take the buffer and the hands; ``depth`` counts the pickles that this one lies in."""
        self.view = view
        self.hands = hands
        self.where = where
        self.depth = depth
        self.size = len(view)
        self.limit = self.size  # where the frame ends
        self.at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.protocol = 0
        self.objects = OBJECTS + self.size // 6
        self.start = 0
        self.done = False

    def run(self, at: int = 0) -> tuple[Any, int]:
        """Run from an offset to the STOP; return the value, and the offset behind.

        Raises:
            MalformedError: It is no pickle, or does not reach its STOP.
            LimitExceededError: It needs more than any honest one.
            LookupError: An opcode does not fit its stack, marks or memo.
            ValueError: An opcode does not fit its operand.
        """
        table, view = TABLE, self.view
        self.start = at
        while not self.done:
            while at < self.limit:
                self.at = at
                at = table[view[at]](self, at + 1)
            if not self.done:
                if at != self.limit or at >= self.size:
                    self.refuse("it is cut off, or a frame ends within an opcode")
                self.limit = self.size
        return self.stack[-1], at

    def steps(self, count: int, at: int = 0) -> tuple[int, int]:
        """Run at most ``count`` opcodes, for a look at what a file begins with.

        Returns:
            Where the next opcode stands, and how many of them are left.

        Raises:
            MalformedError: As :meth:`run`; so do the others.
        """
        self.start = at
        while count > 0 and not self.done:
            if at >= self.limit:
                if at >= self.size:
                    self.refuse("it is cut off")
                self.limit = self.size
            self.at = at
            at = TABLE[self.view[at]](self, at + 1)
            count -= 1
        return at, count

    def refuse(self, what: str) -> NoReturn:
        """Raise a MalformedError about this pickle."""
        refuse(self.where, f"not a whole pickle: {what}")

    # Reading

    def end(self, at: int, length: int) -> int:
        """Return where an operand of that many bytes ends."""
        if length > self.limit - at:
            if length > 1 << 48:
                exceed(self.where, f"an operand of {length} bytes at {self.at}")
            self.refuse(f"an operand of {length} bytes at {self.at}, and {self.limit - at} are left")
        return at + length

    def number(self, at: int, size: int) -> int:
        """Return a little-endian number without a sign."""
        return int.from_bytes(self.view[at : self.end(at, size)], "little")

    def line(self, at: int) -> tuple[bytes, int]:
        """Return the bytes up to a newline, and the offset behind it."""
        end = min(self.limit, at + 128)
        while (found := bytes(self.view[at:end]).find(b"\n")) < 0:
            if end == self.limit:
                self.refuse(f"a line without an end at {self.at}")
            if end - at > MAX_LINE:
                exceed(self.where, f"a line of more than {MAX_LINE} bytes at {self.at}")
            end = min(self.limit, at + 4 * (end - at))
        return bytes(self.view[at : at + found]), at + found + 1

    def marked(self) -> list[Any]:
        """Take everything above the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def push(self, value: Any) -> None:
        """Put a new container or object on the stack; raises as :meth:`count`."""
        self.count()
        self.stack.append(value)

    def count(self) -> None:
        """Count one more container or object.

        Raises:
            LimitExceededError: There may be none.
        """
        self.objects -= 1
        if self.objects < 0:
            exceed(self.where, f"more objects than there are in an honest pickle of {self.size} bytes, at {self.at}")

    def nested(self, at: int) -> tuple[Any, int]:
        """Run another pickle that lies in this one; return its value and its end."""
        if self.depth >= MAX_NESTED:
            exceed(self.where, f"more than {MAX_NESTED} pickles in each other")
        return Program(self.view, self.hands, where=self.where, depth=self.depth + 1).run(at)

    def remember(self, index: int) -> None:
        """Put what is on top of the stack into the memo.

        Raises:
            LimitExceededError: The place is further than any pickler would count in a file of this size.
        """
        if index > self.size:
            exceed(self.where, f"place {index} of the memo at {self.at}, in {self.size} bytes")
        self.memo[index] = self.stack[-1]
