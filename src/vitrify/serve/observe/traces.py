"""Traces: a span a call, and in it what the queue and the model took, told to an OpenTelemetry collector.

Of a call that a plane answers itself the spans are made when it has ended, from what the plane tells of it: only of
those that are sampled, which the plane decides as the sampler would.

A caller's ``traceparent`` is taken over, so that the call stands in the caller's trace. The variables of OpenTelemetry
(``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER``, ``OTEL_EXPORTER_OTLP_HEADERS`` ...) mean what they mean elsewhere.

Sources: https://www.w3.org/TR/trace-context/; https://opentelemetry.io/docs/specs/semconv/http/http-spans/ and
``.../rpc/grpc/``. There are no conventions for models that are served: those names begin with ``vitrify.``.
"""

from __future__ import annotations

import re
import threading
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from vitrify.core.errors import MissingDependencyError, UsageError
from vitrify.serve.observe.heard import Heard
from vitrify.serve.rpc import RpcCall
from vitrify.serve.web import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.serve.values import Reply

_PATH = "/v1/traces"
_LAST = 5.0
"""Seconds for what is left at the end."""
_NANO = 1_000_000_000
_SERVER_ERROR = 500
_RPC_ERRORS = frozenset({2, 4, 12, 13, 14, 15})
"""gRPC codes that are the server's fault, as the conventions have it."""


_DESCRIBED = re.compile(r"ParentBased\{root:(?P<root>.+?),remoteParentSampled:(?P<sampled>\w+),(?P<rest>.*)\}")
_RATIO = re.compile(r"TraceIdRatioBased\{(?P<rate>[0-9.e+-]+)\}")


class Ended(msgspec.Struct, frozen=True):
    """A traced request that a plane has answered itself: its line of the access log, and more.

    Attributes:
        trace: Its trace's id, in hexadecimal.
        parent: Its ``traceparent``; empty where the trace begins here.
        state: Its ``tracestate``.
        method: Of HTTP.
        path: As it was asked for.
        error: The name of the error's class; empty for none.
        end: By ``time.time()``.
    """

    id: str
    client: str
    protocol: str
    route: str
    model: str
    version: str
    digest: str
    status: int
    rows: int
    queued_ms: float
    computed_ms: float
    total_ms: float
    bytes: int
    trace: str
    parent: str
    state: str
    method: str
    path: str
    error: str
    end: float


def described(sampler: str) -> dict[str, Any]:
    """Return which requests a sampler samples, by its description, as a plane can decide it.

    Returns:
        ``parents``, whether a caller decides for its own requests, and the ``rate`` of all others. Of a sampler that is
        not known, all: it is asked again when the span is made.
    """
    found = _DESCRIBED.fullmatch(sampler)
    parents = found is not None and (found["sampled"], found["rest"].partition(",")[0]) == (
        "AlwaysOnSampler",
        "remoteParentNotSampled:AlwaysOffSampler",
    )
    if found is not None and not parents:
        return {"parents": False, "rate": 1.0}
    root = found["root"] if found is not None else sampler
    ratio = _RATIO.fullmatch(root)
    rate = float(ratio["rate"]) if ratio is not None else float(root != "AlwaysOffSampler")
    return {"parents": parents, "rate": rate}


