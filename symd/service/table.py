"""The routing table: every RPC and its module, by its name. A new RPC is one module; a new service is one line here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from symd.errors import Malformed
from symd.service.guard import Handler, streaming, unary
from symd.service.service_context import ServiceContext
from symd.v1 import (
    alias_service_pb2,
    breakpoint_service_pb2,
    context_service_pb2,
    listing_service_pb2,
    module_service_pb2,
    name_service_pb2,
    server_service_pb2,
    symbol_service_pb2,
    variable_service_pb2,
)

FILES: tuple[FileDescriptor, ...] = (
    alias_service_pb2.DESCRIPTOR,
    breakpoint_service_pb2.DESCRIPTOR,
    context_service_pb2.DESCRIPTOR,
    listing_service_pb2.DESCRIPTOR,
    module_service_pb2.DESCRIPTOR,
    name_service_pb2.DESCRIPTOR,
    server_service_pb2.DESCRIPTOR,
    symbol_service_pb2.DESCRIPTOR,
    variable_service_pb2.DESCRIPTOR,
)


def services() -> Iterator[ServiceDescriptor]:
    """Every service of the protos."""
    for file in FILES:
        yield from file.services_by_name.values()


def module_name(method: str) -> str:
    """The module of ``service/rpc`` that answers a method: "ListModules" is answered by ``list_modules``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()


def _handler(method: MethodDescriptor) -> Handler:
    handle: Handler = import_module(f"symd.service.rpc.{module_name(method.name)}").handle
    return handle


HANDLERS: Mapping[str, Handler] = {
    method.full_name: _handler(method) for service in services() for method in service.methods
}
"""Every method of every service and the function that answers it; one without a module fails here."""


def register(server: grpc.Server, service_context: ServiceContext) -> None:
    """Let the server route every method of every service to its handler."""
    for service in services():
        methods = {method.name: _routed(method, service_context) for method in service.methods}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, methods),))
        server.add_registered_method_handlers(service.full_name, methods)


def _routed(method: MethodDescriptor, service_context: ServiceContext) -> grpc.RpcMethodHandler[Any, Any]:
    guard = streaming if method.server_streaming else unary
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = guard(_reading(HANDLERS[method.full_name], request, many=method.client_streaming), service_context)
    make = _MAKERS[method.client_streaming, method.server_streaming]
    return make(call, response_serializer=response.SerializeToString)


def _reading(handler: Handler, kind: type[Message], *, many: bool) -> Handler:
    """The handler, given messages for bytes. Were gRPC to read them, invalid bytes would be a traceback in the log,
    the status INTERNAL, and in a stream a call that the server's end waits for."""

    def read(data: bytes) -> Message:
        try:
            return kind.FromString(data)
        except DecodeError as error:
            raise Malformed(f"not a {kind.DESCRIPTOR.full_name}: {error}", where="the request") from None

    def handle_one(service: ServiceContext, request: bytes, call: grpc.ServicerContext) -> Any:
        return handler(service, read(request), call)

    def handle_many(service: ServiceContext, requests: Iterator[bytes], call: grpc.ServicerContext) -> Any:
        return handler(service, map(read, requests), call)

    return handle_many if many else handle_one


_MAKERS = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
