"""OpenAPI: the description of the whole server, made from the routes themselves, and of each model with its columns.

``/openapi.json`` describes every route; ``/v2/models/{model}/openapi.json`` one model, with the real names and types;
``/`` and ``/docs`` are a page to read and to try them.

Source: OpenAPI Specification 3.1.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vitrify.core.html import page_headers
from vitrify.serve.protocols import _json, _openapi_models
from vitrify.serve.protocols._asking import own_version
from vitrify.serve.protocols._described import DescribedRoute, an_object
from vitrify.serve.protocols._openapi_page import page
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.serve.models import Engine, Served
    from vitrify.serve.web import Call, Endpoint, Route

    Schema = dict[str, Any]

_DOCUMENT = an_object({"openapi": {"type": "string"}, "paths": {"type": "object"}}, "openapi", "paths")
_FIELD = re.compile(r"\{(\w+)\*?\}")
_TOKEN = {"token": {"type": "http", "scheme": "bearer", "description": "needed where clients are configured"}}


def routes(engine: Engine, others: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of the descriptions.

    Args:
        engine: Knows the models.
        others: Every other route; those that tell about themselves are described.
    """
    told = _Told(engine, tuple(others))
    models = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
    documents: tuple[tuple[str, Endpoint, str], ...] = (
        ("/openapi.json", told.server, "This description."),
        *((f"{path}/openapi.json", told.model, "The description of one model, with its columns.") for path in models),
    )
    pages = ("/", "/docs", "/v2/docs", *(f"{path}/docs" for path in models))
    told.own.extend(
        (
            *(
                DescribedRoute(
                    *("GET", path, endpoint, "openapi", _json.error_answer), summary=what, gives={_json.JSON: _DOCUMENT}
                )
                for path, endpoint, what in documents
            ),
            *(
                DescribedRoute(
                    *("GET", path, told.page, "docs", _json.error_answer),
                    summary="A page to read about the models, and to try them.",
                    gives={"text/html": {"type": "string"}},
                )
                for path in pages
            ),
        )
    )
    return tuple(told.own)


class _Told:
    def __init__(self, engine: Engine, others: tuple[Route, ...]) -> None:
        self.engine = engine
        self.others = others
        self.own: list[Route] = []
        self.headers = page_headers(page(()))

    async def server(self, call: Call) -> Answer:
        """Describe everything."""
        del call
        return _json.answer(document((*self.others, *self.own)))

    async def model(self, call: Call) -> Answer:
        """Describe one model."""
        return _json.answer(model_document(self.engine.served(call.fields["model"], call.fields.get("version", ""))))

    async def page(self, call: Call) -> Answer:
        """Show the models, or one of them."""
        if model := call.fields.get("model"):
            shown: tuple[Served, ...] = (self.engine.served(model, call.fields.get("version", "")),)
        else:
            shown = self.engine.index()
        return Answer(200, page(shown).encode(), dict(self.headers))


def document(routes: Iterable[Route]) -> Schema:
    """Return the description of all routes that tell about themselves."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, DescribedRoute):
            path = _FIELD.sub(r"{\1}", route.pattern)
            paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return _whole("Vitrify", "Models over REST: every protocol that clients speak.", paths)


def model_document(served: Served) -> Schema:
    """Return the description of one model: its real names, types and sizes."""
    name, version = quote(served.name, safe=""), quote(served.version, safe="")
    infer = f"/v2/models/{name}/versions/{version}/infer"
    batched = served.signature.batched
    paths = {infer: _model_operation("infer", _openapi_models.infer_request(served), served)}
    paths[infer]["post"]["responses"]["200"] = _content(
        {_json.JSON: _openapi_models.infer_response(served)}, "What the model says."
    )
    paths[infer]["post"]["requestBody"]["content"][_json.JSON]["example"] = _openapi_models.example(served)
    if batched:
        predict = f"/v1/models/{name}/versions/{served.number}:predict"
        paths[predict] = _model_operation("predict", _openapi_models.predict_request(served), served)
    if batched and served.signature.is_table:
        invocations = _model_operation("invocations", _openapi_models.invocation(served), served)
        named = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("model", "version")]
        paths["/invocations"] = {"post": {**invocations["post"], "parameters": named}}
    summary = f"Version {served.version} of {served.name}, {served.digest}"
    return _whole(served.name, summary, paths, version=served.version)


def _whole(title: str, summary: str, paths: Mapping[str, Any], version: str = "") -> Schema:
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version or own_version(), "summary": summary},
        "security": [{}, {"token": []}],
        "paths": dict(paths),
        "components": {"securitySchemes": _TOKEN},
    }


def _operation(route: DescribedRoute) -> Schema:
    others = {str(status): _content({_json.JSON: schema}, "Not now.") for status, schema in route.others.items()}
    found: Schema = {
        "operationId": f"{route.method.lower()} {route.pattern}",
        "summary": route.summary,
        "responses": {
            "200": _content(route.gives, "Done."),
            **others,
            "default": _content({_json.JSON: route.error}, "It could not be done; what was found and expected."),
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _FIELD.findall(route.pattern)
    ]
    parameters += [
        {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
        for name, what in route.query.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if route.takes:
        found["requestBody"] = {"required": route.needs_body, **_content(route.takes)}
    if route.open:
        found["security"] = [{}]
    return found


def _model_operation(verb: str, request: Schema, served: Served) -> Schema:
    return {
        "post": {
            "operationId": verb,
            "summary": f"Ask {served.name}.",
            "requestBody": {"required": True, **_content({_json.JSON: request})},
            "responses": {
                "200": _content({_json.JSON: {"type": "object"}}, "What the model says."),
                "default": _content({_json.JSON: {"type": "object"}}, "It could not be done."),
            },
        }
    }


def _content(schemas: Mapping[str, Schema], description: str = "") -> Schema:
    found: Schema = {"description": description} if description else {}
    if schemas:
        found["content"] = {media: {"schema": schema} for media, schema in schemas.items()}
    return found
