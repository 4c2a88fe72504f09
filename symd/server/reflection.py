"""Server reflection: the protos, told to tools such as grpcurl.

The package at hand serves grpc.reflection.v1alpha alone. Version 1 is the same file under another package name, and its
messages are the same bytes (github.com/grpc/grpc-proto, grpc/reflection/v1/reflection.proto), so the same code serves both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc.aio import EOF
from grpc_reflection.v1alpha import reflection, reflection_pb2

from symd.server.call import Call
from symd.server.messages import parsed_inline
from symd.server.waiting import WaitingCalls

PACKAGE = "grpc.reflection.v1"
SERVICE = f"{PACKAGE}.ServerReflection"
REFLECTION = (reflection.SERVICE_NAME, SERVICE)
"""The full names of both services."""


class Reflection:
    """Tells of the services with these full names, in both versions."""

    def __init__(self, names: Iterable[str], waiting: WaitingCalls) -> None:
        _describe()
        self._servicer = reflection.ReflectionServicer(names)
        self._waiting = waiting

    async def answer(self, context: Any, call: Call) -> None:
        """Each question in its turn. A question is a look into tables, answered on the event loop."""
        data = await self._waiting.first_message(context, call)
        while data is not EOF:
            call.check_let_in()
            request = parsed_inline(reflection_pb2.ServerReflectionRequest, data, "reflection request")
            for response in self._servicer.ServerReflectionInfo(iter((request,)), None):
                await context.write(response.SerializeToString())
            data = await self._waiting.first_message(context, call)


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
