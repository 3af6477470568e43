"""A policy to start from, with every rule in it, most of them as comments."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from vitrify.trust._private_file import create

if TYPE_CHECKING:
    from pathlib import Path


def text() -> str:
    """Return the file."""
    return files(__package__).joinpath("start.toml").read_text(encoding="utf-8")


def write(path: Path) -> None:
    """Write it where nothing is yet.

    Raises:
        ConflictError: Something is there.
        StoreError: It cannot be written.
    """
    create(path, text().encode(), mode=0o644)
