"""The query language of ``vitrify search``: text to a tree. It knows nothing of SQL.

::

    stage = production and metrics.auc >= 0.9
    name ~ "team/*" and (tags.owner = risk or not status = deprecated) order by metrics.auc desc, created
    created > 2026-11-01 and alias in (champion, canary)
    churn                                 # a word alone: in the name or the description

Fields: ``name``, ``version``, ``number``, ``stage``, ``status``, ``author``, ``owner``, ``licence``, ``description``,
``digest``, ``commit``, ``run``, ``format``, ``alias``, ``created``, ``updated``, and ``tags.KEY``, ``metrics.KEY``,
``parameters.KEY``, ``datasets.KEY``; a key with other characters than letters, digits and ``_ - /`` stands in quotes.
Operators: ``=  !=  <  <=  >  >=``, ``~`` and ``!~`` for globs, ``in (…)``, ``and``, ``or``, ``not``, brackets. What
compares a key that a version does not have is false, so ``not tags.team = risk`` also finds versions without a team.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from vitrify.core.errors import UsageError
from vitrify.registry.values import STAGES, STATUSES

TEXTS = frozenset(
    {"name", "version", "stage", "status", "author", "owner", "licence", "description", "digest", "commit", "run"}
    | {"format", "alias"}
)
TIMES = frozenset({"created", "updated"})
NUMBERS = frozenset({"number"})
CLOSED: dict[str, tuple[str, ...]] = {"stage": STAGES, "status": STATUSES}
"""Fields that have one of few values: another finds nothing, and is a mistake."""
KEYED = {"tags": "tag", "metrics": "metric", "parameters": "parameter", "datasets": "dataset"}

MAX_LENGTH = 4096
_MAX_DEPTH = 50
_MAX_TERMS = 100
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<operator><=|>=|!=|!~|[=<>~(),])
    |(?P<word>[^\s=<>!~(),"'.]+\.(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|[^\s=<>!~(),"']+))""",
    re.VERBOSE,
)
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "~", "!~"})
_WORDS = frozenset({"and", "or", "not", "in", "order", "by", "asc", "desc"})

Scalar = str | float | datetime


@dataclass(frozen=True)
class Field:
    """What is compared: a column, or an entry by its key."""

    name: str
    key: str | None = None


@dataclass(frozen=True)
class Comparison:
    """One comparison; ``in`` has several values."""

    field: Field
    operator: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Anywhere:
    """A word that stands in the name or the description."""

    word: str


@dataclass(frozen=True)
class Not:
    """What must not hold."""

    term: Term


@dataclass(frozen=True)
class Several:
    """What must hold all together, or at least one of it."""

    operator: Literal["and", "or"]
    terms: tuple[Term, ...]


Term = Comparison | Anywhere | Not | Several


@dataclass(frozen=True)
class Query:
    """A whole query: what must hold, and the order of what is found."""

    where: Term | None
    order: tuple[tuple[Field, bool], ...]

    def mentions(self, name: str) -> bool:
        """Say whether a field is asked for anywhere."""
        return self.where is not None and _mentions(self.where, name)


def parse(text: str) -> Query:
    """Parse a query.

    Raises:
        UsageError: It is none; the message points at the place.
    """
    if len(text) > MAX_LENGTH:
        msg = f"a query of {len(text)} characters; at most {MAX_LENGTH} are taken"
        raise UsageError(msg)
    return _Parser(text).query()


