"""The code of a TorchScript file as lines, classes and methods: enough to show it, none of it is run.

The code is what PyTorch prints: one statement a line, blocks by indentation, and every class with its attributes'
types. Source: ``torch/csrc/jit/frontend/lexer.h``, ``torch/csrc/jit/serialization/python_print.cpp``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_CODE = 4 * 1024 * 1024
MAX_LINE = 100_000
"""Tokens of one statement; a list of weights would be a tensor."""

_TOKEN = re.compile(
    r"""(?P<string>'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")"""
    r"""|(?P<open>['"])|(?P<comment>\#[^\n]*)|(?P<line>\n[ ]*)"""
    r"""|(?P<blank>[ \t\r]+)|(?P<word>[A-Za-z_]\w*|\d[\w.+]*|->|\*\*|//|[=!<>]=|.)""",
    re.ASCII,
)
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")


@dataclass
class Line:
    """One statement, or the head of a block, which then has the lines below it."""

    indent: int
    tokens: list[str]
    block: list[Line] = field(default_factory=list)


@dataclass
class Method:
    """A function or method: parameters and result with their types as text, and its body."""

    name: str
    parameters: list[tuple[str, str]]
    result: str
    body: list[Line]

    @property
    def signature(self) -> str:
        """Its head, as it is written, without ``self``."""
        shown = ", ".join(f"{name}: {kind}" if kind else name for name, kind in self.parameters if name != "self")
        return f"({shown}) -> {self.result}"


@dataclass
class Class:
    """A class by its full name: attributes with their types, and methods."""

    name: str
    attributes: dict[str, str]
    methods: dict[str, Method]


def parse(code: str, module: str, *, where: str) -> tuple[dict[str, Class], dict[str, Method]]:
    """Return the classes and the functions of one file of code by their full names.

    Args:
        code: The text.
        module: What its names begin with: ``__torch__.torch.nn.functional``.
        where: What it is, for messages.

    Raises:
        MalformedError: A block has no head, or a bracket no end.
        LimitExceededError: It is longer than honest code.
    """
    if len(code) > MAX_CODE:
        exceed(where, f"{len(code)} characters of code, more than {MAX_CODE}")
    classes: dict[str, Class] = {}
    functions: dict[str, Method] = {}
    for line in _blocks(_lines(code, where), where):
        match line.tokens:
            case ["class", name, *_]:
                classes[f"{module}.{name}"] = _class(f"{module}.{name}", line.block, where)
            case ["def", *_]:
                found = _method(line, where)
                functions[f"{module}.{found.name}"] = found
            case _:
                pass
    return classes, functions


def _lines(code: str, where: str) -> Iterator[Line]:
    """Yield the statements; a line's end within brackets is none."""
    line, depth = Line(0, []), 0
    for token in _TOKEN.finditer(code):
        kind, text = token.lastgroup, token.group()
        if kind == "open":  # whoever looked on would look for its end behind each quote that follows
            refuse(where, "code with a text that is never closed")
        if kind == "line" and depth == 0:
            if line.tokens:
                yield line
            line = Line(len(text) - 1, [])
        elif kind in {"string", "word"}:
            line.tokens.append(text)
            depth += (text in _OPEN) - (text in _CLOSE)
            if len(line.tokens) > MAX_LINE:
                exceed(where, f"a statement of more than {MAX_LINE} words")
    if depth:
        refuse(where, "code with a bracket that is never closed")
    if line.tokens:
        yield line


def _blocks(lines: Iterable[Line], where: str) -> list[Line]:
    """Put lines below the ones that they belong to."""
    top: list[Line] = []
    above: list[Line] = []
    for line in lines:
        while above and above[-1].indent >= line.indent:
            above.pop()
        if above and above[-1].tokens[-1] != ":":
            refuse(where, "code with a block that belongs to nothing")
        (above[-1].block if above else top).append(line)
        above.append(line)
    return top


def _class(name: str, block: list[Line], where: str) -> Class:
    found = Class(name, {}, {})
    for line in block:
        match line.tokens:
            case ["def", *_]:
                method = _method(line, where)
                found.methods[method.name] = method
            case ["__annotations__", "[", key, "]", "=", *kind]:
                found.attributes[key.strip("\"'")] = joined(kind)
            case [attribute, ":", *kind]:
                found.attributes[attribute] = joined(kind[: kind.index("=")] if "=" in kind else kind)
            case _:
                pass
    return found


def _method(line: Line, where: str) -> Method:
    """Read ``def NAME(PARAMETERS) -> RESULT:``."""
    tokens = line.tokens
    if len(tokens) < 5 or tokens[2] != "(" or tokens[-1] != ":":  # noqa: PLR2004 (def NAME ( ) :)
        refuse(where, "a function without a head")
    inner, end = split(tokens, 3)
    result = joined(tokens[end + 1 : -1]).removeprefix("->").strip() or "None"
    parameters = []
    for part in inner:
        kind = part[2:] if len(part) > 1 and part[1] == ":" else []
        parameters.append((part[0], joined(kind[: kind.index("=")] if "=" in kind else kind)))
    return Method(tokens[1], parameters, result, line.block)


def split(tokens: list[str], start: int) -> tuple[list[list[str]], int]:
    """Return what stands between commas from ``start`` up to the closing bracket, and where that is."""
    parts: list[list[str]] = [[]]
    depth = 0
    for at in range(start, len(tokens)):
        word = tokens[at]
        if word in _CLOSE and depth == 0:
            return [part for part in parts if part], at
        if word == "," and depth == 0:
            parts.append([])
            continue
        depth += (word in _OPEN) - (word in _CLOSE)
        parts[-1].append(word)
    return [part for part in parts if part], len(tokens)


def joined(tokens: Iterable[str]) -> str:
    """Return tokens as text, as they are usually set."""
    return "".join(tokens).replace(",", ", ").replace("->", " -> ").strip()
