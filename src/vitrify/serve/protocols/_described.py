"""Described routes: a route, and beside it what goes in and what comes out, as JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.serve.protocols._json import JSON
from vitrify.serve.web import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
ANYTHING: Schema = {}


def an_object(properties: Mapping[str, Schema], *required: str) -> Schema:
    """Return the schema of an object that may hold more than is named."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def an_array(items: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


ERROR: Schema = an_object({"error": TEXT}, "error")


@dataclass(frozen=True)
class DescribedRoute(Route):
    """A route that tells about itself.

    Attributes:
        summary: What it does, in one sentence.
        takes: The body that it takes, by media type; none where it takes no body.
        needs_body: Whether the body may not be left out.
        gives: What it answers, by media type.
        others: What it answers with another status than 200 that is no error, by status.
        error: What it says when it could not.
        query: Names in the query, and what each says.
    """

    summary: str = ""
    takes: Mapping[str, Schema] = field(default_factory=dict)
    needs_body: bool = True
    gives: Mapping[str, Schema] = field(default_factory=lambda: {JSON: OBJECT})
    others: Mapping[int, Schema] = field(default_factory=dict)
    error: Schema = field(default_factory=lambda: ERROR)
    query: Mapping[str, str] = field(default_factory=dict)
