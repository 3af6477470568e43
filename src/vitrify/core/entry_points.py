"""Whether any installed package has entry points of ours, asked at a tenth of the price of asking for them.

``importlib.metadata`` costs more than all else that a short command imports, and most machines have no plugin. So the
files that would name one are looked at first; wherever packages may come from elsewhere, the answer is "maybe".
Specification: https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FILE = "entry_points.txt"
_ENDINGS = (".dist-info", ".egg-info")


_STANDARD = ("_frozen_importlib_external", "importlib_metadata")
"""Where the finders come from that read packages in this way: Python's own, and its backport's."""


def may_have(group: str) -> bool:
    """Say whether a package on the path may have entry points in a group; False is certain."""
    if any(getattr(finder, "find_distributions", None) for finder in sys.meta_path if not _is_standard(finder)):
        return True
    mark = f"[{group}]".encode()
    return any(_folder_may(folder or os.curdir, mark) for folder in dict.fromkeys(sys.path))


def _is_standard(finder: object) -> bool:
    return getattr(finder, "__module__", "") in _STANDARD


def _folder_may(folder: str, mark: bytes) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(_ENDINGS) and _may(Path(entry.path, _FILE), mark) for entry in entries)
    except NotADirectoryError:
        return True  # a zip file, whose packages importlib knows how to read
    except OSError:
        return False


def _may(path: Path, mark: bytes) -> bool:
    try:
        return mark in b"".join(path.read_bytes().split())
    except OSError:
        return False
