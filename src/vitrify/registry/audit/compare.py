"""Comparing the tables with the state that the log says, row by row."""

from __future__ import annotations

import hashlib
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Row, select

from vitrify.registry.audit.expected import short
from vitrify.registry.database import schema as s
from vitrify.registry.events import fingerprint
from vitrify.registry.handlers.versions import LABELLED, label_rows
from vitrify.registry.needed import dangling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Protocol

    from sqlalchemy import Connection, Select

    from vitrify.registry.audit.state import State

    class Findings(Protocol):
        """Takes what is found."""

        def add(self, place: str, message: str, rule: str) -> None:
            """Note a difference."""


_digests = msgspec.json.Decoder(list[str]).decode
_BATCH = 1000
_SHOWN = 60


def compare(connection: Connection, state: State, findings: Findings) -> None:
    """Note every row that is not as the log says, that the log does not know, or that is missing."""
    tables = _Tables(connection)
    _match(findings, "models", tables.models(), state.models, lambda key: state.models[key].name)
    _match(findings, "versions", tables.versions(), state.versions, lambda key: _version(state, key))
    aliases = {
        (model, alias): {"version": (model, n)} for model, own in state.aliases.items() for alias, n in own.items()
    }
    _match(findings, "aliases", tables.aliases(), aliases, lambda key: f"{state.models[key[0]].name}@{key[1]}")
    _match(findings, "productions", tables.productions(), state.productions, "event {}".format)
    _match(findings, "promotions", tables.promotions(), state.promotions, str)
    _match(findings, "decisions", tables.decisions(), state.decisions, lambda key: f"{key[0]} by {key[1]}")
    _match(findings, "attestations", tables.attestations(), state.attestations, lambda key: f"{key[1]} about {key[0]}")
    _match(findings, "deployments", tables.deployments(), state.deployments, str)
    edges = {key: {"facts": facts} for key, facts in state.edges.items()}
    _match(findings, "edges", tables.edges(), edges, lambda key: " -> ".join(key[:2]))
    _match(findings, "tokens", tables.tokens(), state.tokens, str)
    _match(findings, "webhooks", tables.webhooks(), state.webhooks, str)
    _labels(connection, tables, findings)
    for digest in dangling(connection) if tables.readable else ():
        findings.add(f"blobs {digest}", "a version needs this content, and no row says that it is there", "dangling")


def _match(
    findings: Findings,
    table: str,
    rows: Iterable[tuple[Any, str, dict[str, Any]]],
    expected: Mapping[Any, Any],
    named: Callable[[Any], str],
) -> None:
    seen = set()
    for key, place, row in rows:
        seen.add(key)
        if (wanted := expected.get(key)) is None:
            findings.add(f"{table} {place}", "the log does not know this row", "inserted")
            continue
        for column, value in row.items():
            right = wanted[column] if isinstance(wanted, dict) else getattr(wanted, column)
            if value != right and short(value) != right:  # a name and a version are kept whole, to be shown
                findings.add(
                    f"{table} {place}", f"{column} is {_shown(value)}; the log says {_shown(right)}", "changed"
                )
    if len(seen) < len(expected):
        for key in expected:
            if key not in seen:
                findings.add(f"{table} {named(key)}", "the log knows this row, and it is not there", "deleted")


