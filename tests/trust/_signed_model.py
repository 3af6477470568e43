"""What the tests of a directory's signature share: two keys, ways to damage a model, ways to forge a signature file."""

from __future__ import annotations

import base64
import json
import os

from vitrify.trust import dsse
from vitrify.trust._bundle import Bundle
from vitrify.trust.keys import PrivateKey

KEY = PrivateKey.generate("ecdsa-p256")
OTHER = PrivateKey.generate("ecdsa-p256")


def rules(report):
    return [(finding.rule, finding.place) for finding in report.findings]


def forge(signature, change, *, signer=KEY, raw=None):
    """Write a signature file again whose statement was changed, signed by whoever signs."""
    bundle = json.loads(signature.read_text())
    payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    change(payload)
    data = raw(payload) if raw else json.dumps(payload).encode()
    envelope = dsse.sign(data, "application/vnd.in-toto+json", [signer])
    signature.write_bytes(Bundle.of(envelope, signer.public).to_json())


def edit(signature, change):
    """Change a signature file and sign nothing."""
    bundle = json.loads(signature.read_text())
    change(bundle)
    signature.write_text(json.dumps(bundle))


def link(model):
    (model / "weights.bin").rename(model.parent / "weights.bin")
    (model / "weights.bin").symlink_to(model.parent / "weights.bin")


def link_folder(model):
    (model / "tokenizer").rename(model.parent / "tokenizer")
    (model / "tokenizer").symlink_to(model.parent / "tokenizer")


def pipe(model):
    os.mkfifo(model / "pipe")
