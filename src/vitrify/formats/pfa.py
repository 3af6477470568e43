"""PFA: scoring engines as JSON, the Portable Format for Analytics of the Data Mining Group.

A document is a program in a small language without side effects but for its own cells and pools, so every function
that it calls has to be one of the language's library or of its own. It is never run here; what runs it can do nothing
but compute.

Source: https://dmg.org/pfa/docs/document_structure/, and the library at https://dmg.org/pfa/docs/library/.
"""

from __future__ import annotations

import json as text
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _facts, _native_file
from vitrify.reading import json
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink

FILE = "model.pfa"
_START = re.compile(rb"\s*+(?:\xef\xbb\xbf)?+\s*+\{")
_KEY = re.compile(rb'"(input|output|action)"\s*:')
_SMALL = 1 << 16
_STORES = ("cells", "pools")
_LIBRARIES = frozenset(
    {
        *("a", "bytes", "cast", "enum", "fixed", "impute", "interp", "la", "m", "map", "metric", "model", "parse"),
        *("prob", "rand", "re", "s", "stat", "time"),
    }
)
_OPERATORS = frozenset(
    {
        *("+", "-", "*", "/", "//", "%", "%%", "**", "u-", "cmp", "==", "!=", ">", ">=", "<", "<=", "max", "min", "!"),
        *("&&", "||", "^^", "&", "|", "^", "~", "!!!", "&&&", "|||"),
    }
)
_FORMS = frozenset(
    {
        *(
            "do",
            "let",
            "set",
            "attr",
            "path",
            "to",
            "new",
            "cond",
            "if",
            "then",
            "else",
            "while",
            "until",
            "for",
            "step",
        ),
        *("foreach", "in", "seq", "forkey", "forval", "cast", "cases", "as", "named", "partial", "upcast", "ifnotnull"),
        *(
            "unpack",
            "pack",
            "format",
            "doc",
            "error",
            "code",
            "log",
            "namespace",
            "cell",
            "pool",
            "init",
            "del",
            "call",
        ),
        *("args", "params", "ret", "fcn", "fcnref", "fill", "type", "value", "string", "base64", "int", "float"),
        *("double", "long", "try", "filter", "emit", "pos"),
    }
)
"""Keys of the language itself."""
_NAMING = frozenset({"let", "set", "ifnotnull", "fill", "new"})
"""Keys whose value gives names to expressions."""
_PLAIN = frozenset({"type", "ret", "params", "as", "format", "@", "doc", "error", "namespace", "string", "base64"})
"""Keys whose value is a type, text or a location, no expression."""


@dataclass(frozen=True)
class PfaDocument:
    """A document, as JSON has it.

    Attributes:
        content: Its members; at least an input, an output and an action.
    """

    content: Mapping[str, Any]


