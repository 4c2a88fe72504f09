"""The standard services of gRPC, answered on the event loop, so that no amount of other work keeps them from answering.

Health (github.com/grpc/grpc-proto, grpc/health/v1/health.proto) keeps the open watches, each client's share of them,
and ends them with the daemon. Server reflection tells the protos to tools such as grpcurl; the installed package serves
grpc.reflection.v1alpha alone, and version 1 has the same messages under another package name
(grpc/reflection/v1/reflection.proto), so the same code serves both.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc.aio import EOF
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha import reflection, reflection_pb2

from symd.errors import Busy, InvalidInput, NotFound
from symd.server.call import Call, CallEnded
from symd.server.messages import parsed_inline
from symd.server.waiting import WaitingCalls

CLIENT_WATCHES = 32
"""Watches open at a time of one client, or of one address where clients have no names; and as many of health."""


class Watches:
    """Knows the watches that are open, each of which holds a sleeping thread for long, and ends them all when asked to.
    A client may have ``most_of_client`` open, of ``most`` of all clients."""

    def __init__(self, most: int = CLIENT_WATCHES) -> None:
        self.most_of_client = min(most, CLIENT_WATCHES)
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], None]] = {}
        self._count: Counter[str] = Counter()
        """The number of open watches, by client."""

    @contextmanager
    def opened(self, client: str, close: Callable[[], None]) -> Iterator[None]:
        """Know this watch while it lasts; ``close`` ends it. Raises ``Busy`` where that is one too many of ``client``:
        its name, or the peer as gRPC names it where it has none."""
        name = client.rpartition(":")[0] if client.startswith(("ipv4:", "ipv6:")) else client  # a peer without its port
        key = id(close)
        with self._lock:
            if self._count[name] >= self.most_of_client:
                raise self._too_many(name)
            self._count[name] += 1
            self._open[key] = close
        try:
            yield
        finally:
            with self._lock:
                del self._open[key]
                self._count[name] -= 1
                if not self._count[name]:
                    del self._count[name]

    def close(self) -> None:
        """End those that are open."""
        with self._lock:
            closing = tuple(self._open.values())
        for close in closing:
            close()

    def _too_many(self, client: str) -> Busy:
        most = self.most_of_client
        return Busy(
            f"{client} has {most} watches open already",
            hint="close some; one watch takes 10,000 breakpoints",
            metadata={"limit": "client_watches", "value": str(most)},
        )


HEALTH_METHODS = HEALTH_CHECK, HEALTH_WATCH = f"{HEALTH}.Check", f"{HEALTH}.Watch"
"""The full names of the methods of health, which an operator may open to anybody (``ListenConfig.open_health``)."""
SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING

WATCHES = 64
"""Health watches open at a time."""


class Health:
    """What is served, by the services' full names; "" is all of it. ``shares`` bounds the watches of each client. Its
    coroutines and ``set`` belong on one event loop."""

    def __init__(self, names: Iterable[str], waiting: WaitingCalls, shares: Watches) -> None:
        self._waiting = waiting
        self._shares = shares
        self._status = dict.fromkeys(("", *names), SERVING)
        self._watches: set[asyncio.Event] = set()

    def set(self, status: HealthCheckResponse.ServingStatus, names: Iterable[str] | None = None) -> None:
        """Say a status of the services with these names, or of all."""
        self._status.update(dict.fromkeys(tuple(self._status if names is None else names), status))
        for changed in self._watches:
            changed.set()

    async def check(self, context: Any, call: Call) -> bytes:
        """The status of one service now. Raises ``NotFound``."""
        name = await self._asked(context, call)
        status = self._status.get(name)
        if status is None:
            there = ", ".join(each for each in self._status if each)
            raise NotFound(f"no service {name[:100]!r} is served here", hint=f'there are {there}; "" is all of them')
        response: bytes = HealthCheckResponse(status=status).SerializeToString()
        return response

    async def watch(self, context: Any, call: Call) -> None:
        """The status of one service now and whenever it changes, until the call ends. Raises ``Busy``."""
        name = await self._asked(context, call)
        if len(self._watches) >= WATCHES:
            raise Busy(
                f"{WATCHES} health watches are open already",
                hint="close one, or ask with Check",
                metadata={"limit": "health_watches", "value": str(WATCHES)},
            )
        changed = asyncio.Event()
        with self._shares.opened(call.client, changed.set):
            self._watches.add(changed)
            call.add_callback(changed.set)
            self._waiting.open(call, context)
            try:
                await self._tell(name, changed, context, call)
            finally:
                self._watches.discard(changed)
                self._waiting.close(call)

    async def _tell(self, name: str, changed: asyncio.Event, context: Any, call: Call) -> None:
        told = None
        while call.is_active():
            changed.clear()
            status = self._status.get(name, HealthCheckResponse.SERVICE_UNKNOWN)
            if status != told:
                call.check_let_in()
                await context.write(HealthCheckResponse(status=status).SerializeToString())
            told = status
            await changed.wait()
        raise CallEnded

    async def _asked(self, context: Any, call: Call) -> str:
        data = await self._waiting.first_message(context, call)
        if data is EOF:
            raise InvalidInput("the call has no message", hint="send one")
        name: str = parsed_inline(HealthCheckRequest, data, "health request").service
        return name


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
