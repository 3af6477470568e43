"""Lists of packages that come with a model: what is installed from elsewhere than the user's own index.

Installing runs whatever the package brings, so a list that names an address, a path or another index is as much code
as the model. What pip reads as a name, a version and a marker is honest; everything else is not.

Source: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._loose import items

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = re.compile(
    r"[A-Za-z0-9][\w.-]*+\s*+(?:\[[\w.,\s-]*+\])?\s*+\(?(?:\s*+,?\s*+[<>=!~]=?=?\s*+[\w.*+!-]++)*+\s*+\)?\s*+(?:;[^:]*)?"
    r"(?:\s*+--hash=\w+:\w++)*+",
    re.ASCII,
)
_OTHER_LIST = re.compile(r"(?:-[rc]|--requirement|--constraint)[\s=]*([\w-][\w.-]*)", re.ASCII)
"""A list or constraints beside this one, which is looked at as itself."""
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar|tgz|tar\.\w+|egg)\b", re.IGNORECASE)
_CONTINUED = re.compile(r"\\\r?\n")


def lines(text: str) -> list[str]:
    """Return the entries of a requirements file, without its comments."""
    joined = (re.sub(r"(?:^|\s)#.*", "", line).strip() for line in _CONTINUED.sub("", text).splitlines())
    return [line for line in joined if line]


def of_conda(environment: Any) -> tuple[list[str], list[str]]:
    """Return what pip installs of a conda environment (or of a list of its kind), and the addresses it names itself."""
    held = environment if isinstance(environment, dict) else {}
    listed = [one for key in ("dependencies", "build_dependencies") for one in items(held.get(key))]
    pip = [entry for one in listed if isinstance(one, dict) for entry in items(one.get("pip"))]
    own = [one for one in (*listed, *items(held.get("channels"))) if isinstance(one, str) and "://" in one]
    return [one for one in pip if isinstance(one, str)], own


def foreign(entries: list[str]) -> Iterator[str]:
    """Yield the entries that are more than a name, a version and a marker."""
    for entry in entries:
        named = _NAMED.fullmatch(entry) and not _ARCHIVE.search(entry.partition(";")[0])
        if not named and not _OTHER_LIST.fullmatch(entry):
            yield entry


def finding(place: str, entry: str) -> Finding:
    """Return the finding about one entry."""
    return Finding(
        place=place,
        message=f"installs {entry[:200]!r}, from elsewhere than the index that its user has chosen: that runs its code",
        remedy="read that package, then allow it by this exact entry; or install what it needs yourself",
        rule="installs-packages",
        subject=entry,
    )