class Pfa:
    """The format of PFA documents, as JSON."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a JSON object with an input, an output and an action at its top."""
        name = only(files)
        if name is None or not _START.match(head(files)):
            return False
        view = files.map(name)
        # The three may stand behind large cells, and so are looked for at both ends.
        ends = bytes(view[:_SMALL]) + bytes(view[max(len(view) - _SMALL, _SMALL) :])
        return {found.group(1) for found in _KEY.finditer(ends)} == {b"input", b"output", b"action"} and _is_document(
            view, name
        )

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, method, input, output, cells, pools, and the functions it calls with their counts."""
        document = _parse(files, entry)
        version = document.get("version")
        return _native_file.said(
            {
                "name": document.get("name"),
                "versions": {"document": str(version)} if version is not None else {},
                "method": document.get("method", "map"),
                "inputs": [_facts.port("input", _type(document["input"]), [])],
                "outputs": [_facts.port("output", _type(document["output"]), [])],
                "operators": _facts.counts(name for _, name in _calls(document)),
                "functions": sorted(map(str, _object(document, "fcns"))),
                "cells": {key: _type(_object(value).get("type")) for key, value in _object(document, "cells").items()},
                "pools": {key: _type(_object(value).get("type")) for key, value in _object(document, "pools").items()},
                "parameters": sum(_numbers(_object(document, key)) for key in _STORES),
                "metadata": {key: document[key] for key in ("doc", "metadata", "options") if key in document},
                "begins": "begin" in document,
                "ends": "end" in document,
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield functions that nobody defines, and cells whose content lies elsewhere."""
        document = _parse(files, entry)
        where = entry["file"]
        own = {f"u.{name}" for name in _object(document, "fcns")}
        seen = set()
        for place, name in _calls(document):
            if name not in own and not _is_known(name) and name not in seen:
                seen.add(name)
                yield Finding(
                    place=f"{where}: {place}",
                    message=f"calls {name!r}, which neither PFA's library nor the file has: an engine's own code",
                    rule="unknown-function",
                    subject=name,
                )
        for kind in _STORES:
            for name, cell in _object(document, kind).items():
                source, init = _object(cell).get("source", "embedded"), _object(cell).get("init")
                if source != "embedded":
                    yield Finding(
                        place=f"{where}: {kind}.{name}",
                        message=f"an engine reads its content from {str(init)[:80]!r} when it starts ({source})",
                        rule="external-address",
                        subject=str(init)[:200],
                    )

    def write(self, model: PfaDocument, sink: Sink, example: Example | None) -> Written:
        """Write the document, as short as JSON can be."""
        del example
        encoder = text.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
        with sink.open(FILE, "weight") as stream:
            for part in encoder.iterencode(model.content):
                stream.write(part.encode())
        return Written(entry={"file": FILE})

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> PfaDocument:
        """Return the document; nothing in it is run.

        Raises:
            MalformedError: It is none.
        """
        del allow
        return PfaDocument(_parse(files, entry))


def _is_document(view: memoryview, name: str) -> bool:
    from vitrify.core.errors import MalformedError

    try:
        document = json.parse(view, where=name)
    except MalformedError:
        return False
    return isinstance(document, dict) and {"input", "output", "action"} <= document.keys()


def _parse(files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
    document = json.parse(files.map(entry["file"]), where=entry["file"])
    if not isinstance(document, dict) or not {"input", "output", "action"} <= document.keys():
        refuse(entry["file"], "no PFA document: an input, an output and an action were expected")
    return document


def _object(value: Any, key: str | None = None) -> dict[str, Any]:
    found = value.get(key, {}) if key is not None else value
    return found if isinstance(found, dict) else {}


def _type(kind: Any) -> str:
    if isinstance(kind, list):
        return " or ".join(_type(one) for one in kind)
    if isinstance(kind, dict):
        inner = kind.get("items", kind.get("values"))
        return str(kind.get("name") or (f"{kind.get('type')} of {_type(inner)}" if inner else kind.get("type")))
    return str(kind)


def _is_known(name: str) -> bool:
    library, dot, _ = name.partition(".")
    return library in _LIBRARIES if dot else name in _OPERATORS


def _calls(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where a function is called or referred to, and its name."""
    left: list[tuple[str, Any]] = [
        (key, document[key]) for key in ("begin", "action", "end", "merge") if key in document
    ]
    left += [(f"fcns.{name}", _object(body).get("do")) for name, body in _object(document, "fcns").items()]
    while left:
        place, value = left.pop()
        if isinstance(value, list):
            left += [(place, one) for one in value]
        # A value with its type is data.
        if not isinstance(value, dict) or {"type", "value"} <= value.keys():
            continue
        for key, one in value.items():
            if key in {"fcn", "fcnref"} and isinstance(one, str):
                yield place, one
            elif key not in _FORMS and not key.startswith("@"):
                yield place, key
            if key in _NAMING and isinstance(one, dict):
                left += [(place, named) for named in one.values()]
            elif key not in _PLAIN:
                left.append((place, one))


def _numbers(value: Any) -> int:
    """Return how many numbers are kept in cells and pools."""
    count, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
        else:
            count += isinstance(one, int | float) and not isinstance(one, bool)
    return count
