"""Memory: what a model that was let go has left behind goes back to the operating system."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from typing import Any

_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` of ``mallopt``, <malloc.h>."""
_LARGE = 8 * 1024 * 1024
"""Bytes: weights are larger, what a batch needs meanwhile seldom is."""


def give_back() -> None:
    """Collect garbage, and have the C library return the pages that it keeps for later.

    Without it the heap stays as large as the largest set of models that ever was. Only glibc has a call for that;
    elsewhere garbage is collected and that is all.
    """
    gc.collect()
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


@cache
def keep_no_large_blocks() -> None:
    """Have the C library return each large block when it is freed, once and for all.

    By itself it raises the limit of what counts as large with the largest block that was ever freed; from then on such
    blocks lie in the heaps of threads, whose ends ``malloc_trim`` does not return.
    """
    if (library := _glibc()) is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE)


@cache
def _glibc() -> Any:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "malloc_trim") else None
