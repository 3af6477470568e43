"""The operations as routes: a request is made from path, query and body, and its answer is JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.nesting import shallow
from vitrify.registry.api.routing import Answer, Call, Route
from vitrify.registry.requests import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.wire import Value
    from vitrify.registry.requests import Operation, Request

JSON = "application/json"
_HEADERS = {"content-type": JSON, "cache-control": "no-store"}
_UNKNOWN = b'"__unknown__"'
"""Where a value holds fields that it has no name for, only ``to_json`` knows their places."""
_FIELD = re.compile(r"\{(\w+)\}")


def operation_routes() -> tuple[Route, ...]:
    """Return a route for each operation."""
    return tuple(
        Route(operation.method, operation.path, operation.role, _endpoint(operation), request.__name__)
        for request, operation in OPERATIONS.items()
    )


def path_fields(operation: Operation) -> tuple[str, ...]:
    """Return the names of the fields that stand in the path."""
    return tuple(_FIELD.findall(operation.path))


def in_query(operation: Operation) -> bool:
    """Say whether the other fields stand in the query, and not in a body."""
    return operation.method in {"GET", "DELETE"}


def _endpoint(operation: Operation) -> Callable[[Call], Answer]:
    read = _reader(operation)

    def endpoint(call: Call) -> Answer:
        return Answer(200, _encoded(call.backend.do(read(call))), dict(_HEADERS))

    return endpoint


def _encoded(answer: Value) -> bytes:
    """Return an answer as JSON: what ``to_json`` says, its keys in any order, in a twentieth of the time."""
    data = msgspec.json.encode(answer)
    return answer.to_json() if _UNKNOWN in data else data


def _reader(operation: Operation) -> Callable[[Call], Request]:
    fields = [field for field in msgspec.structs.fields(operation.request) if field.name != "extra"]
    types = {field.encode_name: field.type for field in fields}
    placed = path_fields(operation)
    where = operation.request.__name__

    def from_query(call: Call) -> Request:
        raw: dict[str, Any] = {name: _converted(value, types[name], name) for name, value in call.path.items()}
        for name, values in call.query.items():
            if name not in types or name in raw or len(values) != 1:
                msg = f"{where} takes no field {name!r} here, or not more than once"
                raise UsageError(msg, remedy=f"its fields are: {', '.join(types) or 'none'}")
            raw[name] = _converted(values[0], types[name], name)
        return operation.request.from_builtins(raw, where=where)

    def from_body(call: Call) -> Request:
        raw = json_of(call, where)
        if call.query or any(name in raw for name in placed):
            msg = f"{where} takes {', '.join(placed) or 'nothing'} in the path and the rest in the body, once"
            raise UsageError(msg)
        raw.update((name, _converted(value, types[name], name)) for name, value in call.path.items())
        return operation.request.from_builtins(raw, where=where)

    return from_query if in_query(operation) else from_body


def json_of(call: Call, where: str) -> dict[str, Any]:
    """Return the body as a dict; an empty one is an empty dict.

    Only JSON that says so is taken: a page of another site can make a browser send anything else, with the password
    that the browser knows.

    Raises:
        UsageError: It does not say that it is JSON.
        MalformedError: It is not, or no object.
    """
    said = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != JSON:
        msg = f"the body is said to be {said[:100]!r}, expected {JSON}"
        raise UsageError(msg, remedy=f"send the header Content-Type: {JSON}")
    try:
        raw = msgspec.json.decode(shallow(call.body)) if call.body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{where}: not valid JSON ({error})"
        raise MalformedError(msg) from error
    if not isinstance(raw, dict):
        msg = f"{where}: expected a JSON object"
        raise MalformedError(msg)
    return raw


def _converted(text: str, type_: Any, name: str) -> Any:
    """Return a text of a path or a query as its field's type."""
    if type_ is str:
        return text
    try:
        return msgspec.convert(text, type_, strict=False)
    except msgspec.ValidationError as error:
        msg = f"{name}: {error}"
        raise MalformedError(msg) from error
