"""The OpenAPI description, made from the operations themselves, so that it is never behind them.

Source: OpenAPI Specification 3.1.0.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import metadata
from typing import Any

import msgspec

from vitrify.registry.api.describing import CONTENT, REF, json_response
from vitrify.registry.api.errors import FULL, STATUS
from vitrify.registry.api.operations import JSON, in_query, path_fields
from vitrify.registry.api.uploads import StartUpload, UploadState
from vitrify.registry.requests import OPERATIONS, Operation

_WHAT = {
    400: "The request cannot be meant as written, or the content is not what it was said to be.",
    401: "No token, or one that does not count.",
    403: "Role or policy do not allow it; `report` says which rule.",
    404: "There is no such thing.",
    409: "Somebody else was first, or the name is taken.",
    413: "More than is taken.",
    422: "A check did not pass; `report` says which.",
    500: "The server failed; its log has the details under `id`.",
    503: "Busy, or the database does not answer; nothing was changed.",
    FULL: "No space left; nothing was changed.",
}


@cache
def description() -> bytes:
    """Return the whole document as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """Return the whole document: dicts, lists and scalars, as they come back from JSON."""
    paths: dict[str, dict[str, Any]] = {}
    schemas = _schemas()
    for operation in OPERATIONS.values():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    for method, path, described in _content(_errors()):
        paths.setdefault(path, {})[method] = described
    described = {
        "openapi": "3.1.0",
        "info": {
            "title": "Vitrify registry",
            "version": metadata.version("vitrify"),
            "summary": "Names, versions, stages, approvals, evidence, lineage and log of models.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {f"Error{status}": _error(what) for status, what in _WHAT.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "vit_…: vitrify registry token create"},
                "basic": {"type": "http", "scheme": "basic", "description": "Any user; the token is the password."},
            },
        },
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(described))  # no tuples
    return plain


def _schemas() -> dict[str, Any]:
    types = [operation.answer for operation in OPERATIONS.values()]
    types += [operation.request for operation in OPERATIONS.values()]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys(types), StartUpload, UploadState], ref_template=REF)
    requests = {request.__name__ for request in OPERATIONS} | {StartUpload.__name__}
    for name, schema in schemas.items():
        schema.get("properties", {}).pop("__unknown__", None)  # what we do not know is no field of its own
        if name in requests:
            schema["additionalProperties"] = False
    schemas["Error"] = {
        "type": "object",
        "required": ["error", "message", "remedy", "id"],
        "properties": {
            "error": {"enum": sorted(kind.__name__ for kind in STATUS)},
            "message": {"type": "string", "description": "What was found and what was expected."},
            "remedy": {"type": "string", "description": "The next thing to do."},
            "id": {"type": "string", "description": "The request, in the server's log."},
            "report": {"type": "object", "description": "What a policy or a check said, rule by rule."},
            "names": {"type": "array", "items": {"type": "string"}},
        },
    }
    return schemas


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    request = operation.request
    name = request.__name__
    schema = schemas[name] if in_query(operation) else schemas.pop(name)
    placed = path_fields(operation)
    required = schema.get("required", [])
    parameters = [
        {"name": field, "in": "path", "required": True, "schema": _plain(schema["properties"][field])}
        for field in placed
    ]
    rest = {field: described for field, described in schema["properties"].items() if field not in placed}
    described: dict[str, Any] = {
        "operationId": name,
        "summary": (inspect.getdoc(request) or "").splitlines()[0],
        "description": f"Needs the role {operation.role}.",
        "tags": [operation.path.split("/")[2]],
        "responses": {"200": json_response({"$ref": REF.format(name=operation.answer.__name__)}, "Done."), **_errors()},
    }
    if in_query(operation):
        schemas.pop(name)
        parameters += [
            {"name": field, "in": "query", "required": field in required, "schema": _plain(described_)}
            for field, described_ in rest.items()
        ]
    else:
        body = {"type": "object", "properties": rest, "additionalProperties": False}
        body["required"] = [field for field in required if field not in placed]
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    if parameters:
        described["parameters"] = parameters
    return described


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field as text: what is not given is left out, never null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    found = {**schema, **options[0]} if options else dict(schema)
    found.pop("anyOf", None)
    if found.get("default", "") is None:
        del found["default"]
    if found.get("type") == "string" and not found.keys() & {"enum", "format"} and "default" not in found:
        found["minLength"] = 1
    return found


def _content(common: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (
            row.method,
            row.path,
            {
                "operationId": row.name,
                "summary": row.summary,
                "description": f"Needs the role {row.role}.",
                "tags": ["content"],
                **row.described,
                "responses": {**row.described["responses"], **common},
            },
        )
        for row in CONTENT
    ]


def _errors() -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in _WHAT}


def _error(what: str) -> dict[str, Any]:
    return json_response({"$ref": REF.format(name="Error")}, what)