class Traces:
    """Tells a collector.

    Args:
        address: The collector's, OTLP over HTTP; without a path, the usual one.
    """

    def __init__(self, address: str) -> None:
        """Connect to nothing yet.

        Raises:
            UsageError: It is no address.
            MissingDependencyError: The extra ``traces`` is not installed.
        """
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            msg = f"traces is {address!r}; expected the URL of an OpenTelemetry collector"
            raise UsageError(msg, remedy="for example: traces = 'http://127.0.0.1:4318'")
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            msg = f"traces need {error.name}"
            raise MissingDependencyError(msg, remedy="pip install 'vitrify[traces]'") from error
        where = address if parts.path.strip("/") else address.rstrip("/") + _PATH
        resource = Resource.create({"service.version": metadata.version("vitrify")})
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "vitrify"}))
        chosen = self._chosen = threading.local()

        class Ids(RandomIdGenerator):
            """Has a plane's own id for a trace that begins there."""

            def generate_trace_id(self) -> int:
                own: int = getattr(chosen, "trace", 0)
                return own or super().generate_trace_id()

        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=Ids())
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=where)))
        self._tracer = self._provider.get_tracer("vitrify.serve", metadata.version("vitrify"))
        self._api: Any = trace
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, heard: Heard, call: Call | RpcCall) -> None:
        """Begin the span of a call."""
        if isinstance(call, Call):
            name, attributes = call.method, {"http.request.method": call.method, "url.path": call.path}
            carrier: Mapping[str, str] = call.headers
        else:
            service, _, method = call.path.strip("/").partition("/")
            name, carrier = call.path.strip("/"), call.metadata
            attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        context = self._propagator.extract(carrier)
        kind = self._api.SpanKind.SERVER
        heard.span = self._tracer.start_span(name, context, kind, attributes, start_time=int(heard.began * _NANO))

    def answered(self, heard: Heard, answer: Reply | BaseException) -> None:
        """Tell what a model took in a call."""
        span = heard.span
        if isinstance(answer, BaseException) or answer.waited is None or answer.computed is None or span is None:
            return
        self._stages(heard, answer.waited, answer.computed, time.time_ns())

    def _stages(self, heard: Heard, waited: float, computed: float, end: int) -> None:
        computing = end - int(computed * _NANO)
        waiting = computing - int(waited * _NANO)
        context = self._api.set_span_in_context(heard.span)
        attributes = _answered(heard)
        for name, start, stop in (("queue", waiting, computing), ("compute", computing, end)):
            self._tracer.start_span(name, context, attributes=attributes, start_time=start).end(stop)

    def sampling(self) -> dict[str, Any]:
        """Return which requests a plane has to tell of; see :func:`described`."""
        return described(self._provider.sampler.get_description())

    def ended(self, one: Ended) -> None:
        """Make the spans of a call that a plane has answered itself."""
        fields = {"traceparent": one.parent, "tracestate": one.state}
        heard = Heard(one.end - one.total_ms / 1000, one.model, one.version, one.digest, one.rows, error=one.error)
        self._chosen.trace = 0 if one.parent else int(one.trace, 16)
        call: Call | RpcCall
        if one.protocol == "rest":
            call = Call(one.method, unquote(one.path, errors="replace"), {}, fields, client=one.client, id=one.id)
        else:
            call = RpcCall(one.path, b"", fields, one.client)
        end = int(one.end * _NANO)
        try:
            self.begin(heard, call)
            if not one.error:
                self._stages(heard, one.queued_ms / 1000, one.computed_ms / 1000, end)
            if isinstance(call, Call):
                self.http_end(heard, call, one.route, one.status, one.bytes, end=end)
            else:
                self.rpc_end(heard, call, one.id, one.status, end)
        finally:
            self._chosen.trace = 0

    def http_end(self, heard: Heard, call: Call, route: str, status: int, size: int, *, end: int | None = None) -> None:
        """End the span of a call over HTTP; ``end`` by ``time.time_ns()``, by default now."""
        if heard.span is not None:
            heard.span.update_name(f"{call.method} {route}")
        facts: dict[str, Any] = {
            "http.response.status_code": status,
            "http.response.body.size": size,
            "vitrify.route": route,
        }
        if status >= _SERVER_ERROR:
            facts["error.type"] = heard.error or str(status)
        self._end(heard, call.id, call.client, facts, end, failed=status >= _SERVER_ERROR)

    def rpc_end(self, heard: Heard, call: RpcCall, id_: str, status: int, end: int | None = None) -> None:
        """End the span of a call over gRPC; ``end`` likewise."""
        facts: dict[str, Any] = {"rpc.grpc.status_code": status}
        if status:
            facts["error.type"] = heard.error or str(status)
        self._end(heard, id_, call.client, facts, end, failed=status in _RPC_ERRORS)

    def _end(
        self, heard: Heard, id_: str, client: str, facts: dict[str, Any], end: int | None, *, failed: bool
    ) -> None:
        span = heard.span
        if span is None:
            return
        facts["vitrify.request.id"] = id_
        if client:
            facts["vitrify.client"] = client
        if heard.model:
            facts |= _answered(heard)
        span.set_attributes(facts)
        if failed:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))
        span.end(end)

    def id(self, heard: Heard) -> str:
        """Return the trace's id, in hexadecimal; empty for none."""
        if heard.span is None:
            return ""
        found: str = self._api.format_trace_id(heard.span.get_span_context().trace_id)
        return found

    def close(self) -> None:
        """Tell what is left, for a few seconds: a collector that is not there holds nobody up."""
        last = threading.Thread(target=self._provider.shutdown, name="vitrify-traces", daemon=True)
        last.start()
        last.join(_LAST)


def _answered(heard: Heard) -> dict[str, Any]:
    return {
        "vitrify.model.name": heard.model,
        "vitrify.model.version": heard.version,
        "vitrify.model.digest": heard.digest,
        "vitrify.rows": heard.rows,
    }
