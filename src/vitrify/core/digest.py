"""Digest: the only name that content has."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 4 * 1024 * 1024
"""Bytes read at a time: large enough that hashlib lets other threads run, small enough for the cache."""

_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, order=True, slots=True)
class Digest:
    """A SHA-256 digest, written ``sha256:<64 hex digits>`` as in the OCI image specification."""

    hex: str
    algorithm: str = "sha256"

    def __str__(self) -> str:
        """Return the OCI form."""
        return f"{self.algorithm}:{self.hex}"

    @property
    def short(self) -> str:
        """The first 12 hex digits, for people."""
        return self.hex[:12]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the OCI form.

        Raises:
            UsageError: ``text`` is not ``sha256:`` and 64 lower-case hex digits.
        """
        if not _PATTERN.fullmatch(text):
            msg = f"not a digest: {text!r} (expected sha256: and 64 lower-case hex digits)"
            raise UsageError(msg)
        return cls(text.removeprefix("sha256:"))

    @classmethod
    def of(cls, data: bytes | bytearray | memoryview) -> Self:
        """Hash bytes in memory."""
        return cls(hashlib.sha256(data).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Hash a file from start to end.

        A large file is mapped, which costs a tenth less than copying it through a buffer; nobody shortens a blob
        of a store, and whoever opens it maps it anyway.
        """
        with path.open("rb", buffering=0) as stream:
            if os.fstat(stream.fileno()).st_size < CHUNK:
                return cls.of(stream.readall())
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return cls(hashlib.sha256(content).hexdigest())
