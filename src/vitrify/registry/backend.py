"""What stands behind the façade: a database here, or a server far away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.digest import Digest
    from vitrify.core.wire import Value
    from vitrify.registry.requests import Request


class Backend(Protocol):
    """Carries requests out, and moves content."""

    def do(self, request: Request) -> Value:
        """Carry one request out, all of it or nothing; the answer is what its operation says."""

    def upload(self, digest: Digest, path: Path) -> None:
        """Take a file's bytes, checked against the digest; what is there already is not sent again."""

    def read(self, digest: Digest, start: int = 0) -> Iterator[bytes | memoryview]:
        """Yield content from a byte on; the reader checks it against the digest."""

    def close(self) -> None:
        """Let go of connections."""
