"""1 to 30: the same payload behind every trick that the opcodes allow."""

from __future__ import annotations

import pickle
import struct

from corpus import Case, data
from corpus.assemble import (
    BUILD,
    DUP,
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    MARK,
    MEMOIZE,
    NEWOBJ,
    NONE,
    OBJ,
    POP,
    REDUCE,
    SETITEM,
    STACK_GLOBAL,
    STOP,
    TUPLE1,
    call,
    late_name,
    name,
    number,
    program,
    proto,
    source,
    text,
    touch,
)  # fmt: skip

SYSTEM = name("os", "system")


def plain(marker: str, protocol: int = 4) -> bytes:
    """The payload that the tricks hide."""
    return program(call(SYSTEM, text(touch(marker))), protocol=protocol)


def _string(value: str) -> bytes:
    return b"S" + repr(value).encode() + b"\n"


def _decoys(marker: str) -> bytes:
    """Memo entries are filled with harmless names and overwritten with the real ones before they are used."""
    put = b"q\x00"
    right = text("os") + put + POP + text("system") + b"q\x01" + POP
    wrong = text("math") + put + POP + text("sqrt") + b"q\x01" + POP
    return program(wrong, right, b"h\x00", b"h\x01", STACK_GLOBAL, text(touch(marker)), TUPLE1, REDUCE)


def _extension(marker: str) -> bytes:
    """Register an extension code, then fetch the function by it."""
    register = call(name("copyreg", "add_extension"), text("os"), text("system"), number(77))
    return program(register, POP, b"\x82\x4d", text(touch(marker)), TUPLE1, REDUCE)


def _nested(marker: str) -> bytes:
    inner = plain(marker)
    return program(call(name("pickle", "loads"), b"B" + struct.pack("<I", len(inner)) + inner))


def _setstate(marker: str) -> bytes:
    """An instance gets exec as its ``__setstate__``, and a second BUILD calls it with the source."""
    instance = name("sklearn.base", "BaseEstimator") + EMPTY_TUPLE + NEWOBJ
    state = EMPTY_DICT + text("__setstate__") + name("builtins", "exec") + SETITEM
    return program(instance, state, BUILD, text(source(marker)), BUILD)


def _framed(length_off: int):
    def make(marker: str) -> bytes:
        body = call(SYSTEM, text(touch(marker))) + STOP
        return proto(4) + b"\x95" + struct.pack("<Q", len(body) + length_off) + body

    return make


def _bomb(_: str) -> bytes:
    """Billion laughs: forty lists, each of the one before twice."""
    layers = b"".join(
        EMPTY_LIST + MEMOIZE + b"(h" + bytes([index]) + b"h" + bytes([index]) + b"e" for index in range(40)
    )
    return program(EMPTY_LIST + MEMOIZE, layers)


def _dup_bomb(_: str) -> bytes:
    """A tuple of itself, doubled eighty times, as a dict's key: hashing it takes longer than the universe has."""
    return program(EMPTY_DICT, EMPTY_TUPLE, (DUP + b"\x86") * 80, NONE, SETITEM)


DOTTED = {
    "13": ("pathlib", "os.system"),
    "14": ("joblib.memory", "os.system"),
    "15": ("numpy.lib._utils_impl", "sys.modules"),
    "16": ("sklearn.utils.validation", "warnings.sys.modules"),
}


def _dotted(module: str, attribute: str):
    def make(marker: str) -> bytes:
        if attribute.endswith("system"):
            return program(late_name(module, attribute), text(touch(marker)), TUPLE1, REDUCE)
        getter = late_name(module, f"{attribute}.get")
        system = call(name("builtins", "getattr"), call(getter, text("os")), text("system"))
        return program(system, text(touch(marker)), TUPLE1, REDUCE)

    return make


