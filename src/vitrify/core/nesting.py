"""How deep JSON is nested, found out before a parser sees it.

The parsers stop at Python's own recursion limit. Where a library has raised that, they go on until the stack of the
process is used up, and the process is gone.
"""

from __future__ import annotations

import re
from itertools import accumulate

LIMIT = 500
"""No JSON of the field is nested deeper, and every parser takes this much."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = tuple((byte in b"[{") - (byte in b"]}") for byte in range(256))


def shallow(text: bytes, limit: int = LIMIT) -> bytes:
    """Return JSON that is nested at most ``limit`` levels deep as it is.

    Raises:
        RecursionError: It is nested deeper; parsers raise the same.
    """
    if text.count(b"[") + text.count(b"{") > limit:
        brackets = _STRING.sub(b"", text).translate(None, delete=_OTHERS)
        if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > limit:
            msg = f"nested more than {limit} levels deep"
            raise RecursionError(msg)
    return text
