"""``vitrify restore``: the standing of a version."""

from __future__ import annotations

from vitrify.cli._registry import status_command

command = status_command(
    "restore",
    "active",
    "Take back that a version was deprecated or yanked.",
    "restore churn:1.1.0",
)
