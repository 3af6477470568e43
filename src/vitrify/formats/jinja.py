"""Jinja templates as files of their own: chat templates beside a model. They are programs, judged and never rendered.

A template is text like any other. So a file is taken for one where its first characters open a statement, or where it
has the name by which loaders find it: there the name decides what it is used for.

Specification: https://jinja.palletsprojects.com/en/stable/templates/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.formats._archives import one_file
from vitrify.reading.files import only
from vitrify.reading.jinja import MAX_TEXT
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_SUFFIXES = (".jinja", ".jinja2", ".j2")
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{(?:%|\{|#)")
_LOOK = 4096


class Jinja:
    """Templates of Jinja."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is called, or begins, as a template."""
        name = only(files)
        if name is None:
            return False
        start = bytes(files.map(name)[:_LOOK])
        return _START.match(start) is not None or (name.lower().endswith(_SUFFIXES) and b"\0" not in start)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many statements it has."""
        from vitrify.reading.jinja import parse

        text, where = _text(files, entry)
        return {"statements": len(parse(text, where=where)), "bytes": len(text.encode())}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what no chat template needs."""
        from vitrify.formats._templates import findings

        text, where = _text(files, entry)
        yield from findings(text, place=where)


def _text(files: Files, entry: Mapping[str, Any]) -> tuple[str, str]:
    view, where = one_file(files, entry)
    if len(view) > 4 * MAX_TEXT:
        exceed(where, f"a template of {len(view)} bytes")
    try:
        return bytes(view).decode("utf-8-sig"), where
    except ValueError:
        refuse(where, "a template that is no UTF-8")
