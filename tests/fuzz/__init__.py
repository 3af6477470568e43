"""Fuzz targets, one a room of parsers; :mod:`fuzz._run` says what a target is, ``python tests/fuzz`` runs them."""

from pathlib import Path

TARGETS = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
