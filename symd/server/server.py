"""The composition of the daemon: work queues, the routing table, health and reflection.

The table has every RPC and its handler by its name. A new RPC is one function in a module of ``server/rpc``: it has the
method's name in snake_case and is decorated with the right that the method takes (``answering.method``), without which
no server is built. A new service is one line here, which names its file in ``protos/`` and the module of its functions.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as TooSlow
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import SERVICE_NAME as HEALTH

from symd.api import Host
from symd.config import Limits
from symd.server.answering import Method, options_of, serve_stream, serve_unary
from symd.server.authentication import Authenticator, build_authenticator
from symd.server.config import Config, Right
from symd.server.guard import Answer, guard
from symd.server.listening import GrpcServer, Options
from symd.server.messages import MAX_REQUEST, BytesInFlight
from symd.server.metrics import Metrics
from symd.server.rpc import (
    context_services,
    module_service,
    parca_debuginfo,
    pyroscope_debuginfo,
    question_services,
)
from symd.server.service_context import ServiceContext
from symd.server.standard_services import (
    HEALTH_CHECK,
    HEALTH_WATCH,
    NOT_SERVING,
    REFLECTION,
    SERVING,
    Health,
    Reflection,
    Watches,
)
from symd.server.waiting import WaitingCalls
from symd.server.work_queues import WeightedSemaphore, WorkQueues, build_work_queues
from symd.v1 import (
    alias_service_pb2,
    breakpoint_service_pb2,
    context_service_pb2,
    core_service_pb2,
    listing_service_pb2,
    module_service_pb2,
    name_service_pb2,
    parca_debuginfo_pb2,
    pyroscope_debuginfo_pb2,
    server_service_pb2,
    symbol_service_pb2,
    variable_service_pb2,
)

if TYPE_CHECKING:
    from symd.server.spans import Spans


SERVICES: Final[Mapping[FileDescriptor, ModuleType]] = {
    alias_service_pb2.DESCRIPTOR: context_services,
    breakpoint_service_pb2.DESCRIPTOR: question_services,
    context_service_pb2.DESCRIPTOR: context_services,
    core_service_pb2.DESCRIPTOR: question_services,
    listing_service_pb2.DESCRIPTOR: question_services,
    module_service_pb2.DESCRIPTOR: module_service,
    name_service_pb2.DESCRIPTOR: question_services,
    parca_debuginfo_pb2.DESCRIPTOR: parca_debuginfo,
    pyroscope_debuginfo_pb2.DESCRIPTOR: pyroscope_debuginfo,
    server_service_pb2.DESCRIPTOR: question_services,
    symbol_service_pb2.DESCRIPTOR: question_services,
    variable_service_pb2.DESCRIPTOR: question_services,
}
"""The files of ``protos/`` that have services, and the modules that answer them."""


def services() -> Iterator[ServiceDescriptor]:
    """Every service of the protos."""
    for file in SERVICES:
        yield from file.services_by_name.values()


def handler(method: MethodDescriptor) -> Callable[..., Any]:
    """The function that answers a method: ModuleService's "ListModules" is answered by
    ``module_service.list_modules``."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
    answer: Callable[..., Any] = getattr(SERVICES[method.containing_service.file], name)
    return answer


def methods() -> Mapping[str, Method]:
    """Every method of every service and how it is answered. Raises AttributeError for one without a function, and
    TypeError for a function without a right."""
    return {method.full_name: _method(method) for service in services() for method in service.methods}


def _method(method: MethodDescriptor) -> Method:
    answer, request = handler(method), GetMessageClass(method.input_type)
    return Method(
        method.full_name, answer, request, options_of(answer), method.client_streaming, method.server_streaming
    )


