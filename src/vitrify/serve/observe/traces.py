"""Traces: a span a call, and in it what the queue and the model took, told to an OpenTelemetry collector.

A caller's ``traceparent`` is taken over, so that the call stands in the caller's trace. The variables of OpenTelemetry
(``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER``, ``OTEL_EXPORTER_OTLP_HEADERS`` ...) mean what they mean elsewhere.

Sources: https://www.w3.org/TR/trace-context/; https://opentelemetry.io/docs/specs/semconv/http/http-spans/ and
``.../rpc/grpc/``. There are no conventions for models that are served: those names begin with ``vitrify.``.
"""

from __future__ import annotations

import threading
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vitrify.core.errors import MissingDependencyError, UsageError
from vitrify.serve.web import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.serve.observe.heard import Heard
    from vitrify.serve.rpc import RpcCall
    from vitrify.serve.values import Infer, Reply

_PATH = "/v1/traces"
_LAST = 5.0
"""Seconds for what is left at the end."""
_NANO = 1_000_000_000
_SERVER_ERROR = 500
_RPC_ERRORS = frozenset({2, 4, 12, 13, 14, 15})
"""gRPC codes that are the server's fault, as the conventions have it."""


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
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            msg = f"traces need {error.name}"
            raise MissingDependencyError(msg, remedy="pip install 'vitrify[traces]'") from error
        where = address if parts.path.strip("/") else address.rstrip("/") + _PATH
        resource = Resource.create({"service.version": metadata.version("vitrify")})
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "vitrify"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
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

    def answered(self, heard: Heard, request: Infer, answer: Reply | BaseException) -> None:
        """Tell what a model took in a call."""
        span = heard.span
        if isinstance(answer, BaseException) or answer.waited is None or answer.computed is None or span is None:
            return
        end = time.time_ns()
        computing = end - int(answer.computed * _NANO)
        waiting = computing - int(answer.waited * _NANO)
        context = self._api.set_span_in_context(span)
        attributes: dict[str, Any] = {
            "vitrify.model.name": request.model,
            "vitrify.model.version": answer.version,
            "vitrify.model.digest": answer.digest,
            "vitrify.rows": heard.rows,
        }
        for name, start, stop in (("queue", waiting, computing), ("compute", computing, end)):
            self._tracer.start_span(name, context, attributes=attributes, start_time=start).end(stop)

    def http_end(self, heard: Heard, call: Call, route: str, status: int, size: int) -> None:
        """End the span of a call over HTTP."""
        if heard.span is not None:
            heard.span.update_name(f"{call.method} {route}")
        facts: dict[str, Any] = {
            "http.response.status_code": status,
            "http.response.body.size": size,
            "vitrify.route": route,
        }
        if status >= _SERVER_ERROR:
            facts["error.type"] = heard.error or str(status)
        self._end(heard, call.id, call.client, facts, failed=status >= _SERVER_ERROR)

    def rpc_end(self, heard: Heard, call: RpcCall, id_: str, status: int) -> None:
        """End the span of a call over gRPC."""
        facts: dict[str, Any] = {"rpc.grpc.status_code": status}
        if status:
            facts["error.type"] = heard.error or str(status)
        self._end(heard, id_, call.client, facts, failed=status in _RPC_ERRORS)

    def _end(self, heard: Heard, id_: str, client: str, facts: dict[str, Any], *, failed: bool) -> None:
        span = heard.span
        if span is None:
            return
        facts["vitrify.request.id"] = id_
        if client:
            facts["vitrify.client"] = client
        if heard.model:
            facts |= {
                "vitrify.model.name": heard.model,
                "vitrify.model.version": heard.version,
                "vitrify.model.digest": heard.digest,
                "vitrify.rows": heard.rows,
            }
        span.set_attributes(facts)
        if failed:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))
        span.end()

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
