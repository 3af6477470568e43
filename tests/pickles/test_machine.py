"""The pickle machine: one loop, first on inert values, then on live ones."""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import re
import struct
import sys

import pytest
from fuzz.pickle_machine import equal
from hypothesis import given
from hypothesis import strategies as st
from measured import MIB, calls, memory

from vitrify.core.errors import LimitExceededError, MalformedError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.pickles import inert
from vitrify.pickles.dialect import Dialect, Nested
from vitrify.pickles.machine import audit, load
from vitrify.pickles.names import Name

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=6) | st.binary(max_size=6)
)
KEYS = st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
VALUES = st.recursive(
    SCALARS | st.frozensets(KEYS, max_size=3),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(KEYS, below, max_size=3)
        | st.tuples(below, below)
        | st.builds(bytearray, st.binary(max_size=4))
        | st.sets(KEYS, max_size=3)
    ),
    max_leaves=15,
)


class Mine:
    """A user's own class."""


class Keyed(dict):
    """A dictionary with attributes."""


def found(content):
    return audit(memoryview(content), where="x")


def loaded(content, *names, dialect=None):
    allow = Allow.of([f"{__name__}.{name}" for name in names])
    return load(memoryview(content), where="x", allow=allow, **({"dialect": dialect} if dialect else {}))


def rules(content):
    return [one.rule for one in found(content).findings]


@given(value=VALUES, protocol=st.integers(0, 5), shortened=st.booleans())
def test_plain_values_come_back_in_every_protocol(value, protocol, shortened):
    content = pickle.dumps(value, protocol)
    content = pickletools.optimize(content) if shortened else content
    assert found(content).findings == ()
    assert found(content).protocol == (protocol if protocol > 1 else 0)
    assert equal(loaded(content), value)


@pytest.mark.parametrize("protocol", range(6))
def test_shared_and_circular_values_stay_so(protocol):
    mine = Mine()
    mine.itself, mine.list = mine, []
    mine.list.append(mine.list)
    keyed = Keyed(a=1)
    keyed.note = [keyed]
    first, second, third = loaded(pickle.dumps([mine, mine, keyed], protocol), "Mine", "Keyed")
    assert first is second is first.itself
    assert first.list[0] is first.list
    assert third == {"a": 1}
    assert third.note[0] is third


def test_each_name_is_known_by_its_use():
    content = pickle.dumps([Mine(), Mine, collections.OrderedDict(a=1), collections.defaultdict(list)])
    assert set(found(content).names) == {
        *(Name(__name__, "Mine", use) for use in ("state", "refer")),
        *(Name("collections", name, "call") for name in ("OrderedDict", "defaultdict")),
        Name("builtins", "list", "refer"),
    }


def test_a_class_that_was_used_twice_from_one_tuple_still_stands_where_it_stands():
    """The arguments of ``_reconstructor`` are shared: counting their uses must not hide the class in the list."""
    arguments = f"c{__name__}\nMine\nq\x01cbuiltins\nobject\nN\x87q\x02".encode("latin1")
    content = b"\x80\x03](" + b"ccopyreg\n_reconstructor\nq\x00" + arguments + b"R" + b"h\x00h\x02R" + b"h\x01e."
    assert {name.use for name in found(content).names if name.name == "Mine"} == {"state", "refer"}


def test_a_name_that_is_only_dropped_was_imported():
    assert Name("this", "s", "refer") in found(b"cthis\ns\n0N.").names
    assert "this" not in sys.modules


def test_auditing_imports_nothing_that_is_named():
    code = b"\x80\x04\x8c\x0bxmlrpc.misc\x94\x8c\x05Thing\x93\x8c\x12sklearn.svm._bases\x8c\x03SVM\x93\x86."
    before = set(sys.modules)
    found(code)
    assert not [name for name in set(sys.modules) - before if name.startswith(("xmlrpc", "sklearn"))]


def test_the_inert_root_shows_class_and_state():
    mine = Mine()
    mine._sklearn_version, mine.depth = "1.2.3", 4
    audited = found(pickle.dumps(mine))
    assert isinstance(audited.root, inert.Call)
    assert audited.root.dotted == f"{__name__}.Mine"
    assert audited.root.state.get("depth") == 4
    assert audited.versions == {"_sklearn_version": "1.2.3"}


