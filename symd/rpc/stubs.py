"""The services of a daemon over one channel, for either client."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2_grpc import HealthStub

from symd.v1.alias_service_pb2_grpc import AliasServiceStub
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.context_service_pb2_grpc import ContextServiceStub
from symd.v1.core_service_pb2_grpc import CoreServiceStub
from symd.v1.listing_service_pb2_grpc import ListingServiceStub
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.name_service_pb2_grpc import NameServiceStub
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from symd.v1.variable_service_pb2_grpc import VariableServiceStub


class Stubs:
    """What is called over a channel, by service."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.health: Any = HealthStub(channel)
        self.cores: Any = CoreServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.listings: Any = ListingServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.variables: Any = VariableServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.modules: Any = ModuleServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.symbols: Any = SymbolServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.breakpoints: Any = BreakpointServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.names: Any = NameServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.contexts: Any = ContextServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.aliases: Any = AliasServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.server: Any = ServerServiceStub(channel)  # type: ignore[no-untyped-call] # generated
