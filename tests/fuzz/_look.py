"""Looking at files in every way that there is; only what should not be comes out."""

from __future__ import annotations

import json
from contextlib import suppress

from fuzz._run import Case
from vitrify.core.catalog import catalog
from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Drawn, Holds
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles


def held(case):
    """Return a case's files as formats take them."""
    return HeldFiles({name: memoryview(data) for name, data in case.files.items()})


def case_at(path, kind):
    """Return what lies at a path, a file or a directory."""
    files = files_at(path)
    return Case(kind, {name: bytes(files.map(name)) for name in files.names()})


def form(name):
    """Return a format of the catalog, to look with."""
    return catalog().row("format", name).look()


def ask(asked, case):
    """Ask a format everything; return whether it knows and describes the files."""
    files, entry = held(case), case.entry
    known = asked.detect(files)
    assert known in (True, False), known
    told = ours(lambda: json.dumps(asked.describe(files, entry), allow_nan=False).encode())
    ours(lambda: [finding.to_json() for finding in asked.hazards(files, entry)])
    if isinstance(asked, Holds):
        ours(lambda: [(place, part.names()) for place, part in asked.parts(files, entry)])
    if isinstance(asked, Drawn):
        ours(lambda: asked.graph(files, entry).to_json())
    return known and told is not None


def ours(call):
    """Return what a call gives, or None where it raises an error of ours."""
    with suppress(VitrifyError):
        return call()
    return None
