"""Names of members inside archives: which ones would leave a directory, or fall on each other, when unpacked.

Nothing here is ever unpacked; but whoever gets the file next may do so, and two readers that take a name differently
read different files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_NAME = 4096
SOMEWHERE = "on some systems"
"""Ends what :func:`collisions` says of names that are two on this system."""
"""Bytes of a path that Linux takes; a longer one breaks the realpath of some unpackers."""

_COLON = re.compile(r":(?!\d+(?:$|[./]))")
"""A drive or an alternate stream; ``kernel:0`` is how TensorFlow calls a tensor."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def flaw(name: str) -> str | None:
    """Return what is wrong with a name, or None where it stays inside of any directory on any system."""
    parts = name.split("/")
    reasons = (
        (not name, "is empty"),
        (len(name) > MAX_NAME, f"is longer than {MAX_NAME} characters"),
        (name.startswith("/"), "is absolute"),
        (".." in parts, "leads out of its directory"),
        ("\\" in name, "has a backslash, which is a directory on Windows"),
        (_COLON.search(name), "has a colon, which is a drive or a hidden stream on Windows"),
        (_CONTROL.search(name), "has control characters"),
    )
    return next((reason for wrong, reason in reasons if wrong), None)


def collisions(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that falls on another one, and how: the same, the same on some systems, a file as a folder."""
    seen: dict[str, str] = {}
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        path = name.rstrip("/")
        key = path.casefold() if path.isascii() else _composed(path).casefold()
        if key in seen:
            yield name, "stands twice" if seen[key] == name else f"is {seen[key]!r} {SOMEWHERE}"
        seen.setdefault(key, name)
        if path == name:
            files.add(path)
        if len(name) <= MAX_NAME:
            _open(path, folders)
    for name in sorted(files & folders):
        yield name, "is a file and a folder at once"


def _open(path: str, folders: set[str]) -> None:
    """Add all folders that a path runs through."""
    parent = path.rpartition("/")[0]
    while parent and parent not in folders:
        folders.add(parent)
        parent = parent.rpartition("/")[0]


def _composed(path: str) -> str:
    import unicodedata

    return unicodedata.normalize("NFC", path)
