"""One artifact file, wherever it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file: where its content is, or, of what was made up for an answer, the content itself."""

    size: int
    digest: str = ""
    data: bytes | None = None
