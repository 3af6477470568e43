"""A file's bytes as tensors need them: writable, and never written back."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def private(path: Path) -> memoryview:
    """Return a file's bytes, mapped; PyTorch has no read-only tensors, so written pages are copied."""
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) if path.stat().st_size else b"")