ODD = {
    "a name of something else than text": (b"\x80\x04K\x01\x8c\x01a\x93.", "computed-global"),
    "a name that a call made": (b"\x80\x04ccollections\nOrderedDict\n)R\x8c\x01a\x93.", "computed-global"),
    "a dotted name": (b"cos\npath.join\n.", "dotted-global"),
    "an empty part": (b"cos..path\njoin\n.", "dotted-global"),
    "no part": (b"c\n\n.", "dotted-global"),
    "the result of a call, called": (b"cfunctools\npartial\n(cbuiltins\nlen\ntR)R.", "computed-call"),
    "a number, called": (b"K\x01)R.", "computed-call"),
    "arguments that are no tuple": (b"cbuiltins\nset\n]R.", "computed-call"),
    "an instance of a list": (b"\x80\x02])\x81.", "computed-call"),
    "a state for a class": (b"cnumpy\nfloat64\n}b.", "state-of-another"),
    "a state for a list": (b"]}b.", "state-of-another"),
    "a second state": (b"cuuid\nUUID\n)\x81}b}b.", "state-twice"),
    "a state after it was used": (b"cnumpy\ndtype\n(U\x02V8I00\nI01\ntRq\x000]h\x00ah\x00(K\x03tb.", "state-late"),
    "a state that Python would use": (b"cuuid\nUUID\n)\x81}U\x09__class__Nsb.", "dunder-state"),
    "a state of slots": (b"cuuid\nUUID\n)\x81N}U\x03intK\x01s\x86b.", "slots-state"),
    "items for an array": (b"cuuid\nUUID\n)\x81(U\x01aNu.", "state-of-another"),
    "items for a tuple": (b")(Ne.", "state-of-another"),
    "a persistent id": (b"Pid\n.", "persistent-id"),
    "an extension code": (b"\x82\x01.", "extension-code"),
    "a buffer from elsewhere": (b"\x80\x05\x97.", "outside-buffer"),
    "a read-only buffer": (b"\x80\x05C\x00\x98.", "outside-buffer"),
    "a second protocol number": (b"\x80\x02\x80\x02N.", "repeated-protocol"),
    "a second pickle": (b"N.N.", "trailing-bytes"),
    "bytes behind it": (b"N.xyz", "trailing-bytes"),
}


@pytest.mark.parametrize(("content", "rule"), ODD.values(), ids=ODD)
def test_what_no_pickler_writes_is_found_and_not_loaded_even_when_everything_is_allowed(content, rule):
    assert rule in rules(content)
    with pytest.raises(MalformedError):
        load(memoryview(content), where="x", allow=Allow.of([name.dotted for name in found(content).names]))


