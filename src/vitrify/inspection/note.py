"""What a scan itself finds, whatever the format: each rule of its own, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import VitrifyError
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.errors import MalformedError


def unknown(place: str) -> Finding:
    """Say that no format knows a file."""
    return Finding(
        place=place,
        message="its content is of no format that is known here",
        remedy="scan it with the tool that wrote it, or ask for the model in another format",
        rule="unknown-format",
        verdict="not checked",
    )


def several(place: str, formats: Sequence[str]) -> Finding:
    """Say that a file is several things at once."""
    listed = " and ".join(formats)
    return Finding(
        place=place,
        message=f"is of several formats at once ({listed}): what one reader checks, another does not load",
        remedy="do not use it: no honest tool writes this",
        rule="two-formats",
        subject="+".join(sorted(formats)),
    )


def limit(place: str, message: str, remedy: str = "if you know it, look at its parts one by one") -> Finding:
    """Say that a file was not looked at to its end."""
    message = _without_file(message, place)
    return Finding(place=place, message=message, remedy=remedy, rule="limit", verdict="not checked")


def malformed(place: str, name: str, error: MalformedError) -> Finding:
    """Say that a file is not what its format allows."""
    message = _without_file(error.message, place)
    return Finding(place=place, message=message, remedy=error.remedy, rule="malformed", subject=name)


def unread(place: str, error: OSError | VitrifyError) -> Finding:
    """Say that a file could not be read here."""
    if isinstance(error, VitrifyError):
        message, remedy = _without_file(error.message, place), error.remedy
    else:
        message, remedy = error.strerror or type(error).__name__, "see whether it can be read at all"
    return Finding(place=place, message=message, remedy=remedy, rule="unreadable", verdict="not checked")


def failed(place: str, name: str, error: Exception) -> Finding:
    """Say that a format's plugin broke."""
    return Finding(
        place=place,
        message=f"the format {name!r} failed to look at it ({type(error).__name__}: {error})"[:500],
        remedy="tell the author of that format; the file may have been made to break it",
        rule="failed",
        subject=name,
        verdict="not checked",
    )


def sound(finding: Finding) -> Finding:
    """Return a finding that can be written as UTF-8: names of files and of what is in them need not be text."""
    texts = {key: getattr(finding, key) for key in ("place", "message", "subject", "remedy")}
    changed = {key: text.encode(errors="backslashreplace").decode() for key, text in texts.items()}
    return finding if changed == texts else finding.replace(**changed)


def _without_file(message: str, place: str) -> str:
    """Return an error's message without the name of the file, where it begins with that: the place has it."""
    name = place.rpartition("!")[2]
    return message.removeprefix(f"{name}: ").removeprefix(f"{name.rpartition('/')[2]}: ")
