"""The engine of PFA: the language's forms, its types, its errors and its bounds, as the specification has them."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError, VitrifyError
from vitrify.runtimes._pfa.engine import Engine
from vitrify.runtimes._pfa.types import PfaError

DOUBLES = {"type": "array", "items": "double"}
INTS = {"type": "array", "items": "int"}
TABLE = {"type": "map", "values": "int"}
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "double"}, {"name": "tags", "type": TABLE}],
}


def engine(action, given="double", gives="double", **more):
    return Engine({"input": given, "output": gives, "action": action, **more}, steps=100_000)


def answer(action, row=0.0, given="double", gives="double", **more):
    return engine(action, given, gives, **more).run(row)


def code(action, row=0.0, given="double", gives="double", **more):
    with pytest.raises(PfaError) as caught:
        answer(action, row, given, gives, **more)
    return caught.value.code


def test_symbols_are_declared_changed_and_seen_in_inner_blocks():
    action = [{"let": {"x": 2}}, {"do": [{"set": {"x": {"+": ["x", 1]}}}, {"let": {"y": 5}}]}, "x"]
    assert answer(action, gives="int") == 3


@pytest.mark.parametrize(
    "action",
    [
        "unknown",
        [{"let": {"x": 1}}, {"let": {"x": 2}}, "x"],
        {"foreach": ["x"], "in": {"type": DOUBLES, "value": []}, "do": 1},
        [{"do": [{"let": {"x": 1}}]}, "x"],
        [{"set": {"x": 1}}, "input"],
        [{"let": {"x": 1}}, {"set": {"x": ["text"]}}, "input"],
        [{"let": {"x": 1}}, {"a.map": [[1], {"params": [], "ret": "int", "do": 1}]}, "input"],
        {"+": ["input", ["text"]]},
        {"a": 1, "b": 2},
        {"if": 1, "then": 2, "else": 3},
        {"attr": "input", "path": [1]},
        {"new": {"x": 1.0}, "type": "Nothing"},
        {"cast": "input", "cases": [{"as": "int", "named": "i", "do": 1}]},
        {"u.missing": 1},
        [],
        {"do": []},
        {"let": {}},
        1 << 70,
    ],
)
def test_what_does_not_fit_its_type_is_refused_before_it_runs(action):
    with pytest.raises(MalformedError):
        engine(action)


def test_an_inline_function_sees_what_is_around_it_and_may_not_change_it():
    body = {"params": [{"x": "double"}], "ret": "double", "do": {"+": ["x", "shift"]}}
    array = {"new": ["input", 2.0], "type": DOUBLES}
    assert answer([{"let": {"shift": 10.0}}, {"a.map": [array, body]}], 1.0, gives=DOUBLES) == [11.0, 12.0]
    body = {**body, "do": [{"set": {"shift": 0.0}}, "x"]}
    with pytest.raises(MalformedError, match="shift"):
        engine([{"let": {"shift": 10.0}}, {"a.map": [array, body]}], gives=DOUBLES)


def test_own_functions_call_each_other_and_may_be_passed_with_some_arguments():
    fcns = {
        "even": {"params": [{"n": "int"}], "ret": "boolean", "do": _parity(other="odd", end=True)},
        "odd": {"params": [{"n": "int"}], "ret": "boolean", "do": _parity(other="even", end=False)},
        "scaled": {"params": [{"by": "double"}, {"x": "double"}], "ret": "double", "do": {"*": ["by", "x"]}},
    }
    assert answer({"u.even": 10}, gives="boolean", fcns=fcns) is True
    action = {"a.map": ["input", {"fcn": "u.scaled", "fill": {"by": 3}}]}
    assert answer(action, [1.0, 2.0], DOUBLES, DOUBLES, fcns=fcns) == [3.0, 6.0]


def _parity(*, other, end):
    return {"if": {"==": ["n", 0]}, "then": end, "else": {f"u.{other}": {"-": ["n", 1]}}}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({"if": {">": ["input", 0]}, "then": 1, "else": 2}, 1),
        (
            {
                "cond": [{"if": {">": ["input", 9]}, "then": 1}, {"if": {">": ["input", 0]}, "then": 2}],
                "else": 3,
            },
            2,
        ),
        ([{"let": {"n": 0}}, {"while": {"<": ["n", 5]}, "do": {"set": {"n": {"+": ["n", 2]}}}}, "n"], 6),
        ([{"let": {"n": 0}}, {"do": {"set": {"n": {"+": ["n", 2]}}}, "until": {">": ["n", 0]}}, "n"], 2),
        (
            [
                {"let": {"n": 0}},
                {
                    "for": {"i": 0},
                    "while": {"<": ["i", 4]},
                    "step": {"i": {"+": ["i", 1]}},
                    "do": {"set": {"n": {"+": ["n", "i"]}}},
                },
                "n",
            ],
            6,
        ),
        (
            [
                {"let": {"n": 0}},
                {
                    "foreach": "x",
                    "in": {"type": INTS, "value": [3, 4]},
                    "do": {"set": {"n": {"+": ["n", "x"]}}},
                    "seq": True,
                },
                "n",
            ],
            7,
        ),
        (
            [
                {"let": {"n": 0}},
                {
                    "forkey": "k",
                    "forval": "v",
                    "in": {"type": TABLE, "value": {"a": 1, "bb": 2}},
                    "do": {"set": {"n": {"+": ["n", {"+": ["v", {"s.len": ["k"]}]}]}}},
                },
                "n",
            ],
            6,
        ),
        ({"ifnotnull": {"x": {"try": {"error": "no"}}}, "then": "x", "else": 7}, 7),
        ({"ifnotnull": {"x": {"try": {"+": [1, 1]}}}, "then": "x", "else": 7}, 2),
        ({"do": [{"doc": "text"}, {"log": ["input"]}, 5]}, 5),
        ({"upcast": 3, "as": "int"}, 3),
    ],
)
def test_choices_and_loops_give_what_the_specification_says(action, expected):
    assert answer(action, 1.0, gives="int") == expected


def test_a_union_is_told_apart_by_its_members():
    cases = [
        {"as": "string", "named": "s", "do": {"s.len": "s"}},
        {"as": "int", "named": "i", "do": {"*": ["i", 10]}},
        {"as": "null", "named": "n", "do": -1},
    ]
    asked = engine({"cast": "input", "cases": cases}, ["null", "string", "int"], "int")
    assert [asked.run(row) for row in ("abc", 4, None)] == [3, 40, -1]


def test_parts_are_read_and_replaced_without_changing_what_was_there():
    row = {"x": 1.5, "tags": {"a": 1}}
    tags = {"attr": "input", "path": [["tags"], ["a"]]}
    assert answer(tags, row, POINT, "int") == 1
    changed = engine(
        {**tags, "to": {"params": [{"old": "int"}], "ret": "int", "do": {"+": ["old", 1]}}}, POINT, "Point"
    )
    assert changed.run(row) == {"x": 1.5, "tags": {"a": 2}}
    assert row == {"x": 1.5, "tags": {"a": 1}}


def test_a_place_that_is_not_there_has_its_code():
    assert code({"attr": "input", "path": [5]}, [1.0], DOUBLES) == 2000
    assert code({"attr": "input", "path": [-1]}, [1.0], DOUBLES) == 2000
    assert code({"attr": "input", "path": [["k"]]}, {}, TABLE, "int") == 2001


def test_a_cell_remembers_until_the_engine_is_reset():
    count = {"cell": "n", "to": {"params": [{"n": "int"}], "ret": "int", "do": {"+": ["n", 1]}}}
    asked = engine(count, gives="int", cells={"n": {"type": "int", "init": 0}})
    assert asked.stateful
    assert [asked.run(0.0), asked.run(0.0)] == [1, 2]
    asked.reset()
    assert asked.run(0.0) == 1


def test_a_pool_keeps_an_item_for_each_key_and_lets_it_go():
    add = {"params": [{"n": "int"}], "ret": "int", "do": {"+": ["n", 1]}}
    action = [
        {"pool": "seen", "path": ["input"], "to": add, "init": 1},
        {"if": {"==": ["input", ["x"]]}, "then": {"pool": "seen", "del": ["y"]}},
        {"pool": "seen", "path": ["input"]},
    ]
    asked = engine(action, "string", "int", pools={"seen": {"type": "int"}})
    assert [asked.run(key) for key in ("y", "y", "x", "y")] == [1, 2, 1, 1]


def test_begin_runs_before_the_first_row():
    begin = {"cell": "n", "to": 41}
    assert answer({"cell": "n"}, gives="int", cells={"n": {"type": "int", "init": 0}}, begin=begin) == 41


def test_an_error_of_the_document_has_its_text_and_code_and_is_caught_by_either():
    assert code({"error": "wrong", "code": -3}) == -3
    failing = {"error": "wrong", "code": -3}
    for only in (["wrong"], [-3], None):
        tried = {"try": failing} if only is None else {"try": failing, "filter": only}
        assert answer({"ifnotnull": {"x": tried}, "then": "x", "else": 1.0}) == 1.0
    with pytest.raises(PfaError):
        answer({"ifnotnull": {"x": {"try": failing, "filter": ["other"]}}, "then": "x", "else": 1.0})


def test_whole_numbers_that_become_too_large_are_errors_and_real_ones_are_infinite():
    most = (1 << 31) - 1
    assert code({"+": [most, 1]}, gives="int") == 18000
    assert code({"*": [(1 << 62), 4]}, gives="long") == 18021
    assert code({"//": [1, 0]}, gives="int") == 18040
    assert answer({"*": [1e308, 10.0]}) == math.inf
    assert math.isnan(answer({"/": [0, 0]}))
    assert answer({"/": [-1, 0]}) == -math.inf


def test_a_float_is_rounded_after_every_operation():
    third = {"cast.float": {"/": [1, 3]}}
    assert answer({"+": [third, third]}, gives="float") == pytest.approx(2 / 3, rel=1e-7)
    assert answer({"+": [third, third]}, gives="float") != 2 / 3
    assert answer({"*": [{"float": 3e38}, {"float": 10}]}, gives="float") == math.inf


def test_logic_stops_where_it_is_decided_and_knows_null():
    never = {"<": [{"error": "asked"}, 1]}
    assert answer({"&&": [False, never]}, gives="boolean") is False
    assert answer({"||": [True, never]}, gives="boolean") is True
    maybe = ["null", "boolean"]
    assert answer({"&&&": [None, False]}, gives=maybe) is False
    assert answer({"&&&": [None, True]}, gives=maybe) is None
    assert answer({"|||": [None, True]}, gives=maybe) is True


def test_a_loop_without_an_end_is_stopped():
    with pytest.raises(LimitExceededError, match="steps"):
        answer([{"while": True, "do": {"let": {"x": 1}}}, "input"])
    grow = [{"let": {"s": ["x"]}}, {"while": True, "do": {"set": {"s": {"s.concat": ["s", "s"]}}}}, "input"]
    with pytest.raises(LimitExceededError):
        answer(grow)


def test_a_function_that_calls_itself_without_an_end_is_stopped():
    fcns = {"f": {"params": [{"x": "double"}], "ret": "double", "do": {"+": [1, {"u.f": "x"}]}}}
    with pytest.raises(LimitExceededError, match="itself"):
        answer({"u.f": "input"}, fcns=fcns)


def test_everything_that_the_engine_lacks_is_listed_at_once():
    document = {
        "method": "fold",
        "cells": {"far": {"type": "int", "source": "avro", "init": "file.avro"}},
        "fcns": {"f": {"params": [], "ret": "double", "do": {"rand.gaussian": [0, 1]}}},
    }
    with pytest.raises(UnsupportedModelError) as caught:
        engine({"+": [{"stat.change.updateCUSUM": [1]}, {"unpack": "input", "format": []}]}, **document)
    assert [one.place for one in caught.value.problems][:2] == ["method", "cells.far"]
    assert len(caught.value.problems) == 5
    assert all(one.remedy for one in caught.value.problems)


def test_a_named_type_may_be_used_before_it_is_declared_but_not_declared_differently():
    cells = {"p": {"type": POINT, "init": {"x": 1.0, "tags": {}}}}
    assert answer({"cell": "p"}, gives="Point", cells=cells) == {"x": 1.0, "tags": {}}
    other = {"type": "record", "name": "Point", "fields": []}
    with pytest.raises(MalformedError, match="twice"):
        engine({"new": {}, "type": other}, POINT, "Point")


def test_a_cell_whose_content_is_not_of_its_type_is_refused():
    for init in (1.5, "text", None, 1 << 40, [1]):
        with pytest.raises((MalformedError, PfaError)):
            engine(0.0, cells={"n": {"type": "int", "init": init}})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["input", "x", "double", "a", "Point"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "let",
                        "set",
                        "do",
                        "if",
                        "then",
                        "else",
                        "while",
                        "until",
                        "attr",
                        "path",
                        "to",
                        "cell",
                        "pool",
                        "new",
                    ),
                    *(
                        "type",
                        "value",
                        "cast",
                        "cases",
                        "as",
                        "named",
                        "try",
                        "filter",
                        "error",
                        "params",
                        "ret",
                        "fcn",
                        "x",
                    ),
                    *(
                        "+",
                        "==",
                        "<",
                        "a.map",
                        "a.fold",
                        "a.sort",
                        "a.concat",
                        "s.concat",
                        "m.exp",
                        "map.add",
                        "u.f",
                        "&&",
                    ),
                    *("foreach", "in", "for", "step", "forkey", "forval", "ifnotnull", "call", "args", "upcast", "log"),
                    *("model.reg.linear", "model.tree.simpleTree", "metric.euclidean", "**", "items", "values", "name"),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(action=VALUES, extra=VALUES, where=st.sampled_from(["cells", "pools", "fcns", "begin", "input", "output"]))
def test_no_document_raises_anything_but_our_own_errors(action, extra, where):
    document = {"input": "double", "output": "double", "action": action, where: extra}
    with contextlib.suppress(VitrifyError, PfaError):
        Engine(document, steps=2_000).run(1.0)
