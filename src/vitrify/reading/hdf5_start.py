"""Where in a file HDF5 begins: the look that tells such a file, at no cost.

Source: HDF5 File Format Specification 3.0, section II.
"""

from __future__ import annotations

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FIRST_USER_BLOCK = 512


def start(view: memoryview) -> int | None:
    """Return where the superblock is: at byte 0, 512, 1024, 2048 and so on; None where it is at none of them."""
    at = 0
    while at + len(SIGNATURE) <= len(view):
        if view[at : at + len(SIGNATURE)] == SIGNATURE:
            return at
        at = 2 * at or _FIRST_USER_BLOCK
    return None
