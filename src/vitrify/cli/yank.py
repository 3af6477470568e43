"""``vitrify yank``: the standing of a version."""

from __future__ import annotations

from vitrify.cli._registry import status_command

command = status_command(
    "yank",
    "yanked",
    "Refuse a version from now on to whoever does not name it exactly. One in production cannot be yanked.",
    "yank churn:1.1.0 --reason 'leaks the label'",
)
