"""The secret that names and marks are derived from: 32 random bytes, in a file as 64 hex digits."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vitrify.core.errors import MalformedError, UsageError
from vitrify.trust._private_file import create, read_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.plan import Step

_BYTES = 32
_TEXT = re.compile(rb"\s*([0-9a-f]{64})\s*")
_held: ContextVar[tuple[ProtectKey, ...]] = ContextVar("vitrify_protect_keys", default=())
"""Keys that steps may use: a step's options are kept as provenance for all to read, so that they only name a key."""


@dataclass(frozen=True)
class ProtectKey:
    """One secret; every use derives a key of its own from it."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what can be guessed.

        Raises:
            UsageError: It has not 32 bytes.
        """
        if len(self.secret) != _BYTES:
            msg = f"a key of {len(self.secret)} bytes (expected {_BYTES})"
            raise UsageError(msg, remedy="make one: vitrify protect keygen --secret FILE")

    @classmethod
    def generate(cls, path: Path) -> ProtectKey:
        """Write a new key to a file that only its owner may read.

        Raises:
            ConflictError: The file is there already; it was not touched.
        """
        key = cls(secrets.token_bytes(_BYTES))
        create(path, key.secret.hex().encode() + b"\n", mode=0o600)
        return key

    @classmethod
    def read(cls, path: Path) -> ProtectKey:
        """Read a key file.

        Raises:
            StoreError: There is no such file, or it may not be read.
            MalformedError: It holds something else.
        """
        if not (found := _TEXT.fullmatch(read_key(path))):
            msg = f"{path} holds no key (expected 64 hex digits)"
            raise MalformedError(msg, remedy="make one: vitrify protect keygen --secret FILE")
        return cls(bytes.fromhex(found[1].decode()))

    @property
    def id(self) -> str:
        """What the key is called where everybody can read it: 16 hex digits, from which nothing follows."""
        return self.derive("id").hex()[:16]

    def derive(self, use: str) -> bytes:
        """Return 32 bytes for one use: HMAC-SHA256, so that they say nothing about those of another."""
        return hmac.digest(self.secret, b"vitrify protect v1 " + use.encode(), hashlib.sha256)


@contextmanager
def held(key: ProtectKey) -> Iterator[None]:
    """Let the steps that run inside the block use a key."""
    token = _held.set((*_held.get(), key))
    try:
        yield
    finally:
        _held.reset(token)


def key_of(step: Step) -> ProtectKey:
    """Return the key that a step names.

    Raises:
        UsageError: It is not at hand.
    """
    wanted = step.options.get("key")
    for key in _held.get():
        if key.id == wanted:
            return key
    msg = f"the step {step.transform} needs the key {wanted!r}, which is not at hand"
    raise UsageError(msg, remedy="run it with its key: vitrify protect --help")
