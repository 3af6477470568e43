"""DSSE: the specification's vectors, and nothing verifies as something that nobody signed."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.envelope import Envelope
from vitrify.core.errors import ForgedError, MalformedError, UsageError
from vitrify.trust import dsse
from vitrify.trust.keys import ALGORITHMS, PrivateKey, PublicKey

KEYS = [PrivateKey.generate(algorithm) for algorithm in ALGORITHMS]
STRANGER = PrivateKey.generate("ed25519")
PUBLIC = [key.public for key in KEYS]
IDS = tuple(sorted(key.keyid for key in KEYS))


@pytest.mark.parametrize(
    ("payload", "payload_type", "expected"),
    [
        (b"hello world", "http://example.com/HelloWorld", b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"),
        (b"", "", b"DSSEv1 0  0 "),
        ("ü".encode(), "ü", b"DSSEv1 2 \xc3\xbc 2 \xc3\xbc"),
        (b"\0 1 x", "a b", b"DSSEv1 3 a b 5 \0 1 x"),
    ],
)
def test_the_encoding_is_that_of_the_specification(payload, payload_type, expected):
    assert dsse.encode(payload, payload_type) == expected


def test_the_signature_of_the_specification_holds():
    """The example of ``implementation/signing_spec.py``: P-256, here its two numbers put into DER."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    key = PublicKey.of(ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key())
    raw = base64.b64decode("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
    signature = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    envelope = Envelope.of(b"hello world", "http://example.com/HelloWorld", [("", signature)])
    assert dsse.verify(envelope, [key]) == (key.keyid,)


@given(st.binary(max_size=300), st.text(min_size=1, max_size=30))
def test_what_was_signed_verifies_by_those_who_signed(payload, payload_type):
    envelope = dsse.sign(payload, payload_type, KEYS)
    read = Envelope.read(envelope.to_json(), where="envelope")
    assert dsse.verify(read, PUBLIC) == IDS
    assert dsse.verify(read, PUBLIC[:1]) == (KEYS[0].keyid,)
    assert dsse.verify(read, [STRANGER.public]) == ()
    assert dsse.verify(read, []) == ()
    assert read.content == payload


def test_a_key_counts_once_however_often_it_signed():
    envelope = dsse.sign(b"x", "t", KEYS[:1])
    twice = envelope.replace(signatures=envelope.signatures * 3)
    assert dsse.verify(twice, [*PUBLIC, *PUBLIC]) == (KEYS[0].keyid,)


def test_a_key_id_is_a_hint_and_no_proof():
    envelope = dsse.sign(b"x", "t", [STRANGER])
    (signature,) = envelope.signatures
    lie = envelope.replace(signatures=(signature.replace(keyid=KEYS[0].keyid),))
    with pytest.raises(ForgedError, match=KEYS[0].keyid):
        dsse.verify(lie, PUBLIC)
    for keyid in ("", "somebody", "SHA256:" + STRANGER.keyid[7:]):
        other = envelope.replace(signatures=(signature.replace(keyid=keyid),))
        assert dsse.verify(other, PUBLIC) == ()
        assert dsse.verify(other, [*PUBLIC, STRANGER.public]) == (STRANGER.keyid,)


def test_one_forged_signature_among_good_ones_is_forged():
    envelope = dsse.sign(b"x", "t", KEYS)
    first, second = envelope.signatures
    lie = envelope.replace(signatures=(first, second.replace(sig=first.sig)))
    with pytest.raises(ForgedError, match=KEYS[1].keyid):
        dsse.verify(lie, PUBLIC)


@pytest.mark.parametrize("change", [{"payload_type": "u"}, {"payload": "eQ=="}, {"payload": ""}])
def test_neither_payload_nor_its_type_can_be_changed(change):
    with pytest.raises(ForgedError):
        dsse.verify(dsse.sign(b"x", "t", KEYS).replace(**change), PUBLIC)


def test_what_moves_between_type_and_payload_is_something_else():
    envelope = dsse.sign(b"b c", "a", KEYS[:1])
    (signature,) = envelope.signatures
    moved = Envelope.of(b"c", "a b", [(signature.keyid, signature.content)])
    with pytest.raises(ForgedError):
        dsse.verify(moved, PUBLIC)


@given(st.data())
def test_no_changed_byte_makes_an_envelope_verify_as_something_else(data):
    whole = bytearray(dsse.sign(b'{"a": 1}', "application/json", KEYS).to_json())
    place = data.draw(st.integers(0, 699)) % len(whole)
    whole[place] ^= data.draw(st.integers(1, 255))
    try:
        envelope = Envelope.read(bytes(whole), where="envelope")
        signers = dsse.verify(envelope, PUBLIC)
    except (MalformedError, ForgedError):
        return
    assert not signers or (envelope.content, envelope.payload_type) == (b'{"a": 1}', "application/json")


@given(st.binary(max_size=200), st.binary(max_size=80))
def test_made_up_signatures_are_never_by_a_known_key(payload, signature):
    assert dsse.verify(Envelope.of(payload, "t", [("", signature)]), PUBLIC) == ()


class _Broken:
    """A hardware module whose memory has a flipped bit."""

    def __init__(self, key):
        self.public, self.keyid, self.algorithm = key.public, key.keyid, key.algorithm

    def sign(self, data):
        signature = bytearray(STRANGER.sign(data))
        signature[-1] ^= 1
        return bytes(signature)


def test_a_signature_that_does_not_hold_is_never_given_away():
    with pytest.raises(ForgedError):
        dsse.sign(b"x", "t", [_Broken(STRANGER)])


@pytest.mark.parametrize("signers", [[], [KEYS[0], KEYS[0]]])
def test_an_envelope_is_by_somebody_and_by_each_once(signers):
    with pytest.raises(UsageError, match="at least one"):
        dsse.sign(b"x", "t", signers)


def test_other_tools_read_the_envelope():
    raw = json.loads(dsse.sign(b"x", "t", KEYS[:1]).to_json())
    assert raw.keys() == {"payload", "payloadType", "signatures"}
    assert raw["payload"] == "eA=="
    assert raw["signatures"][0].keys() == {"keyid", "sig"}
    sigstore = pytest.importorskip("sigstore_models.intoto")
    assert sigstore.Envelope.from_dict(raw).payload == b"x"
