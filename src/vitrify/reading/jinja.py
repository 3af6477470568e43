"""Jinja templates, parsed as far as a judge needs it: which expressions there are, and which names get which values.

Nothing is rendered and no jinja is needed. Statements come back flat, in the order of the text: who asks what a
template *could* do need not know which branch it takes.

Source: https://jinja.palletsprojects.com/en/stable/templates/.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT = 256 * 1024
"""Characters of a template; the longest chat templates have some ten thousand."""
MAX_DEPTH = 60
"""Of brackets, operators that bind differently and the like inside each other."""
MAX_TREE = 200
"""Of an expression's tree, in which a chain (``a.b.c``, ``a - b + c``) is deep too."""

_OPEN = re.compile(r"\{\{|\{%|\{#")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}")
_ENDRAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][-+]?\d+)?))
    |(?P<text>'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<name>[^\W\d]\w*)
    |(?P<operator>//|\*\*|==|!=|>=|<=|[-+*/%~<>=.:|,;()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_BINDING = {
    **dict.fromkeys(("or",), 1),
    **dict.fromkeys(("and",), 2),
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    "~": 6,
    **dict.fromkeys(("*", "/", "//", "%"), 7),
    "**": 9,
}
_NOT, _UNARY = 3, 8
_COMPUTING = frozenset({"if", "elif", "do", "autoescape"})
"""Statements that are an expression; those that are not known here are not parsed, and left to the judge by name."""
_ESCAPE = re.compile(
    r"""\\(?:[\\'"abfnrtv\n]|[0-3]?[0-7]{1,2}|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|N\{[^}]*\})"""
)
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
_WORDS = frozenset({"if", "else", "and", "or", "not", "in", "is", "recursive"})


@dataclass(frozen=True)
class Expression:
    """A part of an expression.

    Attributes:
        kind: ``constant``, ``name``, ``attribute`` (of the first part), ``item`` (of the first part, the second is
            the key), ``slice``, ``call`` (of the first part), ``keyword``, ``spread`` (``*x``), ``filter`` (of the
            first part), ``test``, ``list``, ``dict``, ``unary``, ``binary``, ``condition``.
        value: The constant, the name, the operator.
        parts: What it is made of.
        line: Where it stands, from 1.
        depth: Of the tree below it.
    """

    kind: str
    value: Any
    parts: tuple[Expression, ...] = ()
    line: int = 0
    depth: int = 1

    def walk(self) -> Iterator[Expression]:
        """Yield this and every part of it."""
        left = [self]
        while left:
            one = left.pop()
            yield one
            left.extend(one.parts)


@dataclass(frozen=True)
class Statement:
    """A ``{{ }}`` or a ``{% %}``.

    Attributes:
        tag: ``output`` for the former, else the statement's first word.
        targets: What gets a value: names, attributes of a namespace, parameters of a macro.
        expressions: What they get, and what else is computed.
        line: Where it stands.
    """

    tag: str
    targets: tuple[Expression, ...]
    expressions: tuple[Expression, ...]
    line: int


def parse(text: str, *, where: str) -> tuple[Statement, ...]:
    """Return a template's statements.

    Raises:
        MalformedError: It is no template that Jinja would take.
        LimitExceededError: It is longer than ``MAX_TEXT``, or nested deeper than ``MAX_DEPTH``.
    """
    if len(text) > MAX_TEXT:
        exceed(where, f"a template of {len(text)} characters, more than {MAX_TEXT}")
    return tuple(_statements(text, where))


def _statements(text: str, where: str) -> Iterator[Statement]:
    at, line, counted = 0, 1, 0
    while found := _OPEN.search(text, at):
        line, counted = line + text.count("\n", counted, found.start()), found.start()
        if found[0] == "{#":
            at = _after(text, "#}", found.end(), where, line)
        elif raw := _RAW.match(text, found.start()):
            end = _ENDRAW.search(text, raw.end())
            at = end.end() if end else refuse(where, f"line {line}: raw without endraw")
        else:
            parser = _Parser(text, found, where, line)
            yield parser.statement()
            at = parser.end


def _after(text: str, mark: str, start: int, where: str, line: int) -> int:
    end = text.find(mark, start)
    return end + len(mark) if end >= 0 else refuse(where, f"line {line}: a comment that does not end")


class _Parser:
    """The tokens of one statement, and the grammar."""

    def __init__(self, text: str, opened: re.Match[str], where: str, line: int) -> None:
        self._where, self._line, self._depth = where, line, 0
        self._output = opened[0] == "{{"
        start = opened.end() + (text[opened.end() : opened.end() + 1] in {"-", "+"})
        self._tokens, self.end = self._lex(text, start, "}}" if self._output else "%}")
        self._at = 0

    def _lex(self, text: str, at: int, mark: str) -> tuple[list[tuple[str, str]], int]:
        """Return the tokens up to the closing mark, and where that ends. A bracket that is open holds it open."""
        tokens: list[tuple[str, str]] = []
        opened = 0
        while at < len(text):
            if not opened and (text.startswith(mark, at) or (text[at] in "-+" and text.startswith(mark, at + 1))):
                return tokens, at + len(mark) + (text[at] in "-+")
            token = _TOKEN.match(text, at)
            if token is None:
                break
            if token.lastgroup != "space":
                tokens.append((str(token.lastgroup), token[0]))
                opened += (token[0] in {"(", "[", "{"}) - (token[0] in {")", "]", "}"})
            at = token.end()
        return self._wrong("no Jinja, or one that does not end")

    def _wrong(self, what: str) -> NoReturn:
        refuse(self._where, f"line {self._line}: {what}")

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "")

    def _take(self, *operators: str) -> bool:
        """Go over one of these, if it is next."""
        kind, text = self._peek()
        taken = kind in {"operator", "name"} and text in operators
        self._at += taken
        return taken

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            self._wrong(f"{operator!r} was expected, not {self._peek()[1]!r}")

    def _name(self) -> str:
        kind, text = self._peek()
        if kind != "name":
            self._wrong(f"a name was expected, not {text!r}")
        self._at += 1
        return text

    def _make(self, kind: str, value: Any, *parts: Expression) -> Expression:
        depth = 1 + max((part.depth for part in parts), default=0)
        if depth > MAX_TREE:
            exceed(self._where, f"line {self._line}: an expression of more than {MAX_TREE} parts inside each other")
        return Expression(kind, value, parts, self._line, depth)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            exceed(self._where, f"line {self._line}: nested more than {MAX_DEPTH} deep")
        yield
        self._depth -= 1

    def statement(self) -> Statement:
        tag = "output" if self._output else self._name()
        targets, expressions = ((), (self._tuple(),)) if self._output else self._content(tag)
        if self._peek()[0] != "end":
            self._wrong(f"{self._peek()[1]!r} where {tag!r} should end")
        return Statement(tag, targets, expressions, self._line)

    def _content(self, tag: str) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        if tag in _COMPUTING:
            return (), (self._tuple(),)
        if tag in {"macro", "call", "block"}:
            return self._head(tag)
        if tag == "filter":
            # The text up to endfilter goes through it.
            self._at -= 1
            self._tokens[self._at] = ("operator", "|")
            return (), (self._postfix(self._make("constant", "")),)
        if binding := {"for": self._for, "set": self._set, "with": self._with}.get(tag):
            return binding()
        self._at = len(self._tokens)
        return (), ()

    def _for(self) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        targets = self._targets()
        self._expect("in")
        found = [self._tuple(condition=False)]
        if self._take("if"):
            found.append(self._expression())
        self._take("recursive")
        return targets, tuple(found)

    def _set(self) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        targets = self._targets()
        if self._take("="):
            return targets, (self._tuple(),)
        # What stands up to endset is the value: text, which a filter may change.
        return targets, (self._postfix(self._make("filter", "string", self._make("constant", ""))),)

    def _head(self, tag: str) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        """Read ``macro name(parameter, parameter=default)``, ``call(parameter) expression`` or ``block name``."""
        targets = [self._make("name", self._name())] if tag != "call" else []
        found: list[Expression] = []
        if tag == "block":
            while self._take("scoped", "required"):
                pass
        elif self._take("("):
            while not self._take(")"):
                targets.append(self._make("name", self._name()))
                if self._take("="):
                    found.append(self._expression())
                if self._peek()[1] != ")":
                    self._expect(",")
        if tag == "call":
            found.append(self._expression())
        return tuple(targets), tuple(found)

    def _with(self) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
        targets: list[Expression] = []
        found: list[Expression] = []
        while self._peek()[0] != "end":
            targets.append(self._make("name", self._name()))
            self._expect("=")
            found.append(self._expression())
            self._take(",")
        return tuple(targets), tuple(found)

    def _targets(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while True:
            if self._take("("):
                with self._deeper():
                    found += self._targets()
                self._expect(")")
            else:
                target = self._make("name", self._name())
                found.append(self._make("attribute", self._name(), target) if self._take(".") else target)
            if not self._take(",") or self._peek()[1] in {")", "in", "="}:
                return tuple(found)

    def _tuple(self, *, condition: bool = True) -> Expression:
        first = self._expression(condition=condition)
        if self._peek()[1] != ",":
            return first
        found = [first]
        while self._take(",") and self._peek()[0] != "end" and self._peek()[1] not in {")", "if"}:
            found.append(self._expression(condition=condition))
        return self._make("list", None, *found)

    def _expression(self, *, condition: bool = True) -> Expression:
        with self._deeper():
            found = self._binary(0)
            while condition and self._take("if"):
                test = self._binary(0)
                other = self._expression() if self._take("else") else self._make("constant", None)
                found = self._make("condition", None, found, test, other)
        return found

    def _binary(self, least: int) -> Expression:
        left = self._unary(least)
        while True:
            kind, operator = self._peek()
            word = "in" if operator == "not" and self._peek(1)[1] == "in" else operator
            strength = _BINDING.get(word, -1) if kind in {"operator", "name"} else -1
            if strength <= least:
                return left
            self._at += 1 if word == operator else 2
            # A power binds what is right of it first. A chain of one operator is one node: long texts are built so.
            chain = [left]
            while True:
                chain.append(self._nested(strength - 1 if word == "**" else strength))
                if operator == "not" or self._peek() != (kind, operator):
                    break
                self._at += 1
            left = self._make("binary", word, *chain)

    def _nested(self, least: int) -> Expression:
        with self._deeper():
            return self._binary(least)

    def _unary(self, least: int) -> Expression:
        if self._peek()[0] == "name" and least < _NOT and self._take("not"):
            return self._make("unary", "not", self._nested(_NOT - 1))
        if self._take("-", "+"):
            return self._postfix(self._make("unary", "-", self._nested(_UNARY)))
        return self._postfix(self._primary())

    def _primary(self) -> Expression:
        kind, text = self._peek()
        self._at += 1
        if kind == "name" and text not in _WORDS:
            return self._make("constant", _CONSTANTS[text]) if text in _CONSTANTS else self._make("name", text)
        if kind == "number":
            return self._make("constant", 0)
        if kind == "text":
            return self._make("constant", self._text(text))
        if text in {"(", "["} and kind == "operator":
            return self._items(")" if text == "(" else "]")
        if text == "{" and kind == "operator":
            return self._dict()
        return self._wrong(f"{text!r} where a value was expected")

    def _text(self, first: str) -> str:
        """Return a text constant as Jinja means it, escapes resolved; neighbours are one text."""
        pieces = [first]
        while self._peek()[0] == "text":
            pieces.append(self._peek()[1])
            self._at += 1
        try:
            found = "".join(_ESCAPE.sub(_unescaped, piece[1:-1]) for piece in pieces)
        except ValueError:
            self._wrong("a text constant with an escape that means nothing")
        return found

    def _items(self, close: str) -> Expression:
        found = []
        single = close == ")"
        while not self._take(close):
            found.append(self._expression())
            if self._peek()[1] != close:
                self._expect(",")
                single = False
        return found[0] if single and len(found) == 1 else self._make("list", None, *found)

    def _dict(self) -> Expression:
        found = []
        while not self._take("}"):
            found.append(self._expression())
            self._expect(":")
            found.append(self._expression())
            if self._peek()[1] != "}":
                self._expect(",")
        return self._make("dict", None, *found)

    def _postfix(self, base: Expression) -> Expression:
        while True:
            if self._take("."):
                kind, text = self._peek()
                self._at += 1
                if kind not in {"name", "number"}:
                    self._wrong(f"a name was expected after a dot, not {text!r}")
                base = self._make("attribute", text, base) if kind == "name" else self._item(base, 0)
            elif self._take("["):
                base = self._subscript(base)
            elif self._take("("):
                base = self._make("call", None, base, *self._arguments())
            elif self._take("|"):
                arguments = self._dotted()
                base = self._make("filter", arguments, base, *(self._arguments() if self._take("(") else ()))
            elif self._peek() == ("name", "is"):
                base = self._test(base)
            else:
                return base

    def _item(self, base: Expression, key: int) -> Expression:
        return self._make("item", None, base, self._make("constant", key))

    def _dotted(self) -> str:
        name = self._name()
        while self._take("."):
            name += f".{self._name()}"
        return name

    def _test(self, base: Expression) -> Expression:
        self._at += 1
        self._take("not")
        name = self._dotted()
        kind, text = self._peek()
        if self._take("("):
            return self._make("test", name, base, *self._arguments())
        if kind in {"number", "text"} or (kind == "name" and text not in {*_WORDS, "is"}) or text in {"[", "{"}:
            with self._deeper():
                return self._make("test", name, base, self._postfix(self._primary()))
        return self._make("test", name, base)

    def _arguments(self) -> tuple[Expression, ...]:
        found = []
        while not self._take(")"):
            if self._take("*", "**"):
                found.append(self._make("spread", None, self._expression()))
            elif self._peek()[0] == "name" and self._peek(1)[1] == "=":
                name = self._name()
                self._at += 1
                found.append(self._make("keyword", name, self._expression()))
            else:
                found.append(self._expression())
            if self._peek()[1] != ")":
                self._expect(",")
        return tuple(found)

    def _subscript(self, base: Expression) -> Expression:
        """Read what stands in brackets: a key, a slice, or several of them."""
        found, sliced = [], False
        while not self._take("]"):
            if self._take(":", ","):
                sliced = True
            else:
                found.append(self._expression())
        if not sliced and len(found) == 1:
            return self._make("item", None, base, found[0])
        return self._make("slice", None, base, *found)


def _unescaped(found: re.Match[str]) -> str:
    return found[0].encode().decode("unicode-escape")