BROKEN = {
    "nothing": b"",
    "no end": b"\x80\x04]",
    "an empty stack": b".",
    "a mark that nothing took": b"(N.",
    "a value below a mark": b"N(a.",
    "an unknown place of the memo": b"h\x05.",
    "an odd number of items": b"}(Nu.",
    "an operand beyond the end": b"X\xff\xff\x00\x00a.",
    "a negative length": b"T\xff\xff\xff\xffa.",
    "a frame within a frame": b"\x80\x04\x95\x0a" + b"\0" * 7 + b"\x95\x01" + b"\0" * 7 + b"N.",
    "a frame that ends within an opcode": b"\x80\x04\x95\x02" + b"\0" * 7 + b"X\x01\0\0\0a.",
    "a frame beyond the end": b"\x80\x04\x95\x09" + b"\0" * 7 + b"N.",
    "a protocol to come": b"\x80\x06N.",
    "no opcode": b"\x80\x04N\xff.",
    "a number with blanks": b"I 1\n.",
    "a number with underscores": b"F1_0\n.",
    "an octal number": b"I010\n.",
    "a line without an end": b"I1",
    "text without quotes": b"Sabc\n.",
    "an escape that ends early": b"S'\\x1'\n.",
    "half a character": b"\x8c\x01\xff.",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_pickle_is_an_error_and_a_finding_with_its_place(content):
    audited = found(content)
    assert isinstance(audited.error, MalformedError)
    assert audited.findings[-1].rule == "malformed-pickle"
    assert audited.findings[-1].place.startswith("x:opcode ")
    with pytest.raises(MalformedError):
        loaded(content)


def tower(push, wrap, height):
    return push * height + b"N" + wrap * height + b"."


BOMBS = {
    "a memo place of 2**31": b"Nr" + struct.pack("<I", 1 << 31) + b".",
    "text of 2**62 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".",
    "lists in lists": tower(b"(", b"l", 100_000),
    "tuples in tuples": b"N" + b"\x85" * 200_000 + b".",
    "dictionaries in dictionaries": tower(b"(N", b"d", 100_000),
    "calls of calls": tower(b"cbuiltins\nlist\n", b"\x85R", 20_000),
    "doubled tuples as a key": b"})" + b"2\x86" * 80 + b"Ns.",
    "doubled tuples in a set": b"\x80\x04\x8f()" + b"2\x86" * 80 + b"\x90.",
    "doubled tuples in a frozenset": b"\x80\x04()" + b"2\x86" * 80 + b"\x91.",
    "doubled tuples in a call of set": b"cbuiltins\nset\n](" + b")" + b"2\x86" * 80 + b"e\x85R.",
    "doubled tuples in a Counter": b"ccollections\nCounter\n}" + b")" + b"2\x86" * 80 + b"Ns\x85R.",
    "doubled lists": b"]" + b"".join(b"q%c](h%ch%ce" % (i, i, i) for i in range(60)) + b".",
    "deep tuples as a key": b"}N" + b"\x85" * 50_000 + b"Ns.",
    "numbers with one hash": b"}("
    + b"".join(b"\x8a\x0a" + (i * sys.hash_info.modulus).to_bytes(10, "little") + b"N" for i in range(20_000))
    + b"u.",
}


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_a_limit_that_takes_neither_work_nor_memory(content):
    content = b"\x80\x04" + content if content[:1] != b"\x80" else content
    with memory() as measured:
        audited = found(content)
        assert isinstance(audited.error, LimitExceededError)
        assert audited.findings[-1].verdict == "not checked"
        with pytest.raises(LimitExceededError):
            loaded(content)
        del audited
    assert measured.used < 64 * MIB
    assert calls(lambda: found(content)) < 10 * len(content) + 20_000


@pytest.mark.parametrize(
    "content", [b"\x80\x04(" + b"]" * 2_000_000 + b"l.", b"\x80\x04" + b"(" * 2_000_000], ids=["lists", "marks"]
)
def test_millions_of_objects_are_given_up_long_before_the_last(content):
    """Memory is so much an object, and how many there were tells the error."""
    for look in (lambda: found(content).error, lambda: loaded(content)):
        with pytest.raises(LimitExceededError, match="more objects than there are in an honest pickle") as caught:
            raise look()
        assert int(re.search(r"at (\d+)", str(caught.value))[1]) < len(content) // 3


def test_sharing_is_no_bomb():
    shared = ("a", (1, 2))
    value = {(shared, index): [shared] for index in range(100)}
    assert loaded(pickle.dumps(value)) == value


def test_large_payloads_are_not_copied_in_the_first_pass():
    content = pickle.dumps({"a": b"x" * 50_000_000, "b": "y" * 10_000_000})
    view = memoryview(content)
    with memory() as measured:
        audited = audit(view, where="x")
    assert isinstance(audited.root.get("a"), inert.Span)
    assert len(audited.root.get("a")) == 50_000_000
    assert measured.used < 10 * MIB


def test_names_of_python_2_are_todays_before_they_are_decided_on():
    assert found(b"ccommands\ngetoutput\n.").findings[0].subject == "subprocess.getoutput"
    assert found(b"c__builtin__\nxrange\n(I3\ntR.").findings == ()
    assert found(b"\x80\x03c__builtin__\nset\n]\x85R.").findings[0].subject == "__builtin__.set"
    assert loaded(b"ccopy_reg\n_reconstructor\n(c%s\nMine\nc__builtin__\nobject\nNtR." % __name__.encode(), "Mine")


def test_text_of_python_2_is_latin_1():
    assert loaded(b"\x80\x02U\x02\xe9a.") == "éa"
    assert loaded(b"S'\\xe9\\n\\'\\101'\n.") == "é\n'A"


@given(content=st.binary(max_size=80), start=st.sampled_from([b"", b"\x80\x04", b"\x80\x02](", b"(c"]))
def test_any_bytes_end_in_an_audit_and_in_a_value_or_an_error_of_ours(content, start):
    found(start + content)
    try:
        loaded(start + content)
    except VitrifyError:
        return


class Renamed(Dialect):
    def rename(self, module, name):
        return (__name__, "Mine") if module == "old.place" else None


def test_a_dialect_renames_before_the_decision():
    content = pickle.dumps(Mine()).replace(f"\x8c{chr(len(__name__))}{__name__}".encode(), b"\x8c\x09old.place")
    content = content[:2] + content[11:]  # without its frame, which is shorter now
    audited = audit(memoryview(content), where="x", dialect=Renamed())
    assert audited.untrusted == (f"{__name__}.Mine",)
    assert type(loaded(content, "Mine", dialect=Renamed())) is Mine


class Made(Dialect):
    constructors = {"far.away.make": lambda *parts: ["made", *parts]}
    refers = frozenset({"far.away.make"})


def test_a_constructor_of_ours_stands_in_and_its_name_is_not_imported():
    content = b"cfar.away\nmake\n(K\x01tR."
    assert found(content).untrusted == ("far.away.make",)
    assert loaded(content, dialect=Made()) == ["made", 1]
    assert loaded(b"cfar.away\nmake\n.", dialect=Made()) is Made.constructors["far.away.make"]


class Stored(Dialect):
    def persistent(self, pid):
        return inert.Opaque("stored") if isinstance(pid[1], inert.Global) else ("live", *pid)


def test_persistent_ids_are_the_dialects():
    content = b"(\x8c\x01acbuiltins\nint\ntQ."
    assert isinstance(audit(memoryview(content), where="x", dialect=Stored()).root, inert.Opaque)
    assert loaded(content, dialect=Stored()) == ("live", "a", int)


class Followed(Dialect):
    """After each BUILD come four bytes, or another pickle where the state says so."""

    def built(self, instance, state, view, at):
        if state.get("nested"):
            return Nested(lambda value: [value]), at
        return bytes(view[at : at + 4]), at + 4


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_dialect_reads_what_lies_between_the_opcodes(protocol):
    start = b"\x80" + bytes([protocol]) + f"(c{__name__}\nMine\n)\x81".encode("latin1")
    plain = start + b"}U\x06nestedI00\nsb" + b"\xff.\xffR" + b"K\x02t."
    assert loaded(plain, "Mine", dialect=Followed()) == (b"\xff.\xffR", 2)
    nested = start + b"}U\x06nestedI01\nsb" + pickle.dumps([1, {"a": 2}], 4) + b"K\x02t."
    assert loaded(nested, "Mine", dialect=Followed()) == ([[1, {"a": 2}]], 2)
    hidden = start + b"}U\x06nestedI01\nsb" + b"cos\nsystem\n." + b"K\x02t."
    assert "os.system" in audit(memoryview(hidden), where="x", dialect=Followed()).untrusted


def test_a_dialect_migrates_a_state():
    class Older(Dialect):
        def migrate(self, cls, state):
            return {"new": state["old"]} if cls == f"{__name__}.Mine" else state

    mine = Mine()
    mine.old = 3
    assert vars(loaded(pickle.dumps(mine), "Mine", dialect=Older())) == {"new": 3}


def test_a_native_model_is_loaded_only_where_something_checks_it():
    content = b"cxgboost.core\nBooster\n)\x81}U\x06handle\x96" + struct.pack("<Q", 3) + b"abcsb."
    assert found(content).findings == ()
    with pytest.raises(MalformedError, match="cannot be checked"):
        loaded(content)


def test_a_state_is_set_by_the_class_and_never_by_the_instance():
    """CPython asks the instance for ``__setstate__``; here its attributes cannot have one."""
    mine = Mine()
    vars(mine)["__setstate__"] = print
    assert sorted(rules(pickle.dumps(mine))) == ["dunder-state", "untrusted-global", "untrusted-global"]


def test_refusing_lists_everything_at_once():
    with pytest.raises(UntrustedCodeError) as caught:
        loaded(pickle.dumps([Mine(), Keyed(), pytest.raises]))
    assert caught.value.names == (f"{pytest.raises.__module__}.raises", f"{__name__}.Keyed", f"{__name__}.Mine")


def test_a_constructor_that_fails_is_an_error_with_the_versions_that_wrote_it():
    mine = Mine()
    mine._sklearn_version = "0.19"
    content = pickle.dumps([mine], 2)[:-2] + b"cbuiltins\nint\n(U\x01xtRa."
    with pytest.raises(MalformedError, match="ValueError") as caught:
        loaded(content, "Mine")
    assert "sklearn 0.19" in caught.value.remedy


def test_both_unpicklers_agree_on_what_this_one_reads():
    value = [Keyed(a=[1]), {"b": (2, {3})}, "x" * 5000]
    for protocol in range(6):
        content = pickle.dumps(value, protocol)
        assert loaded(content, "Keyed") == pickle.load(io.BytesIO(content))