class _Tables:
    """The rows as they are: key, place and the columns that the log decides."""

    def __init__(self, connection: Connection) -> None:
        """Remember which row is which model and which version."""
        self._connection = connection.execution_options(yield_per=_BATCH)
        self.model: dict[int, int] = {}
        self.name: dict[int, str] = {}
        self.version: dict[int, tuple[int, int]] = {}
        self.title: dict[int, str] = {}
        self.readable = True

    def _stream(self, query: Select[Any]) -> Iterator[Row[Any]]:
        yield from self._connection.execute(query)

    def models(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.models).order_by(s.models.c.id)):
            self.model[row.id], self.name[row.id] = row.created, row.name
            yield row.created, row.name, _columns(row, without="id")

    def versions(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.versions).order_by(s.versions.c.id)):
            key = self.version[row.id] = self.model.get(row.model_id, -1), row.number
            title = self.title[row.id] = f"{self.name.get(row.model_id, '?')}:{row.version}"
            self.readable &= _is_list(row.content)
            columns = _columns(row, without="id model_id content")
            yield key, title, {**columns, "content": fingerprint(row.content)}

    def aliases(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.aliases)):
            key = self.model.get(row.model_id, -1), row.alias
            yield key, f"{self.name.get(row.model_id, '?')}@{row.alias}", {"version": self.version.get(row.version_id)}

    def productions(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.productions)):
            columns = _columns(row, without="event model_id version_id")
            own = {"model": self.model.get(row.model_id), "version": self.version.get(row.version_id)}
            yield row.event, f"event {row.event}", {**own, **columns}

    def promotions(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        yield from self._of_versions(s.promotions)

    def deployments(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        yield from self._of_versions(s.deployments)

    def _of_versions(self, table: Any) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(table)):
            version = {"version": self.version.get(row.version_id)}
            yield row.id, str(row.id), {**version, **_columns(row, without="id version_id")}

    def decisions(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.decisions)):
            columns = _columns(row, without="promotion_id who")
            yield (row.promotion_id, row.who), f"{row.promotion_id} by {row.who}", columns

    def attestations(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.attestations)):
            # Named by what it holds: where the column says something else, the log knows no such row.
            own = f"sha256:{hashlib.sha256(row.content.encode()).hexdigest()}"
            key = (row.subject, own if own == row.digest else f"{row.digest}, whose content has {own}")
            yield key, f"{key[1]} about {row.subject}", _columns(row, without="id subject digest content")

    def edges(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.edges)):
            yield (row.source, row.target, row.kind), f"{row.source} -> {row.target}", {"facts": row.facts}

    def tokens(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.tokens)):
            yield row.id, row.id, {**_columns(row, without="id secret_hash"), "secret": fingerprint(row.secret_hash)}

    def webhooks(self) -> Iterator[tuple[Any, str, dict[str, Any]]]:
        for row in self._stream(select(s.webhooks)):
            yield row.id, str(row.id), {**_columns(row, without="id secret"), "secret": fingerprint(row.secret)}


def _labels(connection: Connection, tables: _Tables, findings: Findings) -> None:
    """Compare the rows that a search goes by with the versions, which were compared with the log."""
    streamed = connection.execution_options(yield_per=_BATCH)
    columns = [s.versions.c[name] for name in LABELLED]
    versions = streamed.execute(select(s.versions.c.id, *columns).order_by(s.versions.c.id))
    rows = streamed.execute(select(s.labels).order_by(s.labels.c.version_id))
    wanted = (
        (version.id, label["kind"], label["key"], label["text"], label["number"])
        for version in versions
        for (_, kind), column in zip(LABELLED.items(), version[1:], strict=True)
        for label in label_rows(version.id, kind, _decoded(column))
    )
    for id_, own, right in _paired(map(tuple, rows), wanted):
        for kind, key in sorted({row[:2] for row in set(own) ^ set(right)}):
            found, said = (next((x[2:] for x in side if x[:2] == (kind, key)), None) for side in (own, right))
            place = f"labels {tables.title.get(id_, id_)} {kind} {key}"
            findings.add(place, f"it is {_shown(found)}; the version says {_shown(said)}", "changed")


def _paired(*streams: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Walk along two streams that are sorted by their first column, and yield what both have of each value of it."""
    groups = [groupby(stream, key=itemgetter(0)) for stream in streams]
    heads = [next(group, None) for group in groups]
    while ids := [head[0] for head in heads if head is not None]:
        id_ = min(ids)
        both: list[list[Any]] = [[], []]
        for side, head in enumerate(heads):
            if head is not None and head[0] == id_:
                both[side] = [row[1:] for row in head[1]]
                heads[side] = next(groups[side], None)
        yield id_, both[0], both[1]


def _is_list(content: str) -> bool:
    try:
        _digests(content)
    except msgspec.MsgspecError:
        return False
    return True


def _decoded(column: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(column)
    except msgspec.DecodeError:
        return {}  # the comparison of the version has found it
    return value if isinstance(value, dict) else {}


def _version(state: State, key: tuple[int, int]) -> str:
    return f"{state.models[key[0]].name}:{state.versions[key].version}"


def _columns(row: Row[Any], *, without: str) -> dict[str, Any]:
    left_out = without.split()
    return {name: value for name, value in row._mapping.items() if name not in left_out}  # noqa: SLF001 (SQLAlchemy's public name)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"a text with the hash {value.hex()[:16]}"
    text = repr(value)
    return (
        text
        if len(text) <= _SHOWN
        else f"{text[:_SHOWN]}… (hash {hashlib.sha256(str(value).encode()).hexdigest()[:16]})"
    )
