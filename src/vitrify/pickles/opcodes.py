"""What each opcode does to stack, marks and memo: one function an opcode, in a table by its byte.

A function takes the program and the offset behind the opcode, and returns the offset of the next one. Source: CPython
``Lib/pickletools.py``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from vitrify.pickles import lines
from vitrify.pickles.dialect import Nested
from vitrify.pickles.inert import COUNTED
from vitrify.pickles.python2 import python3

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.pickles.program import Program

HIGHEST_PROTOCOL = 5
PROTO = 0x80


def _no_opcode(run: Program, at: int) -> int:
    run.refuse(f"byte {run.view[at - 1]:#04x} at {at - 1} is no opcode")


TABLE: list[Callable[[Program, int], int]] = [_no_opcode] * 256


def is_opcode(byte: int) -> bool:
    """Say whether a byte is an opcode of any protocol."""
    return TABLE[byte] is not _no_opcode


def _opcode(*codes: bytes) -> Callable[[Callable[[Program, int], int]], Callable[[Program, int], int]]:
    def enter(step: Callable[[Program, int], int]) -> Callable[[Program, int], int]:
        for code in codes:
            TABLE[code[0]] = step
        return step

    return enter


def _constants() -> None:
    for code, value in ((b"N", None), (b"\x88", True), (b"\x89", False)):

        def constant(run: Program, at: int, value: Any = value) -> int:
            run.stack.append(value)
            return at

        TABLE[code[0]] = constant


def _strings() -> None:
    """Counted text and bytes: the size of the count, and whether it has a sign."""
    kinds = [
        *((b"X", 4, "str"), (b"\x8c", 1, "str"), (b"\x8d", 8, "str"), (b"T", -4, "latin1"), (b"U", 1, "latin1")),
        *((b"B", 4, "bytes"), (b"C", 1, "bytes"), (b"\x8e", 8, "bytes"), (b"\x96", 8, "bytearray")),
    ]
    for code, width, kind in kinds:

        def string(run: Program, at: int, width: int = abs(width), kind: str = kind, signed: bool = width < 0) -> int:  # noqa: FBT001 (bound at definition)
            start = run.end(at, width)
            length = int.from_bytes(run.view[at:start], "little", signed=signed)
            if length < 0:
                run.refuse(f"a string of {length} bytes at {run.at}")
            end = run.end(start, length)
            run.stack.append(run.hands.string(run.view, start, end, kind))
            return end

        TABLE[code[0]] = string


_constants()
_strings()


@_opcode(b"K")
def _binint1(run: Program, at: int) -> int:
    run.stack.append(run.view[at])
    return at + 1


@_opcode(b"M")
def _binint2(run: Program, at: int) -> int:
    run.stack.append(run.number(at, 2))
    return at + 2


@_opcode(b"J")
def _binint(run: Program, at: int) -> int:
    run.stack.append(int.from_bytes(run.view[at : run.end(at, 4)], "little", signed=True))
    return at + 4


@_opcode(b"\x8a", b"\x8b")
def _long1_long4(run: Program, at: int) -> int:
    start = run.end(at, 1 if run.view[at - 1] == 0x8A else 4)  # noqa: PLR2004 (LONG1)
    length = int.from_bytes(run.view[at:start], "little")
    end = run.end(start, length)
    run.stack.append(int.from_bytes(run.view[start:end], "little", signed=True))
    return end


@_opcode(b"G")
def _binfloat(run: Program, at: int) -> int:
    run.stack.append(struct.unpack_from(">d", run.view, run.end(at, 8) - 8)[0])
    return at + 8


@_opcode(b"I", b"L")
def _int_long(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.stack.append(lines.integer(line, long=run.view[at - 1] == ord("L")))
    return end


@_opcode(b"F")
def _float(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.stack.append(lines.number(line))
    return end


@_opcode(b"S")
def _string(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.stack.append(lines.quoted(line))
    return end


@_opcode(b"V")
def _unicode(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.stack.append(str(line, "raw-unicode-escape"))
    return end


@_opcode(b"(")
def _mark(run: Program, at: int) -> int:
    run.count()  # a mark is a list to come
    run.below.append(run.stack)
    run.stack = []
    return at


@_opcode(b"0")
def _pop(run: Program, at: int) -> int:
    if run.stack:
        run.stack.pop()
    else:
        run.marked()
    return at


@_opcode(b"1")
def _pop_mark(run: Program, at: int) -> int:
    run.marked()
    return at


@_opcode(b"2")
def _dup(run: Program, at: int) -> int:
    value = run.stack[-1]
    if type(value) in COUNTED:
        value.pushed += 1
    run.stack.append(value)
    return at


@_opcode(b"]")
def _empty_list(run: Program, at: int) -> int:
    run.push([])
    return at


@_opcode(b"}")
def _empty_dict(run: Program, at: int) -> int:
    run.push(run.hands.dictionary([]))
    return at


@_opcode(b"\x8f")
def _empty_set(run: Program, at: int) -> int:
    run.push(run.hands.group("set", []))
    return at


@_opcode(b")")
def _empty_tuple(run: Program, at: int) -> int:
    run.stack.append(())
    return at


@_opcode(b"\x85", b"\x86", b"\x87")
def _short_tuple(run: Program, at: int) -> int:
    size = run.view[at - 1] - 0x84
    if len(run.stack) < size:
        raise IndexError
    run.stack[-size:] = [tuple(run.stack[-size:])]
    return at


@_opcode(b"t")
def _tuple(run: Program, at: int) -> int:
    items = run.marked()
    run.push(tuple(items))
    return at


@_opcode(b"l")
def _list(run: Program, at: int) -> int:
    items = run.marked()
    run.push(items)
    return at


@_opcode(b"d")
def _dict(run: Program, at: int) -> int:
    items = run.marked()
    run.push(run.hands.dictionary(_paired(items)))
    return at


@_opcode(b"\x91")
def _frozenset(run: Program, at: int) -> int:
    items = run.marked()
    run.push(run.hands.group("frozenset", items))
    return at


@_opcode(b"a")
def _append(run: Program, at: int) -> int:
    item = run.stack.pop()
    _extend(run, [item])
    return at


@_opcode(b"e")
def _appends(run: Program, at: int) -> int:
    items = run.marked()
    _extend(run, items)
    return at


def _extend(run: Program, items: list[Any]) -> None:
    target = run.stack[-1]
    if type(target) is list:
        target.extend(items)
    else:
        run.hands.append(target, items)


@_opcode(b"s")
def _setitem(run: Program, at: int) -> int:
    value, key = run.stack.pop(), run.stack.pop()
    run.hands.put(run.stack[-1], [key, value])
    return at


@_opcode(b"u")
def _setitems(run: Program, at: int) -> int:
    items = run.marked()
    run.hands.put(run.stack[-1], _paired(items))
    return at


@_opcode(b"\x90")
def _additems(run: Program, at: int) -> int:
    items = run.marked()
    run.hands.add(run.stack[-1], items)
    return at


def _paired(items: list[Any]) -> list[Any]:
    if len(items) % 2:
        raise IndexError
    return items


@_opcode(b"p")
def _put(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.remember(lines.index(line))
    return end


@_opcode(b"g")
def _get(run: Program, at: int) -> int:
    line, end = run.line(at)
    return _recall(run, lines.index(line), end)


@_opcode(b"q")
def _binput(run: Program, at: int) -> int:
    run.remember(run.view[at])
    return at + 1


@_opcode(b"r")
def _long_binput(run: Program, at: int) -> int:
    run.remember(run.number(at, 4))
    return at + 4


@_opcode(b"\x94")
def _memoize(run: Program, at: int) -> int:
    run.memo[len(run.memo)] = run.stack[-1]
    return at


@_opcode(b"h")
def _binget(run: Program, at: int) -> int:
    value = run.memo[run.view[at]]
    if type(value) in COUNTED:
        value.pushed += 1
    run.stack.append(value)
    return at + 1


@_opcode(b"j")
def _long_binget(run: Program, at: int) -> int:
    return _recall(run, run.number(at, 4), at + 4)


def _recall(run: Program, index: int, at: int) -> int:
    value = run.memo[index]
    if type(value) in COUNTED:
        value.pushed += 1
    run.stack.append(value)
    return at


def _found(run: Program, module: Any, name: Any) -> Any:
    if run.protocol < 3 and type(module) is str and type(name) is str:  # noqa: PLR2004 (the first of Python 3)
        module, name = python3(module, name)
    return run.hands.find(module, name, run.at)


@_opcode(b"c")
def _global(run: Program, at: int) -> int:
    module, at = run.line(at)
    name, at = run.line(at)
    run.push(_found(run, str(module, "utf-8"), str(name, "utf-8")))
    return at


@_opcode(b"\x93")
def _stack_global(run: Program, at: int) -> int:
    name, module = run.stack.pop(), run.stack.pop()
    run.push(_found(run, module, name))
    return at


@_opcode(b"i")
def _inst(run: Program, at: int) -> int:
    module, at = run.line(at)
    name, at = run.line(at)
    items = run.marked()
    cls = _found(run, str(module, "ascii"), str(name, "ascii"))
    run.push(run.hands.instance(cls, tuple(items), run.at))
    return at


@_opcode(b"o")
def _obj(run: Program, at: int) -> int:
    cls, *args = run.marked()
    run.push(run.hands.instance(cls, tuple(args), run.at))
    return at


@_opcode(b"R")
def _reduce(run: Program, at: int) -> int:
    args, func = run.stack.pop(), run.stack.pop()
    run.push(run.hands.call(func, args, run.at))
    return at


@_opcode(b"\x81")
def _newobj(run: Program, at: int) -> int:
    args, cls = run.stack.pop(), run.stack.pop()
    run.push(run.hands.make(cls, args, None, run.at))
    return at


@_opcode(b"\x92")
def _newobj_ex(run: Program, at: int) -> int:
    kwargs, args, cls = run.stack.pop(), run.stack.pop(), run.stack.pop()
    run.push(run.hands.make(cls, args, kwargs, run.at))
    return at


@_opcode(b"b")
def _build(run: Program, at: int) -> int:
    state = run.stack.pop()
    instance = run.stack[-1]
    run.hands.build(instance, state, run.at)
    replaced = run.hands.built(instance, state, at)
    if replaced is None:
        return at
    value, place = replaced
    if not at <= place <= run.size:
        run.refuse(f"what follows the object at {run.at} does not end in the file")
    run.limit = run.size  # a frame does not count what lies between the opcodes
    if isinstance(value, Nested):
        inner, place = run.nested(place)
        value = value.then(inner)
    run.stack[-1] = value
    return place


@_opcode(b"P")
def _persid(run: Program, at: int) -> int:
    line, end = run.line(at)
    run.stack.append(run.hands.persistent(str(line, "ascii"), run.at))
    return end


@_opcode(b"Q")
def _binpersid(run: Program, at: int) -> int:
    run.stack[-1] = run.hands.persistent(run.stack[-1], run.at)
    return at


def _extensions() -> None:
    for code, width in ((b"\x82", 1), (b"\x83", 2), (b"\x84", 4)):

        def extension(run: Program, at: int, width: int = width) -> int:
            number = run.number(at, width)
            run.stack.append(run.hands.strange("extension-code", f"extension code {number}", run.at))
            return at + width

        TABLE[code[0]] = extension


_extensions()


@_opcode(b"\x97")
def _next_buffer(run: Program, at: int) -> int:
    run.stack.append(run.hands.strange("outside-buffer", "buffer that is not in the file", run.at))
    return at


@_opcode(b"\x98")
def _readonly_buffer(run: Program, at: int) -> int:
    run.stack[-1] = run.hands.strange("outside-buffer", "buffer that is not in the file", run.at)
    return at


@_opcode(b"\x80")
def _proto(run: Program, at: int) -> int:
    if run.at != run.start:
        run.hands.strange("repeated-protocol", "second protocol number", run.at)
    run.protocol = run.view[at]
    if run.protocol > HIGHEST_PROTOCOL:
        run.refuse(f"protocol {run.protocol}, and there is none above {HIGHEST_PROTOCOL}")
    return at + 1


@_opcode(b"\x95")
def _frame(run: Program, at: int) -> int:
    length, at = run.number(at, 8), at + 8
    if run.limit != run.size:
        run.refuse(f"a frame within a frame at {run.at}")
    run.limit = run.end(at, length)
    return at


@_opcode(b".")
def _stop(run: Program, at: int) -> int:
    if run.below or not run.stack:
        run.refuse(f"it stops at {run.at} without a value, or with marks that nothing took")
    if run.limit not in {at, run.size}:
        run.refuse(f"it stops at {run.at}, within a frame")
    run.done = True
    run.limit = at
    return at
