"""The pickle machine against CPython's: what it accepts, CPython's unpickler reads as an equal value.

Inputs are programs of random opcodes, expressions that fit their stack, and mutations of honest pickles.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import io
import math
import pickle
import re
import struct
import uuid

from fuzz._run import Case
from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow
from vitrify.pickles import names
from vitrify.pickles.machine import audit, load
from vitrify.pickles.python2 import python3

SHARED = list | dict | set | bytearray | collections.deque
"""What it matters for whether two are one."""


class Plain:
    """A user's class, which the fuzzer allows."""


class Slotted:
    """One without a dictionary."""

    __slots__ = ("a", "b")


class Listed(list):
    """A list with attributes."""


ALLOWED = [f"{Plain.__module__}.{cls.__name__}" for cls in (Plain, Slotted, Listed)]
GLOBALS = [
    *((Plain.__module__, "Plain"), (Plain.__module__, "Slotted"), (Plain.__module__, "Listed")),
    *(("builtins", name) for name in ("set", "frozenset", "bytearray", "complex", "range", "slice", "list", "object")),
    *(("__builtin__", name) for name in ("set", "xrange", "long", "unicode")),
    *(("collections", name) for name in ("OrderedDict", "Counter", "deque", "defaultdict")),
    *(("datetime", name) for name in ("date", "timedelta")),
    *(("copyreg", "_reconstructor"), ("copy_reg", "_reconstructor"), ("_codecs", "encode")),
    *(("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("os", "getpid"), ("numpy", "linalg.norm")),
]
HONEST = [
    [1, -1, 2**31, 2**70, -(2**70), 1.5, math.inf, None, True, False, "", "text", "ü", b"", b"bytes", bytearray(b"x")],
    {"a": {"b": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]}, 1: {2, 3}, (1, "x"): frozenset([4])},
    collections.OrderedDict(a=1, b=[]),
    collections.Counter("aab"),
    collections.deque([1, 2], 5),
    collections.defaultdict(list, a=[1]),
    [dt.date(2020, 1, 2), dt.timedelta(1, 2), decimal.Decimal("1.5"), fractions.Fraction(1, 3)],
    [uuid.UUID(int=5), complex(1, 2), range(1, 5, 2), slice(1, None), set, 300 * "long"],
]


def honest():
    plain = Plain()
    plain.a, plain.self = 1, plain
    listed = Listed([1, 2])
    listed.mark = "x"
    shared = ["shared"]
    return [*HONEST, plain, listed, [shared, shared, (shared,)]]


class Reference(pickle.Unpickler):
    """CPython's own, for the names that the machine trusted: others cannot come up."""

    def find_class(self, module, name):
        module, name = python3(module, name)
        dotted = f"{module}.{name}"
        uses = ("state", "call", "refer")
        if dotted not in ALLOWED and not any(names.trusted_in_pickle(names.Name(module, name, use)) for use in uses):
            raise AssertionError(dotted)
        return super().find_class(module, name)


def text(generator):
    return generator.choice(["", "a", "b", "__dict__", "\\x41", "long" * 9, "1", "ü", "latin1"])


def opcode(generator, kinds):
    """Return one opcode with its operand."""
    kind = generator.choice(kinds)
    operand = next((make for codes, make in OPERANDS.items() if kind in codes), lambda _: b"")
    return kind.encode("latin1") + operand(generator)


def counted(width, empty=False):
    def operand(generator):
        content = b"" if empty else text(generator).encode()
        return len(content).to_bytes(width, "little") + content

    return operand


def number(generator):
    return generator.choice([0, 1, 2, 3, 5, 255])


def line(*choices):
    return lambda generator: generator.choice(choices) + b"\n"


def names_of(generator):
    return "\n".join(generator.choice(GLOBALS)).encode() + b"\n"


OPERANDS = {
    "IL": line(b"0", b"-1", b"7", b"7L", b"1099511627776", b"01", b"00"),
    "F": line(b"1.5", b"-1e3", b"nan", b"inf", b"1_0", b" 1"),
    "S": line(*(repr(one).encode() for one in ("a", "b'c", "\\", "x\n", "\xff"))),
    "V": line(*(one.encode("raw-unicode-escape") for one in ("", "a", "\u1234", "\\x41"))),
    "ci": names_of,
    "pg": lambda generator: str(number(generator)).encode() + b"\n",
    "qhK\x82\x80": lambda generator: bytes([number(generator)]),
    "rjJ": lambda generator: struct.pack("<I", number(generator)),
    "M\x83": lambda generator: struct.pack("<H", number(generator)),
    "G": lambda generator: struct.pack(">d", generator.choice([0.0, -1.5, math.nan])),
    "XTB": counted(4),
    "\x8cUC\x8a": counted(1),
    "\x8d\x8e\x96": counted(8),
    "\x95": counted(8, empty=True),
}


def late_global(generator):
    module, name = generator.choice(GLOBALS)
    return b"".join(b"\x8c" + bytes([len(part)]) + part.encode() for part in (module, name)) + b"\x93"


def any_global(generator):
    return late_global(generator) if generator.random() < 0.5 else opcode(generator, "c")


VALUES = list("NIJKLMGFSVXTUBC]})") + list("\x88\x89\x8a\x8c\x8d\x8e\x8f\x96cc")
SHAPES = list("(((tldeeuusaRRRbbbo00122ppqqrgghhj.") + list("\x81\x81\x85\x85\x86\x87\x90\x91\x92\x94\x94")
RARE = list("iPQ\x80\x82\x83\x95\x97\x98")


def program(generator):
    """Return a random program: mostly values, then what shapes them."""
    kinds = VALUES * 2 + SHAPES * 2 + RARE
    start = generator.choice([b"", b"\x80\x02", b"\x80\x04", b"\x80\x05", b"\x80\x03"])
    return start + b"".join(opcode(generator, kinds) for _ in range(generator.randint(1, 24))) + b"."


def assembled(generator):
    """Return a program that fits its stack, so that more is accepted: an expression of random depth."""
    return generator.choice([b"\x80\x04", b"\x80\x02", b""]) + expression(generator, 4) + b"."


def expression(generator, depth):
    if depth == 0 or generator.random() < 0.2:
        return opcode(generator, VALUES[:-2]) + generator.choice([b"", b"", b"\x94", b"2", b"20"[:1] + b"0"])
    below = [expression(generator, depth - 1) for _ in range(generator.randint(0, 3))]
    key = opcode(generator, list("KXU\x8cI"))
    forms = [
        b"(" + b"".join(below) + generator.choice([b"t", b"l"]),
        b"](" + b"".join(below) + b"e",
        b"}(" + b"".join(key + one for one in below) + b"u",
        b"\x8f(" + b"".join(below) + b"\x90",
        b"(" + b"".join(below) + b"\x91",
        any_global(generator) + b"(" + b"".join(below) + b"tR",
        any_global(generator) + b")\x81}" + key + expression(generator, depth - 1) + b"sb",
        b"(" + any_global(generator) + b"".join(below) + b"o",
        b"(" + b"".join(below) + opcode(generator, "i"),
        any_global(generator) + b"(" + b"".join(below) + b"tR" + b"}" + key + b"Nsb",
    ]
    return generator.choice(forms) + generator.choice([b"", b"", b"\x94", b"q\x01", b"q\x010h\x01"])


def mutated(generator, content):
    """Return an honest pickle with a few bytes changed, taken out, doubled or put in."""
    content = bytearray(content)
    for _ in range(generator.randint(0, 3)):
        at = generator.randrange(len(content) + 1)
        match generator.randrange(4):
            case 0:
                content[at : at + 1] = bytes([generator.randrange(256)])
            case 1:
                del content[at : at + generator.randint(1, 4)]
            case 2:
                content[at:at] = content[at : at + generator.randint(1, 8)]
            case _:
                content[at:at] = opcode(generator, VALUES + SHAPES + RARE)
    return bytes(content)


def equal(one, other):
    """Compare values of any shape: types, contents, and which parts are shared."""
    known, todo = {}, [(one, other)]
    while todo:
        one, other = todo.pop()
        if type(one) is not type(other):
            return False
        if id(one) in known:
            if known[id(one)] != id(other) and isinstance(one, SHARED):
                return False
            continue
        known[id(one)] = id(other)
        held = [content(value) for value in (one, other)]
        if len(held[0]) != len(held[1]) or not same(one, other):
            return False
        todo += zip(*held, strict=True)
    return True


def content(value):
    """Return what a value holds, in order."""
    held = []
    if isinstance(value, list | tuple | collections.deque):
        held += value
    if isinstance(value, dict):
        held += [part for pair in value.items() for part in pair]
    if isinstance(value, collections.defaultdict):
        held.append(value.default_factory)
    if isinstance(value, slice):
        held += [value.start, value.stop, value.step]
    if isinstance(value, Slotted):
        held += [getattr(value, name, None) for name in ("a", "b")]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        held.append(vars(value))
    return held


def shown(value):
    """Return a hashable value as text: sets in order, objects without their addresses."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__} {sorted(map(shown, value))}"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def same(one, other):
    """Compare what two values are besides what they hold."""
    if isinstance(one, uuid.UUID):  # it may have been made without its number
        return getattr(one, "int", None) == getattr(other, "int", None)
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, complex):
        return repr(one) == repr(other)
    if isinstance(one, set | frozenset):
        return shown(one) == shown(other)
    if isinstance(one, list | tuple | dict | slice | collections.deque | Slotted) or hasattr(one, "__dict__"):
        return True
    return one is other or type(one) is object or bool(one == other)


def seeds(*, quick=False):
    return [Case("pickle", {"x": pickle.dumps(value, protocol)}) for value in honest() for protocol in range(6)]


def change(case, others, chance):
    if chance.random() < 0.4:
        return Case("mutation", {"x": mutated(chance, case.files["x"])})
    make = chance.choice([program, assembled, assembled])
    return Case(make.__name__, {"x": make(chance)})


def check(case):
    content = case.files["x"]
    try:
        audit(memoryview(content), where="fuzz")
        value = load(memoryview(content), where="fuzz", allow=Allow.of(ALLOWED))
    except VitrifyError:
        return False
    reference = Reference(io.BytesIO(content), encoding="latin1").load()  # whatever it raises is a disagreement
    assert equal(value, reference), "the values differ"
    return True
