"""The routing table: every RPC and its module. A new RPC is one module and one line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from symd.errors import Malformed
from symd.service.guard import Handler, streaming, unary
from symd.service.rpc import (
    create_aliases,
    create_context,
    delete_alias,
    delete_context,
    delete_module,
    find_missing_modules,
    find_names,
    get_alias,
    get_context,
    get_line_table,
    get_listing,
    get_module,
    get_server_info,
    get_variables,
    grab_module,
    list_aliases,
    list_code_objects,
    list_containers,
    list_contexts,
    list_kernels,
    list_loads,
    list_modules,
    read_code_object,
    read_sources,
    record_events,
    resolve_breakpoint,
    symbolize,
    symbolize_addresses,
    symbolize_stream,
    update_module,
    upload_module,
    watch_breakpoints,
)
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

HANDLERS: Mapping[str, Handler] = {
    "symd.v1.ModuleService.FindMissingModules": find_missing_modules.handle,
    "symd.v1.ModuleService.UploadModule": upload_module.handle,
    "symd.v1.ModuleService.GrabModule": grab_module.handle,
    "symd.v1.ModuleService.ListModules": list_modules.handle,
    "symd.v1.ModuleService.GetModule": get_module.handle,
    "symd.v1.ModuleService.UpdateModule": update_module.handle,
    "symd.v1.ModuleService.DeleteModule": delete_module.handle,
    "symd.v1.ModuleService.ListCodeObjects": list_code_objects.handle,
    "symd.v1.ModuleService.ListContainers": list_containers.handle,
    "symd.v1.ModuleService.ListKernels": list_kernels.handle,
    "symd.v1.ModuleService.ReadCodeObject": read_code_object.handle,
    "symd.v1.SymbolService.Symbolize": symbolize.handle,
    "symd.v1.SymbolService.SymbolizeStream": symbolize_stream.handle,
    "symd.v1.SymbolService.GetLineTable": get_line_table.handle,
    "symd.v1.BreakpointService.ResolveBreakpoint": resolve_breakpoint.handle,
    "symd.v1.BreakpointService.WatchBreakpoints": watch_breakpoints.handle,
    "symd.v1.NameService.FindNames": find_names.handle,
    "symd.v1.ListingService.GetListing": get_listing.handle,
    "symd.v1.ListingService.ReadSources": read_sources.handle,
    "symd.v1.ContextService.CreateContext": create_context.handle,
    "symd.v1.ContextService.GetContext": get_context.handle,
    "symd.v1.ContextService.ListContexts": list_contexts.handle,
    "symd.v1.ContextService.DeleteContext": delete_context.handle,
    "symd.v1.ContextService.RecordEvents": record_events.handle,
    "symd.v1.ContextService.ListLoads": list_loads.handle,
    "symd.v1.ContextService.SymbolizeAddresses": symbolize_addresses.handle,
    "symd.v1.AliasService.CreateAliases": create_aliases.handle,
    "symd.v1.AliasService.GetAlias": get_alias.handle,
    "symd.v1.AliasService.DeleteAlias": delete_alias.handle,
    "symd.v1.AliasService.ListAliases": list_aliases.handle,
    "symd.v1.ServerService.GetServerInfo": get_server_info.handle,
    "symd.v1.VariableService.GetVariables": get_variables.handle,
}


def services() -> Iterator[ServiceDescriptor]:
    """Every service of the protos."""
    for file in FILES:
        yield from file.services_by_name.values()


def register(server: grpc.Server, service_context: ServiceContext) -> None:
    """Let the server route every method of every service to its handler; a method without one is a KeyError here."""
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
    """The handler, given messages for bytes. Were gRPC to read them, bytes that are none would be a traceback in the log,
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
