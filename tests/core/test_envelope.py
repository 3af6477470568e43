"""Envelopes and the JSON that is signed: bounded, and read in one way only."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.attestation import ATTESTATION_TYPE
from vitrify.core.digest import Digest
from vitrify.core.envelope import Envelope, EnvelopeSignature, read_statement, unbase64
from vitrify.core.errors import MalformedError
from vitrify.core.strict import strict_json

STATEMENT = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": "a", "digest": {"sha256": "0" * 64}}],
    "predicateType": "urn:x:y",
    "predicate": {},
}


def envelope(said=STATEMENT, /, **changes):
    text = base64.b64encode(json.dumps(said).encode()).decode()
    raw = {"payload": text, "payloadType": ATTESTATION_TYPE, "signatures": [{"sig": "AAAA", "keyid": "k"}], **changes}
    return json.dumps(raw).encode()


@given(st.binary(), st.text(min_size=1, max_size=50), st.lists(st.tuples(st.text(max_size=9), st.binary()), min_size=1))
def test_an_envelope_is_read_as_it_was_written(payload, payload_type, signatures):
    made = Envelope.of(payload, payload_type, signatures[:64])
    read = Envelope.read(made.to_json(), where="envelope")
    assert read == made
    assert read.content == payload
    assert [(signature.keyid, signature.content) for signature in read.signatures] == signatures[:64]


@given(st.binary(min_size=1))
def test_both_alphabets_of_base64_are_read_and_their_mixture_is_not(data):
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert unbase64(encode(data).decode(), what="payload") == data
    with pytest.raises(MalformedError):
        unbase64("-/-/", what="payload")


@pytest.mark.parametrize("text", ["A", "AA", "AB==", "A===", "AAAA\n", " AAAA", "AAAA====", "AA==AAAA", "ä"])
def test_base64_has_one_spelling(text):
    with pytest.raises(MalformedError, match="base64"):
        unbase64(text, what="payload")


@pytest.mark.parametrize(
    "changes",
    [
        {"signatures": []},
        {"signatures": [{"sig": "AAAA"}] * 65},
        {"signatures": [{"sig": "A" * 8196}]},
        {"signatures": [{"sig": "AAAA", "keyid": "k" * 1025}]},
        {"signatures": [{"keyid": "k"}]},
        {"signatures": {}},
        {"payloadType": ""},
        {"payloadType": "x" * 1025},
        {"payloadType": None},
        {"payload": "?"},
        {"payload": 1},
    ],
)
def test_what_is_out_of_bounds_is_malformed(changes):
    with pytest.raises(MalformedError, match="thing"):
        Envelope.read(envelope(**changes), where="thing")


def test_a_field_that_this_version_does_not_know_survives():
    data = envelope(signatures=[{"sig": "AAAA", "cert": "x"}], more={"a": [1]})
    assert json.loads(Envelope.read(data, where="envelope").to_json()) == json.loads(data)


def test_a_signature_without_a_key_id_has_an_empty_one():
    assert EnvelopeSignature(sig="AAAA").keyid == ""


def test_a_statement_is_read_plain_and_out_of_an_envelope():
    plain, nobody = read_statement(json.dumps(STATEMENT).encode(), where="attestation")
    wrapped, around = read_statement(envelope(), where="attestation")
    assert plain == wrapped
    assert nobody is None
    assert around.signatures[0].keyid == "k"
    assert plain.is_about(Digest("0" * 64))
    assert not plain.is_about(Digest("1" * 64))
    assert not plain.is_about(Digest("0" * 64, "sha512"))


@pytest.mark.parametrize(
    "data",
    [
        envelope(**STATEMENT),
        envelope(_type=STATEMENT["_type"]),
        json.dumps({**STATEMENT, "signatures": []}).encode(),
        envelope(payloadType="application/json"),
        envelope([]),
        envelope({}),
        envelope({**STATEMENT, "subject": None}),
        b"[]",
        b"1",
        b"",
    ],
)
def test_what_is_neither_or_could_be_both_is_malformed(data):
    with pytest.raises(MalformedError, match="thing"):
        read_statement(data, where="thing")


@pytest.mark.parametrize("data", [b'{"a":1,"a":1}', b'{"b":{"a":1,"x":0,"a":2}}', b'[{"\\u0061":1,"a":2}]'])
def test_a_name_twice_is_malformed_wherever_it_stands(data):
    with pytest.raises(MalformedError, match="'a' stands twice"):
        strict_json(data, where="thing")


@pytest.mark.parametrize(
    "data", [b"NaN", b"{'a':1}", b"[1,]", b"\xef\xbb\xbf{}", b"[" * 600 + b"]" * 600, b'"\xff"', b'"\\ud800"']
)
def test_what_parsers_differ_about_is_malformed(data):
    with pytest.raises(MalformedError):
        strict_json(data, where="thing")


def test_a_document_is_bounded_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr("vitrify.core.strict.MAX_DOCUMENT_BYTES", 10)
    with pytest.raises(MalformedError, match="more than the limit"):
        strict_json(b"[1,2,3,4,5,6]", where="thing")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_json_with_one_meaning_is_read_as_it_is(value):
    assert strict_json(json.dumps(value).encode(), where="thing") == value
