"""A daemon, or several, as the calls of a client see them: the channel, what is called over it, and what goes with each call."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2_grpc import HealthStub

from symd.rpc.channel import Credentials, Metadata, connect, connect_async
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


class Connection:
    """A channel of any thread. ``closed`` is set before it is closed; it is that of every client that shares the channel."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self._channel, self.metadata = connect(address, credentials)
        self.stubs = Stubs(self._channel)  # made now: gRPC 1.85 dies of one that is made of a closed channel

    def close(self) -> None:
        self.closed.set()
        self._channel.close()


class AsyncConnection:
    """The same of the event loop that runs when it is first used: a channel of gRPC's belongs to one."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self.metadata: Metadata = ()
        self._address, self._credentials = address, credentials
        self._channel: grpc.aio.Channel | None = None

    @cached_property
    def stubs(self) -> Stubs:
        self._channel, self.metadata = connect_async(self._address, self._credentials)
        return Stubs(self._channel)

    async def close(self) -> None:
        self.closed.set()
        if self._channel is not None:
            await self._channel.close()
