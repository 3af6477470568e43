"""Prediction records: what a model was asked and answered in service, and whether it still answers so.

A record is one line of JSON::

    {"digest": "sha256:…", "inputs": {"age": [41, 17]}, "outputs": {"label": [1, 0]}, "id": "42", "time": "…"}

Columns are nested lists in the signature's names. Numbers that JSON lacks are the texts ``NaN``, ``Infinity`` and
``-Infinity``, bytes are base64; null is a missing value. The digest names the very artifact that answered, so that
years later the same bytes are asked again. ``id``, ``time``, ``model``, ``version`` and ``client`` are the service's
own.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vitrify.checks.parity import open_session
from vitrify.checks.replay import replay_session
from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError, SignatureError
from vitrify.core.report import Finding, Report
from vitrify.core.wire import MAX_DOCUMENT_BYTES, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Arrays, Session
    from vitrify.core.signature import Field

_MOST_FINDINGS = 100
_NO_NUMBERS = {float("inf"): "Infinity", float("-inf"): "-Infinity"}


class Record(Value, frozen=True, kw_only=True):
    """One prediction that was made.

    Attributes:
        digest: The artifact that answered.
        inputs: What it was asked, a column each input.
        outputs: What it answered, a column each output.
        id: The service's name for it.
        time: When, as the service writes it.
        model: The name that it was served by.
        version: Which version of it.
        client: Who asked.
    """

    digest: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    id: str = ""
    time: str = ""
    model: str = ""
    version: str = ""
    client: str = ""

    def __post_init__(self) -> None:
        """Refuse what names no artifact."""
        Digest.parse(self.digest)

    @classmethod
    def of(cls, digest: Digest, inputs: Arrays, outputs: Arrays, **more: Any) -> Self:
        """Return the record of a prediction; ``more`` are the service's own fields."""
        return cls(digest=str(digest), inputs=_columns(inputs), outputs=_columns(outputs), **more)


def replay(
    lines: Iterable[bytes],
    find: Callable[[Digest], Artifact],
    *,
    allow: Collection[str] = (),
    runtime: str | None = None,
) -> Report:
    """Ask the artifact of each line's record again; see :func:`replay_records` and :func:`read_lines`."""
    return replay_records(read_lines(lines), find, allow=allow, runtime=runtime)


def replay_records(
    records: Iterable[tuple[str, Record]],
    find: Callable[[Digest], Artifact],
    *,
    allow: Collection[str] = (),
    runtime: str | None = None,
) -> Report:
    """Ask each record's artifact again, and hold its answer against the record's.

    Args:
        records: Each with the place where it stands: of :func:`read_lines`, or of
            :func:`vitrify.checks.record_files.read_records`.
        find: Returns the artifact of a digest, or raises ReferenceNotFoundError.
        allow: Exact dotted names of code that may run.
        runtime: Catalog name; by default each artifact's own.

    Returns:
        ``clean`` where every record was asked again and answered alike; details count records by artifact.

    Raises:
        MalformedError: There is something that is no record; the message says where.
    """
    findings: list[Finding] = []
    verdicts: Counter[str] = Counter()
    counts: dict[str, dict[str, int]] = {}
    sessions: dict[str, Session | Finding] = {}
    try:
        for place, record in records:
            session = _opened(sessions, record.digest, find, allow, runtime)
            found = [session] if isinstance(session, Finding) else _ask(session, record)
            said = "unknown" if isinstance(session, Finding) else "different" if found else "same"
            count = counts.setdefault(record.digest, {"same": 0, "different": 0, "unknown": 0})
            count[said] += 1
            for finding in found:
                verdicts[finding.verdict] += 1
                if verdicts[finding.verdict] <= _MOST_FINDINGS:
                    findings.append(finding.replace(place=f"{place}: {finding.place}"))
    finally:
        for session in sessions.values():
            if not isinstance(session, Finding):
                session.close()
    details = {"records": sum(sum(count.values()) for count in counts.values()), "artifacts": counts}
    report = Report.of("replay", findings, details | {"findings": verdicts.total()})
    return report.replace(findings=report.findings[:_MOST_FINDINGS])


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[str, Record]]:
    """Yield the record in each line of JSON, and where it stands.

    Raises:
        MalformedError: A line is no record; the message has its number.
    """
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_DOCUMENT_BYTES:
            msg = f"line {number}: {len(line)} bytes, more than {MAX_DOCUMENT_BYTES} for one record"
            raise MalformedError(msg)
        if line.strip():
            record = Record.from_json(line, where=f"line {number}")
            yield f"line {number}" + (f" ({record.id})" if record.id else ""), record


def _opened(
    sessions: dict[str, Session | Finding],
    digest: str,
    find: Callable[[Digest], Artifact],
    allow: Collection[str],
    runtime: str | None,
) -> Session | Finding:
    if digest not in sessions:
        try:
            sessions[digest] = open_session(find(Digest.parse(digest)).subject(allow=allow), runtime)
        except ReferenceNotFoundError as error:
            sessions[digest] = Finding(
                place=digest, message=error.message, remedy=error.remedy, rule="no-artifact", verdict="not checked"
            )
    return sessions[digest]


def _ask(session: Session, record: Record) -> list[Finding]:
    try:
        inputs = _arrays(record.inputs, session.signature.inputs)
        expected = _arrays(record.outputs, session.signature.outputs)
    except SignatureError as error:
        return [Finding(place="the record", message=error.message, remedy=error.remedy)]
    return list(replay_session(session, inputs, expected).findings)


def _arrays(columns: dict[str, Any], fields: tuple[Field, ...]) -> Arrays:
    """Return columns as arrays of the element types that the signature says."""
    by_name = {field.name: field for field in fields}
    if unknown := sorted(columns.keys() - by_name.keys()):
        msg = f"the model has no {', '.join(unknown)} (it has: {', '.join(by_name)})"
        raise SignatureError(msg, remedy="replay records on the artifact that made them")
    return {name: _array(column, by_name[name]) for name, column in columns.items()}


def _array(column: Any, field: Field) -> np.ndarray[Any, Any]:
    try:
        array = np.array(column, dtype=object)
        if field.dtype in {"string", "object"}:
            return array
        if field.dtype == "bytes":
            return _each(array, _bytes)
        if field.dtype.startswith(("datetime64", "timedelta64")):
            return array.astype(field.dtype)
        missing = np.array([item is None for item in array.flat], dtype=bool).reshape(array.shape)
        if not missing.any():
            return array.astype(field.dtype)
        if np.dtype(field.dtype).kind in "iub":
            return np.ma.MaskedArray(np.where(missing, 0, array).astype(field.dtype), mask=missing)
        return np.where(missing, np.nan, array).astype(field.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        msg = f"{field.name!r} is no {field.dtype} ({error})"
        raise SignatureError(msg, remedy="write records with vitrify.checks.records.Record.of") from error


def _each(array: np.ndarray[Any, Any], function: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    changed = np.empty(array.shape, dtype=object)
    changed.ravel()[:] = [function(value) for value in array.ravel()]
    return changed


def _bytes(value: Any) -> Any:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


def _columns(arrays: Arrays) -> dict[str, Any]:
    return {name: _plain(array.tolist()) for name, array in arrays.items()}


def _plain(value: Any) -> Any:
    match value:
        case list():
            return [_plain(item) for item in value]
        case float() if value != value:  # noqa: PLR0124 (what NaN is)
            return "NaN"
        case float():
            return _NO_NUMBERS.get(value, value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value
