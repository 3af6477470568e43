"""MLflow's filter strings: comparisons joined by ``AND``, nothing else.

Text becomes values here; which columns they compare stands with each search.

::

    name = 'churn' AND tags.`team` ILIKE '%risk%'
    metrics.auc >= 0.9 and params.depth IN ('3', '4') and attributes.status = 'FINISHED'

Source: MLflow's documentation "Search Runs" and "Search Models".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import func, not_

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement

MAX_LENGTH = 8192
MAX_TERMS = 50
MAX_LIST = 500
_ESCAPE = "\\"

Kind = Literal["attribute", "tag", "param", "metric"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("attribute", "attributes", "attr", "run", "model"), "attribute"),
    **dict.fromkeys(("tag", "tags"), "tag"),
    **dict.fromkeys(("param", "params", "parameter", "parameters"), "param"),
    **dict.fromkeys(("metric", "metrics"), "metric"),
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
    |(?P<operator><=|>=|!=|<>|[=<>(),])
    |(?P<word>[A-Za-z_][\w-]*(?:\.(?:`[^`]+`|"[^"]+"|[\w./-]+))?|`[^`]+`))""",
    re.VERBOSE | re.IGNORECASE,
)
_COMPARE = frozenset({"=", "!=", "<", "<=", ">", ">="})
_TEXT_ONLY = frozenset({"LIKE", "ILIKE"})


@dataclass(frozen=True)
class Clause:
    """One comparison.

    Attributes:
        operator: ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``LIKE``, ``ILIKE``, ``IN``, ``NOT IN``, ``IS NULL``
            or ``IS NOT NULL``.
        value: Text, a number, a tuple of texts, or None.
    """

    kind: Kind
    key: str
    operator: str
    value: Any


def parse(text: str | None) -> tuple[Clause, ...]:
    """Return the comparisons of a filter; none, where it is empty.

    Raises:
        UsageError: It is no such filter; the message says where it stops being one.
    """
    if not text or not text.strip():
        return ()
    if len(text) > MAX_LENGTH:
        msg = f"a filter of {len(text)} characters (expected at most {MAX_LENGTH})"
        raise UsageError(msg)
    tokens = _Tokens(text)
    found = [_clause(tokens)]
    while tokens.kind:
        tokens.take("word", "AND")
        found.append(_clause(tokens))
        if len(found) > MAX_TERMS:
            msg = f"a filter of more than {MAX_TERMS} comparisons"
            raise UsageError(msg)
    return tuple(found)


def order(terms: Collection[str], known: Collection[str]) -> tuple[tuple[Kind, str, bool], ...]:
    """Return what to sort by: kind, key, and whether it ascends.

    Args:
        terms: ``name``, ``metrics.auc DESC``.
        known: The attributes that can be sorted by.

    Raises:
        UsageError: A term is none, or there are too many.
    """
    if len(terms) > MAX_TERMS:
        msg = f"order_by has more than {MAX_TERMS} terms"
        raise UsageError(msg)
    found = []
    for term in terms:
        base, _, way = term.strip().rpartition(" ")
        ascends = way.upper() != "DESC"
        name = base.strip() if way.upper() in {"ASC", "DESC"} and base.strip() else term.strip()
        kind, key = _identifier(name[:MAX_LENGTH])
        if kind == "attribute" and key not in known:
            msg = f"order_by {term[:200]!r}: cannot be sorted by {key[:100]!r}, only by {', '.join(sorted(known))}"
            raise UsageError(msg)
        found.append((kind, key, ascends))
    return tuple(found)


def compare(column: ColumnElement[Any], clause: Clause, *, numeric: bool = False) -> ColumnElement[bool]:
    """Return a comparison as SQL; every value is bound, none is written into the text.

    Raises:
        UsageError: A number is compared with text, or the other way round.
    """
    value, operator = clause.value, clause.operator
    found: ColumnElement[bool] | None = None
    if operator in {"IS NULL", "IS NOT NULL"}:
        found = column.is_(None) if operator == "IS NULL" else column.is_not(None)
    elif numeric:
        found = _ordered(column, operator, _as_number(clause)) if operator in _COMPARE else None
    elif operator in {"IN", "NOT IN"}:
        found = column.in_(value) if operator == "IN" else column.not_in(value)
    elif operator in _TEXT_ONLY and isinstance(value, str):
        exact = operator == "LIKE"
        pattern = value.replace(_ESCAPE, _ESCAPE + _ESCAPE)
        text = column if exact else func.lower(column)
        found = text.like(pattern if exact else pattern.lower(), escape=_ESCAPE)
    elif operator in {"=", "!="} and isinstance(value, str):
        found = column == value if operator == "=" else column != value
    if found is not None:
        return found
    msg = f"{clause.key[:100]!r} cannot be compared so: {operator} {str(value)[:100]!r}"
    raise UsageError(msg, remedy="texts take = != LIKE ILIKE IN, numbers take = != < <= > >=")