HOSTILE = (
    Case("1", "GLOBAL", data(lambda marker: b"cos\nsystem\n(" + _string(touch(marker)) + b"tR."), "pickle"),
    Case(
        "2",
        "STACK_GLOBAL",
        data(lambda m: program(late_name("posix", "system"), text(touch(m)), TUPLE1, REDUCE)),
        "pickle",
    ),
    Case("3", "exec", data(lambda m: program(call(name("builtins", "exec"), text(source(m))))), "pickle"),
    Case("4", "INST", data(lambda m: b"(" + _string(touch(m)) + b"ios\nsystem\n."), "pickle"),
    Case("5", "OBJ and POP", data(lambda m: program(MARK, SYSTEM, text(touch(m)), OBJ, POP, NONE)), "pickle"),
    Case("6", "memo decoys", data(_decoys), "pickle"),
    Case(
        "7",
        "STRING operands",
        data(
            lambda m: (
                proto(4) + _string("os") + _string("system") + STACK_GLOBAL + _string(touch(m)) + TUPLE1 + REDUCE + STOP
            )
        ),
        "pickle",
    ),
    Case("8", "no STOP", data(lambda m: plain(m)[:-1]), "pickle"),
    Case("9", "bad opcode after the payload", data(lambda m: plain(m)[:-1] + b"\xff" * 8), "pickle"),
    Case("10", "second pickle", data(lambda m: pickle.dumps({"weights": [1.0, 2.0]}) + plain(m)), "stacked"),
    Case("11", "nested loads", data(_nested), "pickle"),
    Case("12", "extension code", data(_extension), "pickle"),
    *(
        Case(key, f"dotted name through {module}", data(_dotted(module, attribute)), "pickle")
        for key, (module, attribute) in DOTTED.items()
    ),
    Case("17", "frame too short", data(_framed(-3)), ""),
    Case("17b", "frame too long", data(_framed(1000)), ""),
    Case(
        "18",
        "padding first",
        data(lambda m: program(b"B" + struct.pack("<I", 8 << 20) + bytes(8 << 20), POP, call(SYSTEM, text(touch(m))))),
        "pickle",
    ),
    Case("19", "bad memo key after the payload", data(lambda m: plain(m)[:-1] + b"h\xfe."), "pickle"),
    Case("20", "repeated PROTO", data(lambda m: proto(2) + proto(4) + proto(3) + plain(m)), "pickle"),
    Case(
        "21",
        "Python 2 alias commands",
        data(lambda m: program(call(name("commands", "getoutput"), text(touch(m))), protocol=2)),
        "pickle",
    ),
    Case(
        "22",
        "Python 2 alias dumbdbm",
        data(lambda m: program(call(name("dumbdbm", "open"), text(m), text("c")), protocol=2)),
        "pickle",
    ),
    Case("23", "BUILD installs __setstate__", data(_setstate), "pickle"),
    Case("24", "NEWOBJ of Popen", data(lambda m: program(name("subprocess", "Popen"), EMPTY_TUPLE, NEWOBJ)), ""),
    Case(
        "25", "memo index 2 to the 31", data(lambda m: program(NONE, b"r" + struct.pack("<I", 1 << 31))), "", limit=True
    ),
    Case(
        "26",
        "text of 2 to the 62 bytes",
        data(lambda m: proto(4) + b"\x8d" + struct.pack("<Q", 1 << 62) + b"x" + STOP),
        "",
        limit=True,
    ),
    Case("27", "billion laughs", data(_bomb), "", limit=True),
    Case("27b", "DUP as a key", data(_dup_bomb), "", limit=True),
    Case("28", "100k nesting", data(lambda m: program(EMPTY_LIST * 100_000, b"a" * 99_999)), "", limit=True),
    Case("29", "persistent id", data(lambda m: b"Pos.system\n."), ""),
    Case("29b", "binary persistent id", data(lambda m: program(text("x"), b"Q")), ""),
    Case("30", "buffer from outside", data(lambda m: program(b"\x97", protocol=5)), ""),
)
