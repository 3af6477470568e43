"""The Open Inference Protocol, version 2, over REST, with the extensions that its clients know.

* Triton's: binary tensors, raw requests, classification, model repository, statistics, configuration, generate;
* MLServer's ``infer_stream``: the answer in parts, as server-sent events.

Shared memory, tracing and logging are of another machine's inside; they are answered with 501 and a reason.

Source: https://github.com/kserve/open-inference-protocol, ``specification/protocol/inference_rest.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import NotOfferedError
from vitrify.serve.protocols import _json, _oip_rest_answer, _oip_rest_request
from vitrify.serve.protocols._asking import answered, aside, askable, own_version, size_of, versions
from vitrify.serve.protocols._described import ANYTHING, DescribedRoute, an_array, an_object
from vitrify.serve.protocols._json import JSON
from vitrify.serve.protocols._oip_rest_answer import OCTETS
from vitrify.serve.protocols.oip_rest_generate import stream_routes
from vitrify.serve.protocols.oip_rest_repository import repository_routes
from vitrify.serve.protocols.oip_rest_statistics import statistics_routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.models import Engine
    from vitrify.serve.ports import Port
    from vitrify.serve.web import Answer, Call, Endpoint, Route

MODEL = "/v2/models/{model}"
VERSION = "/v2/models/{model}/versions/{version}"
EXTENSIONS = (
    *("binary_tensor_data", "classification", "model_repository", "model_repository(unload_dependents)"),
    *("model_configuration", "parameters", "schedule_policy", "sequence", "statistics", "generate"),
)

_TEXT = {"type": "string"}
_SHAPE = an_array({"type": "integer"})
_METADATA_TENSOR = an_object({"name": _TEXT, "datatype": _TEXT, "shape": _SHAPE}, "name", "datatype", "shape")
_TENSOR = an_object(
    {"name": _TEXT, "datatype": _TEXT, "shape": _SHAPE, "parameters": {"type": "object"}, "data": {"type": "array"}},
    *("name", "datatype", "shape"),
)
REQUEST = an_object(
    {
        "id": _TEXT,
        "parameters": {"type": "object"},
        "inputs": an_array(_TENSOR),
        "outputs": an_array(an_object({"name": _TEXT, "parameters": {"type": "object"}}, "name")),
    },
    "inputs",
)
RESPONSE = an_object(
    {
        "model_name": _TEXT,
        "model_version": _TEXT,
        "id": _TEXT,
        "parameters": {"type": "object"},
        "outputs": an_array(_TENSOR),
    },
    *("model_name", "model_version", "outputs"),
)
_SERVER = an_object({"name": _TEXT, "version": _TEXT, "extensions": an_array(_TEXT)}, "name", "version", "extensions")
_MODEL = an_object(
    {
        "name": _TEXT,
        "versions": an_array(_TEXT),
        "platform": _TEXT,
        "inputs": an_array(_METADATA_TENSOR),
        "outputs": an_array(_METADATA_TENSOR),
        "parameters": {"type": "object"},
    },
    *("name", "versions", "platform", "inputs", "outputs"),
)
_READY = an_object({"name": _TEXT, "ready": {"type": "boolean"}}, "ready")
_LIVE = an_object({"live": {"type": "boolean"}}, "live")
_WAIT = 503


def routes(engine: Engine, is_admin: Callable[[str], bool]) -> tuple[Route, ...]:
    """Return the protocol's routes.

    Args:
        engine: Answers.
        is_admin: Whether a client, by the name of its token, may load and unload models.
    """
    protocol = _Protocol(engine)
    return (
        _route("GET", "/v2", protocol.server, "What this server is, and which extensions it knows.", _SERVER),
        _route("GET", "/v2/health/live", protocol.live, "Whether the server answers at all.", _LIVE, is_open=True),
        _route("GET", "/v2/health/ready", protocol.ready, "Whether all models are ready.", _READY, is_open=True),
        *repository_routes(engine, is_admin),
        *statistics_routes(engine),
        *stream_routes(engine, REQUEST),
        *(
            route
            for path in (MODEL, VERSION)
            for route in (
                _route("GET", f"{path}/ready", protocol.model_ready, "Whether the model is ready.", _READY),
                _infer(f"{path}/infer", protocol.infer),
            )
        ),
        *(
            _route(method, pattern, _absent, "Not offered; answers 501.", ANYTHING)
            for pattern, methods in _ABSENT.items()
            for method in methods
        ),
        *(_route("GET", path, protocol.model, "What the model takes and gives.", _MODEL) for path in (MODEL, VERSION)),
    )


@dataclass(frozen=True)
class _Protocol:
    engine: Engine

    async def server(self, call: Call) -> Answer:
        """Tell what this is."""
        del call
        return _json.answer({"name": "vitrify", "version": own_version(), "extensions": EXTENSIONS})

    async def live(self, call: Call) -> Answer:
        """Answer; that is the answer."""
        del call
        return _json.answer({"live": True})

    async def ready(self, call: Call) -> Answer:
        """Tell whether requests should come."""
        del call
        ready = self.engine.ready
        return _json.answer({"ready": ready}, 200 if ready else _WAIT)

    async def model_ready(self, call: Call) -> Answer:
        """Tell whether a model answers."""
        served = self.engine.served(call.fields["model"], call.fields.get("version", ""))
        ready = served.state == "READY"
        return _json.answer({"name": served.name, "ready": ready}, 200 if ready else _WAIT)

    async def model(self, call: Call) -> Answer:
        """Tell what a model takes and gives."""
        served = self.engine.served(call.fields["model"], call.fields.get("version", ""))
        return _json.answer(
            {
                "name": served.name,
                "versions": [one.version for one in reversed(versions(self.engine, served.name))],
                "platform": served.platform,
                "inputs": [_tensor(port) for port in served.inputs],
                "outputs": [_tensor(port) for port in served.outputs],
                "parameters": {"version": served.version, "digest": served.digest, "state": served.state},
            }
        )

    async def infer(self, call: Call) -> Answer:
        """Answer one request."""
        version = call.fields.get("version", "")
        served = askable(self.engine, call.fields["model"], version)
        asked = await aside(len(call.body), _oip_rest_request.read, call, served, version)
        reply = await self.engine.infer(asked.infer)
        known = answered(self.engine, reply)
        return await aside(size_of(reply), _oip_rest_answer.write, reply, known, asked)


_ABSENT: dict[str, tuple[str, ...]] = {
    "/v2/trace/setting": ("GET", "POST"),
    "/v2/models/{model}/trace/setting": ("GET", "POST"),
    "/v2/logging": ("GET", "POST"),
    **{
        f"/v2/{kind}sharedmemory{region}/{verb}": (method,)
        for kind in ("system", "cuda")
        for region in ("", "/region/{region}")
        for verb, method in (("status", "GET"), ("register", "POST"), ("unregister", "POST"))
    },
}
"""What other servers have and this one has not; each is an extension that a client may ask for."""


async def _absent(call: Call) -> Answer:
    what = "shared memory" if "sharedmemory" in call.path else "tracing" if "trace" in call.path else "log settings"
    msg = f"{what}: this server does not offer it over HTTP"
    raise NotOfferedError(msg, remedy="GET /v2 lists the extensions that it has")


def _tensor(port: Port) -> dict[str, Any]:
    return {"name": port.name, "datatype": port.datatype, "shape": list(port.shape)}


def _route(
    method: str, pattern: str, endpoint: Endpoint, summary: str, gives: dict[str, Any], *, is_open: bool = False
) -> Route:
    label = pattern.strip("/").replace("/versions/{version}", "").replace("{model}", "*")
    takes = {JSON: ANYTHING} if method == "POST" else {}
    return DescribedRoute(
        *(method, pattern, endpoint, label, _json.error_answer, is_open),
        summary=summary,
        takes=takes,
        needs_body=False,
        gives={JSON: gives},
        others={_WAIT: gives} if gives is _READY else {},
    )


def _infer(pattern: str, endpoint: Endpoint) -> Route:
    return DescribedRoute(
        *("POST", pattern, endpoint, "infer", _json.error_answer),
        summary="Run the model once.",
        takes={JSON: REQUEST, OCTETS: ANYTHING},
        gives={JSON: RESPONSE, OCTETS: ANYTHING},
    )
