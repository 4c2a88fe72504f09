"""The routing table: every RPC and its handler, by its name. A new RPC is one function; a new service is one module, and one line here.

A module of ``server/rpc`` is called as the file of its service in ``protos/``, a function in it as its method in snake_case. Where that is neither a question nor a
stream like others it is decorated (``answering.method``): with what kind of work it is (``server/work_queues.py``), how some requests are answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health import SERVICE_NAME as HEALTH

from symd.server.answering import Method, answer_one, answer_stream, options_of
from symd.server.authentication import Authenticator
from symd.server.guard import Answer, guard
from symd.server.health import Health
from symd.server.metrics import Metrics
from symd.server.reflection import REFLECTION, Reflection
from symd.server.service_context import ServiceContext
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

FILES: tuple[FileDescriptor, ...] = (
    alias_service_pb2.DESCRIPTOR,
    breakpoint_service_pb2.DESCRIPTOR,
    context_service_pb2.DESCRIPTOR,
    core_service_pb2.DESCRIPTOR,
    listing_service_pb2.DESCRIPTOR,
    module_service_pb2.DESCRIPTOR,
    name_service_pb2.DESCRIPTOR,
    parca_debuginfo_pb2.DESCRIPTOR,
    pyroscope_debuginfo_pb2.DESCRIPTOR,
    server_service_pb2.DESCRIPTOR,
    symbol_service_pb2.DESCRIPTOR,
    variable_service_pb2.DESCRIPTOR,
)


def services() -> Iterator[ServiceDescriptor]:
    """Every service of the protos."""
    for file in FILES:
        yield from file.services_by_name.values()


def handler_name(method: MethodDescriptor) -> tuple[str, str]:
    """The module of ``server/rpc`` and the function that answer a method: ModuleService's "ListModules" is answered by ("module_service", "list_modules")."""
    return PurePosixPath(method.containing_service.file.name).stem, re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()


def _method(method: MethodDescriptor) -> Method:
    module, function = handler_name(method)
    handler = getattr(import_module(f"symd.server.rpc.{module}"), function)
    request, options = GetMessageClass(method.input_type), options_of(handler)
    return Method(method.full_name, handler, request, options, method.client_streaming, method.server_streaming)


METHODS: Mapping[str, Method] = {
    method.full_name: _method(method) for service in services() for method in service.methods
}
"""Every method of every service and how it is answered; one without a function fails here."""


class Router(grpc.GenericRpcHandler):
    """Every path of HTTP/2 that is served and its handler. To gRPC every request is a stream, whatever the protos say, which
    on the wire is the same: so that the handler begins with the headers, and waits for the message itself."""

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
        for method in METHODS.values():
            way = answer_stream if method.many_requests or method.many_responses else answer_one
            self._add(method.name, partial(way, method, service), many=method.many_responses)
        self._add(f"{HEALTH}.Check", health.check, many=False)
        self._add(f"{HEALTH}.Watch", health.watch, many=True)
        for name in REFLECTION:
            self._add(f"{name}.ServerReflectionInfo", reflection.answer, many=True)

    @property
    def methods(self) -> frozenset[str]:
        """The full names of all methods that are served."""
        return frozenset(path.removeprefix("/").replace("/", ".") for path in self._handlers)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._handlers.get(handler_call_details.method)

    def _add(self, method: str, answer: Answer, *, many: bool) -> None:
        make = grpc.stream_stream_rpc_method_handler if many else grpc.stream_unary_rpc_method_handler
        service, _, name = method.rpartition(".")
        self._handlers[f"/{service}/{name}"] = make(
            guard(method, answer, self._authenticator, self._metrics, self._spans)
        )
