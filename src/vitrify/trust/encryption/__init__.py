"""Envelope encryption: an artifact whose weights only its recipients can read.

One random key an artifact encrypts its files (:mod:`.stream`) and is wrapped for each recipient (:mod:`.recipients`).
The result is an OCI artifact like any other: digest, signature, push, copy and hashing need no key. To open it, an
identity is needed, and the files are decrypted in memory only (:mod:`.memory`).

>>> key = generate(Path("me.pem"))                              # doctest: +SKIP
>>> artifacts.encrypt("churn", [key.recipient])                 # doctest: +SKIP
>>> vitrify.load("churn-encrypted", identity="me.pem")          # doctest: +SKIP

It hides content, not names and sizes; and it says nothing about who encrypted it: that is what a signature is for.
"""

from __future__ import annotations

from vitrify.trust.encryption.envelope import ENCRYPTED, SOURCE, SUFFIX, Envelope, Source
from vitrify.trust.encryption.files import SealedFiles, is_encrypted
from vitrify.trust.encryption.keys import generate, identities, public_text, recipient
from vitrify.trust.encryption.recipients import (
    Identity,
    Passphrase,
    Recipient,
    Stanza,
    X25519Identity,
    X25519Recipient,
)

__all__ = [
    "ENCRYPTED",
    "SOURCE",
    "SUFFIX",
    "Envelope",
    "Identity",
    "Passphrase",
    "Recipient",
    "SealedFiles",
    "Source",
    "Stanza",
    "X25519Identity",
    "X25519Recipient",
    "generate",
    "identities",
    "is_encrypted",
    "public_text",
    "recipient",
]
