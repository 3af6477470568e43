"""Python code: source that would compile and does something, and compiled modules. It runs when it is imported.

Models come with such files (``modeling_*.py``, handlers, custom objects), and nothing can be said about what arbitrary
code does but that it is code. Source is parsed, never compiled: see https://docs.python.org/3/reference/grammar.html.
Compiled modules are known by their first bytes: https://peps.python.org/pep-0552/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files

MAX_PARSED = 64 * 1024
"""Bytes of source that are parsed: its tree takes up to 600 times as much. Longer source is told by its lines."""
_MAX_SEARCHED = 16 * 1024 * 1024
_LOOK = 4096
_HINT = re.compile(rb"\bimport\b|\bdef\b|\bclass\b|\(|coding[:=]")
"""What has none of this does nothing to anybody; in another encoding even these may be hidden."""
_LINE = re.compile(
    rb"^(?:import [\w.]+(?: as \w+)?(?:, *[\w.]+(?: as \w+)?)*|from [\w.]+ import [\w ,(*]++|(?:async )?def \w+\(.*|"
    rb"class \w+(?:\(.*\))?:)\s*(?:#.*)?\r?$",
    re.MULTILINE,
)
_FENCE = re.compile(rb"^```", re.MULTILINE)
_TRIPLE = re.compile(rb"'''|\"\"\"")
_SHOWN = 10
_PYC = re.compile(rb"[\x00-\xff][\x0b-\x0f\xf0-\xf3]\r\n(?:.{4}|.{8}|.{12})[c\xe3]", re.DOTALL)
"""The version's number, a line's end against transfers as text, a header, then the code as marshal writes it."""


class PythonSource:
    """Python source and compiled modules."""

    def detect(self, files: Files) -> bool:
        """Say whether a file would be taken by Python as code that does something."""
        name = only(files)
        return name is not None and _kind(files.map(name)) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether it is source or compiled, and which modules source imports at its top level."""
        view, kind = _open(files, entry)
        return {"code": True, "kind": kind, "imports": _imports(view) if kind == "source" else [], "bytes": len(view)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield that it is code. What a policy allows is exactly this code: its SHA-256."""
        from hashlib import sha256

        view, kind = _open(files, entry)
        imports = _imports(view) if kind == "source" else []
        listed = ", ".join(imports[:_SHOWN]) + (", ..." if len(imports) > _SHOWN else "")
        uses = f"; it imports {listed}" if imports else ""
        yield Finding(
            place=str(entry.get("file", only(files))),
            message=f"Python {'code' if kind == 'source' else 'bytecode'} that runs when it is imported{uses}",
            rule="python-code",
            subject=f"sha256:{sha256(view).hexdigest()}",
            remedy="read it, then allow exactly this file by its digest in the policy",
        )


def _open(files: Files, entry: Mapping[str, Any]) -> tuple[memoryview, str]:
    where = str(entry.get("file", only(files)))
    view = files.map(where)
    return view, _kind(view) or refuse(where, "no Python code")


def _kind(view: memoryview) -> str | None:
    start = bytes(view[:_LOOK])
    if _PYC.match(start):
        return "bytecode"
    if not start or b"\0" in start:  # the one character that Python refuses everywhere
        return None
    return "source" if _is_source(view) else None


def _is_source(view: memoryview) -> bool:
    """Say whether Python would compile it, and whether it then does anything."""
    source = bytes(view[:_MAX_SEARCHED]).removeprefix(b"\xef\xbb\xbf")
    if not _HINT.search(source):
        return False
    if len(view) > MAX_PARSED:
        return _has_lines_of_code(source)
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the stranger's code
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # Python refuses it as well
        return False
    except (RecursionError, MemoryError):  # nested as no person writes; other versions of Python may take it
        return _has_lines_of_code(source)
    return any(_does_something(node) for node in tree.body)


def _has_lines_of_code(source: bytes) -> bool:
    """Judge what is not parsed: by a line that only Python has, in what is no Markdown.

    A line that starts with a fence is valid Python only inside a string of three quotes.
    """
    fence, quotes = _FENCE.search(source), _TRIPLE.search(source)
    if fence and not (quotes and quotes.start() < fence.start()):
        return False
    return _LINE.search(source) is not None


def _does_something(node: ast.stmt) -> bool:
    """Say whether a statement is more than a name or a number, as many a list of words is."""
    import ast

    if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
        return any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(node))
    return not isinstance(node, ast.Pass | ast.Global)


def _imports(view: memoryview) -> list[str]:
    found = re.findall(rb"^\s*(?:import|from) +([A-Za-z_][\w.]*)", bytes(view[:_MAX_SEARCHED]), re.MULTILINE)
    return sorted({name.decode() for name in found})
