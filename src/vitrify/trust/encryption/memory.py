"""Memory that looks like a file and is none: where decrypted bytes live.

On Linux a memory file (``memfd_create``), sealed so that nobody can change it, with a path that this process can open
under ``/proc/self/fd``; elsewhere anonymous memory without a path. Neither has a name in any file system. The pages are
kept out of core dumps where the kernel can; like all memory they may be swapped out: encrypt the swap.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


class Memory:
    """One file's bytes, read-only once they are filled."""

    def __init__(self, size: int, fill: Callable[[memoryview], None]) -> None:
        """Take memory of ``size`` bytes and fill it; where ``fill`` raises, it is given back.

        Raises:
            StoreError: There is not so much memory.
        """
        self._descriptor: int | None = None
        try:
            if hasattr(os, "memfd_create"):
                self._descriptor = _memory_file(size, fill)
                weakref.finalize(self, os.close, self._descriptor)
                self.view = _mapped(self._descriptor, size)
            else:
                self.view = _anonymous(size, fill)
        except (OSError, MemoryError, OverflowError) as error:
            msg = f"no memory for {size} decrypted bytes ({error})"
            raise StoreError(
                msg, remedy="open it where there is more memory: nothing is decrypted to a disk"
            ) from error

    @property
    def path(self) -> Path:
        """A path that opens in this process only.

        Raises:
            UsageError: This system has none.
        """
        if self._descriptor is None:
            msg = "this system has no memory files, and the model's library reads only from a path"
            raise UsageError(msg, remedy="open it on Linux, or in a format that is read from memory: onnx")
        return Path(f"/proc/self/fd/{self._descriptor}")


def _memory_file(size: int, fill: Callable[[memoryview], None]) -> int:
    descriptor = os.memfd_create("vitrify", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        if size:
            os.ftruncate(descriptor, size)
            with mmap.mmap(descriptor, size) as content, memoryview(content) as view:
                fill(view)
        else:
            fill(memoryview(bytearray()))
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mapped(descriptor: int, size: int) -> memoryview:
    if not size:
        return memoryview(b"")
    content = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    _not_dumped(content)
    return memoryview(content)


def _anonymous(size: int, fill: Callable[[memoryview], None]) -> memoryview:
    if not size:
        fill(memoryview(bytearray()))
        return memoryview(b"")
    content = mmap.mmap(-1, size)
    _not_dumped(content)
    fill(memoryview(content))
    return memoryview(content).toreadonly()


def _not_dumped(content: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTDUMP"):
        with contextlib.suppress(OSError):
            content.madvise(mmap.MADV_DONTDUMP)
