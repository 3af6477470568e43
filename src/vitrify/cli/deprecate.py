"""``vitrify deprecate``: the standing of a version."""

from __future__ import annotations

from vitrify.cli._registry import status_command

command = status_command(
    "deprecate",
    "deprecated",
    "Say that a version should not be used any more; it goes on serving.",
    "deprecate churn:1.0.0 --reason 'trained on last year'",
)