class _Parser:
    """Recursive descent over the tokens, bounded in depth and number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0
        self.terms = 0

    def query(self) -> Query:
        where = None if self.peek() in {None, "order"} else self.either()
        order: list[tuple[Field, bool]] = []
        if self.take("order"):
            self.expect("by")
            order.append(self.ordering())
            while self.take(","):
                order.append(self.ordering())
        if self.at < len(self.tokens):
            self.fail("'and', 'or', 'order by' or the end")
        return Query(where, tuple(order))

    def either(self) -> Term:
        terms = [self.both()]
        while self.take("or"):
            terms.append(self.both())
        return terms[0] if len(terms) == 1 else Several("or", tuple(terms))

    def both(self) -> Term:
        terms = [self.one()]
        while self.take("and"):
            terms.append(self.one())
        return terms[0] if len(terms) == 1 else Several("and", tuple(terms))

    def one(self) -> Term:
        self.depth += 1
        self.terms += 1
        if self.depth > _MAX_DEPTH or self.terms > _MAX_TERMS:
            self.fail(f"at most {_MAX_DEPTH} levels and {_MAX_TERMS} terms")
        try:
            if self.take("not"):
                return Not(self.one())
            if self.take("("):
                inner = self.either()
                self.expect(")")
                return inner
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Term:
        word, quoted = self.next("a field or a word")
        operator = self.peek()
        if operator not in _COMPARISONS and operator != "in":
            return Anywhere(word)
        if quoted:
            self.at -= 1
            self.fail("a field, which stands without quotes")
        field = self.field(word)
        self.at += 1
        if operator != "in":
            value, _ = self.next("a value")
            return Comparison(field, str(operator), (self.value(field, value, str(operator)),))
        self.expect("(")
        values = [self.value(field, self.next("a value")[0], "=")]
        while self.take(","):
            values.append(self.value(field, self.next("a value")[0], "="))
        self.expect(")")
        return Comparison(field, "in", tuple(values))

    def ordering(self) -> tuple[Field, bool]:
        field = self.field(self.next("a field to order by")[0])
        if field.name in {"alias", "format"}:
            self.at -= 1
            self.fail("a field of which a version has one")
        descending = self.take("desc")
        if not descending:
            self.take("asc")
        return field, descending

    def field(self, word: str) -> Field:
        name, dot, key = word.partition(".")
        if dot and key and name in KEYED:
            return Field(name, _unquoted(key) if key[0] in "\"'" else key)
        if not dot and name in TEXTS | TIMES | NUMBERS:
            return Field(name)
        self.at -= 1
        self.fail(
            f"a field: {', '.join(sorted(TEXTS | TIMES | NUMBERS))}, {', '.join(f'{name}.KEY' for name in KEYED)}"
        )
        raise AssertionError

    def value(self, field: Field, text: str, operator: str) -> Scalar:
        if operator in {"~", "!~"}:
            if field.name in TEXTS or field.name in {"tags", "parameters", "datasets"}:
                return text
            self.at -= 2
            self.fail(f"a comparison that {field.name} has: numbers and times have no glob")
        if text not in CLOSED.get(field.name, (text,)):
            self.at -= 1
            self.fail(f"one of {', '.join(CLOSED[field.name])}")
        if field.name in TIMES:
            return self.time(text)
        if field.name in NUMBERS or field.name == "metrics":
            return self.number(text)
        if operator in {"<", "<=", ">", ">="} and field.name == "parameters":
            return self.number(text)
        return text

    def number(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.at -= 1
            self.fail("a finite number")
        return number

    def time(self, text: str) -> datetime:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            self.at -= 1
            self.fail("a time: 2026-11-30 or 2026-11-30T12:00:00Z")
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    def peek(self) -> str | None:
        """Return the next token in lower case where it is a word of the language or an operator."""
        if self.at == len(self.tokens):
            return None
        text, quoted, _ = self.tokens[self.at]
        return "" if quoted else text.lower() if text.lower() in _WORDS else text

    def take(self, word: str) -> bool:
        if self.peek() == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.fail(repr(word))

    def next(self, expected: str) -> tuple[str, bool]:
        """Return a word or a quoted text, and whether it was quoted."""
        if self.at < len(self.tokens):
            text, quoted, _ = self.tokens[self.at]
            if quoted or (text not in _COMPARISONS and text not in {"(", ")", ","} and text.lower() not in _WORDS):
                self.at += 1
                return text, quoted
        self.fail(expected)
        raise AssertionError

    def fail(self, expected: str) -> None:
        """Point at the place.

        Raises:
            UsageError: Always.
        """
        place = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        shown = self.text.replace("\n", " ").replace("\t", " ")
        msg = f"not a query: expected {expected}, at character {place + 1}\n  {shown}\n  {' ' * place}^"
        raise UsageError(msg, remedy="for example: stage = production and metrics.auc >= 0.9 order by created desc")


def _tokens(text: str) -> list[tuple[str, bool, int]]:
    found: list[tuple[str, bool, int]] = []
    end = len(text.rstrip())
    at = 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            while text[at].isspace():
                at += 1
            msg = f"not a query: {text[at]!r} at character {at + 1} begins nothing\n  {text}\n  {' ' * at}^"
            raise UsageError(msg, remedy="put text with such characters in quotes")
        part = match[match.lastgroup]
        quoted = match.lastgroup == "quoted"
        found.append((_unquoted(part) if quoted else part, quoted, match.start(match.lastgroup)))
        at = match.end()
    return found


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _mentions(term: Term, name: str) -> bool:
    match term:
        case Comparison():
            return term.field.name == name
        case Not():
            return _mentions(term.term, name)
        case Several():
            return any(_mentions(one, name) for one in term.terms)
        case _:
            return False
