"""TensorFlow's graphs and saved models as text (``.pbtxt``), which TensorFlow loads as it loads the binary ones.

The operators are read, and those that reach out are told; paths and the rest of the graph are not followed, so that
such a file is never clean.

Specification: https://protobuf.dev/reference/protobuf/textformat-spec/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._archives import one_file
from vitrify.reading.files import only
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files

_MOST = 64 * 1024 * 1024
_LOOK = 64 * 1024
_BLOCK = re.compile(rb"\b(?:node|meta_graphs|graph_def|library)\s*(?::\s*)?[{<]")
_FIELD = re.compile(rb"\bop\s*:|\b(?:saved_model_schema_version|meta_graphs|graph_def|versions)\b")
_TOKEN = re.compile(
    rb"""\s+|\#[^\n]*|(?P<text>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+(?:"|(?=\n)|\Z)|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+(?:'|(?=\n)|\Z))|(?P<word>\w+)|(?P<sign>.)""",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class GraphText:
    """Text of Protocol Buffers that is a graph."""

    def detect(self, files: Files) -> bool:
        """Say whether a file begins as such text, with blocks and fields that a graph has."""
        name = only(files)
        start = b"" if name is None else bytes(files.map(name)[:_LOOK])
        return b"\0" not in start and _BLOCK.search(start) is not None and _FIELD.search(start) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the operators."""
        from vitrify.formats._facts import counts

        view, where = one_file(files, entry)
        operators, functions = _operators(view, where)
        return {"producer": "TensorFlow", "operators": counts(operators), "functions": len(functions)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators that reach out or are not TensorFlow's, and that the rest was not looked at."""
        from vitrify.formats._tensorflow.operators import known, reach
        from vitrify.formats._tensorflow.paths import SAVER, TABLES

        view, where = one_file(files, entry)
        operators, functions = _operators(view, where)
        for name in sorted(set(operators) - functions - SAVER.keys() - TABLES.keys()):
            if found := reach(name):
                yield Finding(place=where, message=f"{name} {found.does}", rule=found.rule, subject=name)
            elif not known(name):
                message = f"{name:.200} is no operator of TensorFlow: it runs code of a library"
                yield Finding(place=where, message=message, rule="custom-operator", subject=name)
        yield Finding(
            place=where,
            message="a graph as text, of which only the operators were looked at",
            remedy="ask for it as saved_model.pb or as a binary graph",
            rule="unread-program",
            verdict="not checked",
        )


def _operators(view: memoryview, where: str) -> tuple[list[str], set[str]]:
    """Return the operators of all nodes, and the names of the functions that the graph brings."""
    if len(view) > _MOST:
        exceed(where, f"{len(view)} bytes of text")
    if _BLOCK.search(view) is None:
        refuse(where, "no graph as text")
    operators: list[str] = []
    functions: set[str] = set()
    key, before = "", ""
    for kind, said in _tokens(view):
        if kind == "text":
            if key == "op":
                operators.append(said)
            elif key == "name" and before == "signature":
                functions.add(said)
        elif kind == "word":
            key, before = said, key if key == "signature" else ""
        elif said not in ":{<":
            key = ""
    return operators, functions


def _tokens(view: memoryview) -> Iterator[tuple[str, str]]:
    """Yield words, signs and texts; texts that stand side by side are one."""
    held = b""
    for found in _TOKEN.finditer(view):
        kind = found.lastgroup
        if kind == "text":
            held += _ESCAPE.sub(_unescaped, found[0][1:-1])
        elif kind is not None:
            if held:
                yield "text", held.decode("utf-8", "replace")
                held = b""
            yield kind, found[0].decode("utf-8", "replace")
    if held:
        yield "text", held.decode("utf-8", "replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = found.groups()
    if letter:
        return _LETTERS.get(letter, letter)
    return bytes([(int(octal, 8) if octal else int(hexadecimal, 16)) & 0xFF])
