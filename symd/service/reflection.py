"""Server reflection: the protos, told to tools such as grpcurl.

The package at hand serves grpc.reflection.v1alpha alone. Version 1 is the same file under another package name, and its
messages are the same bytes (github.com/grpc/grpc-proto, grpc/reflection/v1/reflection.proto), so the same code serves both.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

PACKAGE = "grpc.reflection.v1"
SERVICE = f"{PACKAGE}.ServerReflection"
REFLECTION = (reflection.SERVICE_NAME, SERVICE)
"""The full names of both services."""


def enable_reflection(server: grpc.Server, names: Iterable[str]) -> None:
    """Let the server tell of the services with these full names, in both versions."""
    _describe()
    reflection.enable_server_reflection(names, server)
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    server.add_registered_method_handlers(SERVICE, methods)


def _describe() -> None:
    """Add version 1 to what the process knows of protos; adding it again changes nothing."""
    older = reflection_pb2.DESCRIPTOR
    file = FileDescriptorProto()
    older.CopyToProto(file)
    file.name, file.package = "grpc/reflection/v1/reflection.proto", PACKAGE
    before, after = f".{older.package}.", f".{PACKAGE}."
    for message in file.message_type:
        for field in message.field:
            if field.HasField("type_name"):
                field.type_name = field.type_name.replace(before, after)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(before, after)
            method.output_type = method.output_type.replace(before, after)
    descriptor_pool.Default().Add(file)
