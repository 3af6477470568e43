"""Matching names and actions with the patterns of a policy.

One sign has a meaning: ``*`` stands for any text, slashes too. What a requirement covers is read generously and
what a key is good for strictly, so that no spelling of a name falls between the two: ``Churn`` has to meet what is
required of ``churn``, and a key that is good for ``churn`` is no good for it.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PURPOSES = ("load", "serve", "ship", "promote")
"""What may be done with a model."""

_PATTERN = re.compile(r"[A-Za-z0-9*](?:[A-Za-z0-9*._/:-]{0,198}[A-Za-z0-9*])?", re.ASCII)


def is_pattern(text: str) -> bool:
    """Say whether text can be a pattern: characters of names and ``*``, at most 200, and nothing that climbs."""
    return bool(_PATTERN.fullmatch(text)) and ".." not in text and "//" not in text


def covered(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a requirement for these patterns is meant for a name, however it is spelt."""
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    spellings = {folded, posixpath.normpath(folded.replace("\\", "/")).lstrip("/")}
    return any(glob(pattern.casefold(), spelling) for pattern in patterns for spelling in spellings)


def entitled(name: str, patterns: Iterable[str]) -> bool:
    """Say whether what is granted for these patterns is granted for exactly this name."""
    plain = name.isascii() and name.isprintable() and not {"", ".", ".."} & set(name.split("/"))
    return plain and any(glob(pattern, name) for pattern in patterns)


def asked_for(action: str, patterns: Iterable[str]) -> bool:
    """Say whether a requirement is made for an action; ``promote`` means every stage."""
    return any(glob(pattern, action) or action.startswith(f"{pattern}:") for pattern in patterns)


def glob(pattern: str, text: str) -> bool:
    """Say whether text fits a pattern; takes time linear in both for each star."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