class Router(grpc.GenericRpcHandler):
    """Every path of HTTP/2 that is served and its handler. To gRPC every request is a stream, whatever the protos say,
    which on the wire is the same: so that the handler begins with the headers, and waits for the message itself."""

    def __init__(
        self,
        service: ServiceContext,
        health: Health,
        reflection: Reflection,
        authenticator: Authenticator,
        metrics: Metrics | None = None,
        spans: Spans | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._metrics = metrics
        self._spans = spans
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self.rights: dict[str, Right] = {}
        """The right that each method takes, of all that are served, by their full names."""
        for method in methods().values():
            way = serve_stream if method.many_requests or method.many_responses else serve_unary
            self._add(method.name, method.options.right, partial(way, method, service), many=method.many_responses)
        self._add(HEALTH_CHECK, Right.READ, health.check, many=False)
        self._add(HEALTH_WATCH, Right.READ, health.watch, many=True)
        for name in REFLECTION:
            self._add(f"{name}.ServerReflectionInfo", Right.READ, reflection.answer, many=True)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._handlers.get(handler_call_details.method)

    def _add(self, method: str, right: Right, answer: Answer, *, many: bool) -> None:
        make = grpc.stream_stream_rpc_method_handler if many else grpc.stream_unary_rpc_method_handler
        service, _, name = method.rpartition(".")
        self.rights[method] = right
        self._handlers[f"/{service}/{name}"] = make(
            guard(method, right, answer, self._authenticator, self._metrics, self._spans)
        )


LAST_WAIT = 5.0
"""Seconds beyond the grace after which a server that does not end is left behind."""
MILLISECONDS = 1000
COUNTED_ADDRESSES = 1 << 14
"""A batch of fewer addresses is not counted among those at work, and waits for none."""
NOT_COMPRESSED = 1
"""The bit of "identity" (grpc/impl/compression_types.h). gRPC would expand a message before anything of ours counts
it."""
WRITING = tuple(
    service.full_name
    for file in (alias_service_pb2, context_service_pb2, module_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
)
"""The services that write to the store."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A server that is not listening yet, and what is needed to stop it."""

    server: GrpcServer
    engine: Host
    authenticator: Authenticator
    health: Health
    stopping: threading.Event
    watches: Watches
    work_queues: WorkQueues
    flight: BytesInFlight
    waiting: WaitingCalls

    def set_writable(self, writable: bool) -> None:
        """Say whether the services that write can do so; questions are answered all the same. From any thread, at any
        time."""
        if self.stopping.is_set():
            return
        with suppress(TooSlow, RuntimeError):  # the loop ends before this thread
            self.server.wait_for(_said(self.health, SERVING if writable else NOT_SERVING, WRITING), LAST_WAIT)

    def stop(self, grace: float) -> None:
        """Say NOT_SERVING, take no more calls, give those that run ``grace`` seconds, then end them."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        self.watches.close()
        with suppress(TooSlow):
            self.server.wait_for(_said(self.health, NOT_SERVING, None), LAST_WAIT)
            self.server.stop(grace, grace + LAST_WAIT)


def build_daemon(engine: Host, config: Config, metrics: Metrics | None = None, spans: Spans | None = None) -> Daemon:
    """A daemon with every service, with its health and its end in hand, that is not listening yet. ``metrics``
    counts its calls, ``spans`` tells of each. Raises what ``build_authenticator`` raises."""
    names = (*(service.full_name for service in services()), HEALTH, *REFLECTION)
    waiting = WaitingCalls(config.limits)
    context = ServiceContext(
        engine,
        config,
        build_work_queues(config),
        waiting,
        BytesInFlight(config.limits),
        Watches(config.watches),
        WeightedSemaphore(ADDRESSES_AT_WORK, COUNTED_ADDRESSES),
        names,
    )
    health = Health(names, waiting, Watches())
    authenticator = build_authenticator(config.listen)
    router = Router(context, health, Reflection(names, waiting), authenticator, metrics, spans)
    server = GrpcServer(router, options(config.limits))
    daemon = Daemon(
        server,
        engine,
        authenticator,
        health,
        context.stopping,
        context.watches,
        context.work_queues,
        context.flight,
        waiting,
    )
    if metrics is not None:
        metrics.watch(daemon)
    return daemon


ADDRESSES_AT_WORK: Final = 4_000_000
"""Addresses of batches that are answered at a time, those of streams too; further batches wait."""
PENDING_CALLS: Final = 4096
"""Calls that have come and that the daemon has not looked at yet, about 16 KB each. gRPC ends further ones, with the
status CANCELLED."""
CONNECTION_IDLE_SECONDS: Final = 1800.0
"""How long a connection may be without a call before it is closed; a client opens another when it needs one."""
HANDSHAKE_SECONDS: Final = 10.0
"""The longest a new connection may take to say that it speaks HTTP/2, encryption included."""
_MIN_BETWEEN_PINGS: Final = 10_000
"""Milliseconds. Who asks more often whether the daemon is there loses the connection."""


def options(limits: Limits) -> Options:
    """What gRPC's core is told (grpc/impl/channel_arg_names.h): the bounds on what comes before a call has a
    handler."""
    return (
        ("grpc.max_receive_message_length", MAX_REQUEST),
        ("grpc.max_send_message_length", -1),
        ("grpc.compression_enabled_algorithms_bitset", NOT_COMPRESSED),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.bdp_probe", 0),  # else the window of each upload grows to what comes while the disk writes
        ("grpc.max_concurrent_streams", limits.calls_per_connection),
        # Between the two numbers gRPC would end calls by chance, from 1,000 on if it were not told.
        ("grpc.server.max_pending_requests", PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_connection_idle_ms", _milliseconds(CONNECTION_IDLE_SECONDS)),
        ("grpc.server_handshake_timeout_ms", _milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.keepalive_time_ms", _milliseconds(limits.keepalive_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(limits.keepalive_seconds)),
        ("grpc.keepalive_permit_without_calls", 1),
        # Clients ask each minute whether the daemon is there; gRPC would close their connections, unless it is told,
        # for less than five.
        ("grpc.http2.min_ping_interval_without_data_ms", _MIN_BETWEEN_PINGS),
    )


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * MILLISECONDS))


async def _said(
    health: Health, status: health_pb2.HealthCheckResponse.ServingStatus, names: Iterable[str] | None
) -> None:
    health.set(status, names)
    await asyncio.sleep(0)