def holds(text: str | None, clause: Clause) -> bool:
    """Say whether a text that is at hand meets a clause; one that is not there (None) meets only ``IS NULL``."""
    operator, value = clause.operator, clause.value
    if operator in {"IS NULL", "IS NOT NULL"}:
        return (text is None) == (operator == "IS NULL")
    if text is None:
        return False
    if operator in {"IN", "NOT IN"}:
        return (text in value) == (operator == "IN")
    if isinstance(value, str) and operator in {"=", "!="}:
        return (text == value) == (operator == "=")
    if isinstance(value, str) and operator in _TEXT_ONLY:
        return _like(text, value) if operator == "LIKE" else _like(text.lower(), value.lower())
    msg = f"{clause.key[:100]!r} cannot be compared so: {clause.operator} {str(clause.value)[:100]!r}"
    raise UsageError(msg)


def _like(text: str, pattern: str) -> bool:
    """Say whether a text fits; the leftmost place of each part is good enough, so nothing is tried twice."""
    first, *others = (re.compile(re.escape(part).replace("_", "."), re.DOTALL) for part in pattern.split("%"))
    if not others:
        return first.fullmatch(text) is not None
    found = first.match(text)
    for part in others[:-1]:
        found = part.search(text, found.end()) if found else None
    last = pattern.rpartition("%")[2]
    tail = len(text) - len(last)
    return found is not None and tail >= found.end() and others[-1].fullmatch(text, tail) is not None


def _ordered(column: ColumnElement[Any], operator: str, value: float) -> ColumnElement[bool]:
    compared: dict[str, ColumnElement[bool]] = {
        "=": column == value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }
    return not_(column == value) if operator == "!=" else compared[operator]


def _as_number(clause: Clause) -> float:
    if isinstance(clause.value, int | float):
        return clause.value
    msg = f"{clause.key[:100]!r} is a number; it was compared with {str(clause.value)[:100]!r}"
    raise UsageError(msg)


class _Tokens:
    """A cursor over a filter's words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.kind = ""
        self.value = ""
        self._next()

    def take(self, kind: str, value: str = "") -> str:
        """Return the word here, which must be of a kind, and go on."""
        found = self.value
        if self.kind != kind or (value and found.upper() != value):
            shown = repr(self._text[self._at - len(found) :][:60]) if self.kind else "the end"
            msg = f"filter: expected {value or kind} at {shown}"
            raise UsageError(msg, remedy="for example: name = 'churn' and tags.team ILIKE '%risk%'")
        self._next()
        return found

    def word(self, value: str) -> bool:
        """Say whether this word is here."""
        return self.kind == "word" and self.value.upper() == value

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                msg = f"filter: cannot be read from {self._text[self._at :][:60]!r} on"
                raise UsageError(msg, remedy="for example: name = 'churn' and tags.team ILIKE '%risk%'")
            self.kind, self.value = "", ""
            return
        self.kind, self.value = str(match.lastgroup), match[str(match.lastgroup)]
        self._at = match.end()


def _clause(tokens: _Tokens) -> Clause:
    kind, key = _identifier(tokens.take("word"))
    operator = _operator(tokens)
    if operator in {"IN", "NOT IN"}:
        return Clause(kind, key, operator, _list(tokens))
    if operator in {"IS NULL", "IS NOT NULL"}:
        return Clause(kind, key, operator, None)
    if tokens.kind == "number":
        return Clause(kind, key, operator, _number(tokens.take("number")))
    return Clause(kind, key, operator, _unquoted(tokens.take("text")))


def _operator(tokens: _Tokens) -> str:
    if tokens.kind == "operator":
        found = tokens.take("operator")
        if found in _COMPARE or found == "<>":
            return "!=" if found == "<>" else found
    for words in (("LIKE",), ("ILIKE",), ("IN",), ("NOT", "IN"), ("IS", "NULL")):
        if tokens.word(words[0]):
            tokens.take("word", words[0])
            rest = ("NOT", "NULL") if words[0] == "IS" and tokens.word("NOT") else words[1:]
            for word in rest:
                tokens.take("word", word)
            return " ".join((words[0], *rest))
    tokens.take("a comparison")
    raise AssertionError  # it is never one, so that the line above says what was found


def _list(tokens: _Tokens) -> tuple[str, ...]:
    tokens.take("operator", "(")
    found = [_unquoted(tokens.take("text"))]
    while tokens.value == ",":
        tokens.take("operator", ",")
        found.append(_unquoted(tokens.take("text")))
        if len(found) > MAX_LIST:
            msg = f"filter: a list of more than {MAX_LIST} entries"
            raise UsageError(msg)
    tokens.take("operator", ")")
    return tuple(found)


def _identifier(word: str) -> tuple[Kind, str]:
    entity, dot, key = word.partition(".")
    if dot and not word.startswith(("`", '"')):
        if (kind := _KINDS.get(entity.lower())) is None:
            msg = f"{entity[:100]!r} is nothing that can be searched (expected attributes, tags, params, metrics)"
            raise UsageError(msg)
        return kind, key.strip("`\"'") if key[:1] in {"`", '"', "'"} else key
    return "attribute", word.strip('`"')


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _unquoted(text: str) -> str:
    return text[1:-1]
