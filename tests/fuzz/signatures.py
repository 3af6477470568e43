"""Readers of what is signed: DSSE envelopes, OpenSSF model signatures, public keys.

Whatever is done to them, what verifies is what was signed.
"""

from __future__ import annotations

import base64
import functools
import json

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256

from fuzz import _change
from fuzz._layers import STRANGE, through
from fuzz._run import Case
from vitrify.core.attestation import ATTESTATION_TYPE
from vitrify.core.digest import Digest
from vitrify.core.envelope import Envelope, read_statement
from vitrify.core.errors import ForgedError, MalformedError, UsageError
from vitrify.trust import _bundle, dsse
from vitrify.trust.evidence import evidence_of
from vitrify.trust.keys import PrivateKey, PublicKey
from vitrify.trust.statement import statement

SAID = statement(Digest.of(b"model"), "urn:fuzz:said:v1", {"verdict": "found", "list": [1, {"a": None}]})
FILES = {"a": "ab" * 32, "b/c": "cd" * 32}
WORDS = (
    *b'{ } [ ] " , : null "sig" "keyid" "" == \\u0041 Statement/v0.1 ../ .'.split(b" "),
    b'"payload":"",',
    b'"_type":1,',
)


class _Same:
    """A P-256 key whose signatures do not depend on chance (RFC 6979), so that an input can be made again."""

    _key = ec.derive_private_key(2**200 + 7, ec.SECP256R1())
    public = PublicKey.of(_key.public_key())
    keyid, algorithm = public.keyid, public.algorithm

    def sign(self, data):
        return self._key.sign(data, ec.ECDSA(SHA256(), deterministic_signing=True))


KEYS = (PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))), _Same())
PUBLIC = tuple(key.public for key in KEYS)


@functools.cache
def seeds(*, quick=False):
    del quick
    both = dsse.sign(SAID.to_json(), ATTESTATION_TYPE, KEYS).to_json()
    resources = tuple(_bundle.Resource(name=name, algorithm="sha256", digest=digest) for name, digest in FILES.items())
    payload = _bundle.statement("m", resources, [".git"]).to_json()
    bundle = _bundle.Bundle.of(dsse.sign(payload, ATTESTATION_TYPE, KEYS[1:]), PUBLIC[1]).to_json()
    return [
        Case("envelope", {"statement.json": both}),
        Case("envelope", {"statement.json": SAID.to_json()}),
        Case("bundle", {"model.sig": bundle}),
        *(Case("key", {"key.pub": key.pem}) for key in PUBLIC),
    ]


def change(case, honest, chance):
    [(name, data)] = case.files.items()
    if case.kind != "key" and chance.random() < 0.3:
        return Case(case.kind, {name: _payload(data, chance)})
    if chance.random() < 0.1:
        others = [one for other in honest for one in other.files.values()]
        return Case(case.kind, {name: _change.spliced(data, chance.choice(others), chance)})
    return Case(case.kind, {name: through(data, chance, lambda inner: _change.changed(inner, chance, WORDS))})


def _payload(data, chance):
    """Change what is inside the base64, or a field of the envelope, and leave the rest as it is."""
    raw = json.loads(data)
    envelope = raw.get("dsseEnvelope", raw)
    if "payload" not in envelope or chance.random() < 0.3:
        envelope[chance.choice(list(envelope))] = chance.choice(STRANGE)
    else:
        inner = base64.b64decode(envelope["payload"])
        changed = through(inner, chance, lambda part: _change.changed(part, chance, WORDS))
        envelope["payload"] = base64.b64encode(changed).decode()
    return json.dumps(raw).encode()


def check(case):
    [data] = case.files.values()
    try:
        return CHECKS[case.kind](data)
    except (MalformedError, UsageError, ForgedError):
        return False


def _envelope(data):
    evidence = evidence_of(data, PUBLIC)
    if evidence.signers:
        assert evidence.attestation == SAID
        assert set(evidence.signers) <= {key.keyid for key in PUBLIC}
    again, envelope = read_statement(data, where="x")
    assert again == evidence.attestation
    assert envelope is None or Envelope.read(envelope.to_json(), where="x").content == envelope.content
    return True


def _model_signature(data):
    bundle = _bundle.read(data, where="x")
    envelope = bundle.dsse_envelope
    signers = dsse.verify(envelope, PUBLIC)
    if signers:
        assert signers == (PUBLIC[1].keyid,)
        assert _bundle.read_signed(envelope.content, envelope.payload_type, where="x").files == FILES
    else:  # nobody vouches for it: it is read all the same, because its reader must stand whatever a signer writes
        _bundle.read_signed(envelope.content, envelope.payload_type, where="x")
    return True


def _public_key(data):
    key = PublicKey.load(data)
    assert PublicKey.load(key.pem) == key
    try:
        key.verify(b"x", bytes(64))
    except ForgedError:
        return True
    raise AssertionError(data)


CHECKS = {"envelope": _envelope, "bundle": _model_signature, "key": _public_key}
