"""Hostile files after public techniques, and harmless ones that look like them.

Every payload does one thing: it creates the file that it is told, so that a test can see whether it ran. Numbers are
those of the list that the project was given; the table in ``docs/how-to/scan.md`` counts them.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        number: The technique.
        name: What it does, in a few words.
        make: Writes it into an empty folder, with a marker as its payload's target, and returns its path.
        runs: ``pickle``, ``torch`` or ``joblib`` where that library's own loader runs the payload; empty where it does
            not, or where the harm is of another kind.
        limit: Whether ``not checked`` is a right answer too: it is larger than what is read, or of a kind that is not.
    """

    number: str
    name: str
    make: Callable[[Path, Path], Path]
    runs: str = ""
    limit: bool = False

    @property
    def id(self) -> str:
        """What the case is called in a test's name."""
        return f"{self.number}-{self.name.replace(' ', '-')}"


def data(content: bytes | Callable[[str], bytes], file: str = "model.pkl") -> Callable[[Path, Path], Path]:
    """Return a maker that writes one file; ``content`` may be made from the marker's path."""

    def make(folder: Path, marker: Path) -> Path:
        path = folder / file
        path.write_bytes(content if isinstance(content, bytes) else content(str(marker)))
        return path

    return make


def hostile() -> list[Case]:
    """Return every hostile case in the order of their numbers."""
    modules = (importlib.import_module(f"corpus.{one.name}") for one in pkgutil.iter_modules(__path__))
    cases = [case for module in modules for case in getattr(module, "HOSTILE", ())]
    assert len({case.id for case in cases}) == len(cases)
    return sorted(cases, key=lambda case: (int("".join(filter(str.isdigit, case.number))), case.number))


def benign() -> dict[str, Callable[[Path], Path]]:
    """Return the makers of the harmless files, by name."""
    modules = (importlib.import_module(f"corpus.{one.name}") for one in pkgutil.iter_modules(__path__))
    return {name: make for module in modules for name, make in getattr(module, "BENIGN", {}).items()}
