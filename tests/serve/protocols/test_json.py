"""JSON taken apart: members as text, names once, and the tokens that are no JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.serve.protocols import _json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_members_are_the_text_of_what_they_hold(value):
    text = json.dumps(value).encode()
    found = _json.request(text)
    assert list(found) == list(value)
    named = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    for name, raw in found.items():
        assert repr(_unnamed(json.loads(bytes(raw)), named)) == repr(_unnamed(value[name], named))


def _unnamed(value, named):
    if isinstance(value, list):
        return [_unnamed(one, named) for one in value]
    if isinstance(value, dict):
        return {name: _unnamed(one, named) for name, one in value.items()}
    return named.get(value, value) if isinstance(value, str) else value


@given(VALUES)
def test_loose_json_is_what_python_writes(value):
    assert repr(_json.loose(json.dumps(value).encode())) == repr(value)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b"[NaN,-Infinity,Infinity]", b'["NaN","-Infinity","Infinity"]'),
        (b'["NaN", "a\\"NaN", NaN]', b'["NaN", "a\\"NaN", "NaN"]'),
        (b'{"Infinity": Infinity}', b'{"Infinity": "Infinity"}'),
        (b'["NaN', b'["NaN'),
    ],
)
def test_tokens_are_quoted_outside_of_strings_only(text, quoted):
    unchanged = text == quoted
    assert unchanged or json.loads(_json.quote_constants(text)) == json.loads(quoted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":1,"a":2}', "the body: the name 'a' stands twice"),
        (b'{"a":1,"\\u0061":2}', "the name 'a' stands twice"),
        (b"1", "the body: expected an object"),
        (b"", "the body: not valid JSON"),
        (b'{"a":}', "not valid JSON"),
        (b'{"a":1}x', "not valid JSON"),
        (b'{"\xff":1}', "the body"),
        (b'{"a":Nan}', "not valid JSON"),
    ],
)
def test_what_is_no_object_is_refused(text, message):
    with pytest.raises(MalformedError, match=message):
        _json.request(text)


def test_an_array_of_too_many_objects_is_refused():
    assert [list(one) for one in _json.objects(b'[{"a":[1,2,3,4]},{}]', "x", 2)] == [["a"], []]
    with pytest.raises(LimitExceededError, match="x: 3 objects, at most 2"):
        _json.objects(b"[{},{},{}]", "x", 2)
    with pytest.raises(MalformedError, match=r"x\[1\]: the name 'a' stands twice"):
        _json.objects(b'[{},{"a":1,"a":1}]', "x", 2)


def test_too_many_members_are_refused_while_they_are_read(monkeypatch):
    monkeypatch.setattr(_json, "MOST_MEMBERS", 3)
    assert len(_json.members(b'{"a":1,"b":2,"c":3}', "x")) == 3
    with pytest.raises(LimitExceededError, match="x: more than 3 members"):
        _json.members(b'{"a":1,"b":2,"c":3,"d":4}', "x")


@pytest.mark.parametrize("reader", [_json.loose, lambda text: _json.plain(text, "the body")])
def test_too_many_arrays_are_refused_before_there_is_one(monkeypatch, reader):
    monkeypatch.setattr(_json, "MOST_CONTAINERS", 4)
    assert reader(b"[[],[],{}]") == [[], [], {}]
    with pytest.raises(LimitExceededError, match="more than 4 arrays and objects"):
        reader(b"[[],[],{},{}]")


@pytest.mark.parametrize("text", [b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"1" + b"}" * 65])
@pytest.mark.parametrize("reader", [_json.request, _json.loose])
def test_deep_nesting_is_refused_before_it_is_read(text, reader):
    with pytest.raises(LimitExceededError, match="nested more than 64 levels deep"):
        reader(text)


@given(st.binary(max_size=30) | st.text(alphabet='{}[]:,"aNaInfity-1.e\\ ').map(str.encode))
def test_any_bytes_are_json_or_an_error(text):
    for reader in (_json.request, _json.loose):
        try:
            reader(text)
        except MalformedError as error:
            said = str(error)
        else:
            continue
        assert "the body" in said
