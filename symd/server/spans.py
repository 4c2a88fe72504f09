"""A span for each RPC, by OpenTelemetry's conventions (opentelemetry.io/docs/specs/semconv/rpc/rpc-spans), and below it
one for each question that a worker answered. Only a daemon that was asked for spans imports this module
(``lifecycle.tracing``)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from symd import __version__
from symd.errors import FailedPrecondition, SymdError, by_reason
from symd.server.call import Call
from symd.server.logs import CANCELLED, OK

LAST_SECONDS: Final = 3.0
"""How long spans that are left may take to be sent when the daemon ends."""
PROTOCOLS: Final = ("", "grpc")
_SERVICE_NAME: Final = "service.name"
_FAULTS: Final = frozenset(("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"))
"""The codes that are the server's fault, not the caller's (rpc-spans, "gRPC status")."""
_PEERS: Final = frozenset(("ipv4", "ipv6"))
_NANOSECONDS: Final = 1_000_000_000


class Spans:
    """Makes spans, which ``processor`` takes. Safe to use from several threads."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("symd", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, call: Call, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Begin the span of a call, below the caller's where its ``traceparent`` (w3.org/TR/trace-context) came with
        it."""
        carrier = {key: value for key, value in metadata if isinstance(value, str)}
        service, _, method = call.method.rpartition(".")
        name = f"{service}/{method}"
        attributes = {"rpc.system.name": "grpc", "rpc.method": name, "symd.call.id": call.number, **_peer(call.peer)}
        context = self._propagator.extract(carrier)
        span = self._tracer.start_span(name, context, SpanKind.SERVER, attributes)
        call.span = span
        call.in_span = partial(use_span, span, record_exception=False, set_status_on_exception=False)

    def end(self, call: Call, outcome: str) -> None:
        """End it. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an error."""
        span = call.span
        if span is None:
            return
        code = outcome if outcome in (OK, CANCELLED) else (by_reason(outcome) or SymdError).status
        span.set_attribute("rpc.response.status_code", code)
        if call.module or call.subject:
            span.set_attribute("symd.module", call.module or call.subject)
        if outcome != OK:
            span.set_attribute("error.type", outcome)
        if code in _FAULTS:
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end()

    def read(self, work: str, outcome: str, seconds: float) -> None:
        """The span of what a worker did, which has just ended: below the call's in whose thread that was; of its own
        where none was."""
        now = time.time_ns()
        attributes = {} if outcome == OK else {"error.type": outcome}
        span = self._tracer.start_span(
            f"worker.{work}", attributes=attributes, start_time=now - round(seconds * _NANOSECONDS)
        )
        if outcome != OK:
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(now)

    def close(self) -> None:
        """Send what is left, as long as somebody takes it."""
        ending = threading.Thread(target=self._provider.shutdown, name="symd-spans", daemon=True)
        ending.start()
        ending.join(LAST_SECONDS)


@contextmanager
def sending(endpoint: str) -> Iterator[Spans]:
    """Spans that are sent by OTLP over gRPC to ``endpoint``; where that is "" to where the environment says."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    if protocol not in PROTOCOLS:
        raise FailedPrecondition(
            f"spans are sent by OTLP over gRPC, not {protocol}",
            where="OTEL_EXPORTER_OTLP_PROTOCOL",
            hint="name the collector's gRPC port (4317), and set it to grpc or not at all",
        )
    spans = Spans(BatchSpanProcessor(OTLPSpanExporter(endpoint or None)))
    try:
        yield spans
    finally:
        spans.close()


def _resource() -> Resource:
    """Who sends the spans: what the environment says, else symd."""
    named = os.environ.get("OTEL_SERVICE_NAME") or _SERVICE_NAME in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    name = {} if named else {_SERVICE_NAME: "symd"}
    return Resource.create({**name, "service.version": __version__})


def _peer(peer: str) -> Mapping[str, str | int]:
    """Where a call came from, of gRPC's "ipv4:10.0.0.7:41210"."""
    kind, _, rest = peer.partition(":")
    if kind not in _PEERS:
        return {"network.transport": "unix"} if kind == "unix" else {}
    host, _, port = rest.rpartition(":")
    address = host.removeprefix("%5B").removesuffix("%5D").strip("[]")
    facts: dict[str, str | int] = {"network.transport": "tcp", "network.peer.address": address}
    return {**facts, "network.peer.port": int(port)} if port.isdecimal() else facts
