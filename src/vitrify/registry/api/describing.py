"""The content's routes as OpenAPI describes them: they carry bytes, so no request of ours does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vitrify.registry.api.operations import JSON

REF = "#/components/schemas/{name}"


@dataclass(frozen=True)
class Described:
    """One route: what stands in the description beside what all have."""

    method: str
    path: str
    name: str
    role: str
    summary: str
    described: dict[str, Any]


def json_response(schema: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the description of an answer in JSON."""
    return {"description": what, "content": {JSON: {"schema": schema}}}


_CONTENT, _UPLOADS, _UPLOAD = "/v1/content/{digest}", "/v1/uploads", "/v1/uploads/{id}"
_ARRIVED = {"type": "integer", "minimum": 0}
_DIGEST = {
    "name": "digest",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
}
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}}
_RANGE = {"name": "Range", "in": "header", "schema": {"type": "string"}, "description": "One range of bytes."}
_OFFSET = {"name": "Upload-Offset", "in": "header", "required": True, "schema": _ARRIVED}
_TOLD = {"Upload-Offset": {"schema": _ARRIVED, "description": "How much has arrived for good."}}
_BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
_SENT = {"required": True, **_BYTES}
_BEGUN = {"required": True, "content": {JSON: {"schema": {"$ref": REF.format(name="StartUpload")}}}}
_STATE = json_response({"$ref": REF.format(name="UploadState")}, "Where the upload stands.")
_DONE = {"description": "Done."}
_PARTS = {
    "200": {"description": "All of it.", **_BYTES},
    "206": {"description": "The range.", **_BYTES},
    "304": {"description": "The caller has it."},
    "416": {"description": "The range is outside."},
}
_KEPT = {
    "200": json_response({"type": "object"}, "It was there already."),
    "201": json_response({"type": "object"}, "It is kept."),
}

CONTENT: tuple[Described, ...] = (
    Described(
        "head",
        _CONTENT,
        "HeadContent",
        "reader",
        "Say whether content is there.",
        {"parameters": [_DIGEST], "responses": {"200": _DONE}},
    ),
    Described(
        "get",
        _CONTENT,
        "GetContent",
        "reader",
        "Return content, or a part.",
        {"parameters": [_DIGEST, _RANGE], "responses": _PARTS},
    ),
    Described(
        "put",
        _CONTENT,
        "PutContent",
        "writer",
        "Take content in one go.",
        {"parameters": [_DIGEST], "requestBody": _SENT, "responses": _KEPT},
    ),
    Described(
        "post",
        _UPLOADS,
        "StartUpload",
        "writer",
        "Begin an upload.",
        {"requestBody": _BEGUN, "responses": {"200": _STATE, "201": _STATE}},
    ),
    Described(
        "head",
        _UPLOAD,
        "HeadUpload",
        "writer",
        "Say how much has arrived.",
        {"parameters": [_ID], "responses": {"200": {**_DONE, "headers": _TOLD}}},
    ),
    Described(
        "patch",
        _UPLOAD,
        "AppendUpload",
        "writer",
        "Add bytes at the offset.",
        {"parameters": [_ID, _OFFSET], "requestBody": _SENT, "responses": {"200": _STATE}},
    ),
    Described(
        "put",
        _UPLOAD,
        "CommitUpload",
        "writer",
        "Check the content and keep it.",
        {"parameters": [_ID], "responses": {"201": _STATE}},
    ),
    Described(
        "delete",
        _UPLOAD,
        "AbortUpload",
        "writer",
        "Give the upload up.",
        {"parameters": [_ID], "responses": {"204": _DONE}},
    ),
)
