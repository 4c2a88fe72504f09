"""A conversation with an assistant's program over standard input and output. It ends when the input has, and every question is answered: the
package ``mcp`` by itself drops the answers that are not written by then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

_LAST_SECONDS: Final = 300.0
"""Seconds that the last answers are waited for: longer than a tool may take."""
Heard = SessionMessage | Exception
"""A message, or why a line is none."""


async def converse(server: MCPServer[Any], lines: AsyncIterator[str]) -> None:
    """Let ``server`` answer these lines of standard input on standard output."""
    inner = server._lowlevel_server  # noqa: SLF001 - what its own ``run_stdio_async`` runs
    to_server, heard = anyio.create_memory_object_stream[Heard]()
    answers, from_server = anyio.create_memory_object_stream[SessionMessage]()
    requests = _OpenRequests()
    async with stdio_server(stdin=cast(Any, lines)) as (reading, writing), anyio.create_task_group() as tasks:
        tasks.start_soon(requests.forward, reading, to_server)
        tasks.start_soon(requests.write, from_server, writing)
        async with answers:
            await inner.run(heard, answers, inner.create_initialization_options())


class _OpenRequests:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._open: set[str | int] = set()
        self._changed = anyio.Event()

    async def forward(self, reading: Any, to_server: MemoryObjectSendStream[Heard]) -> None:
        """What is read goes to the server, and its end once everything is answered."""
        async with to_server:
            async for message in reading:
                if isinstance(message, SessionMessage):
                    self._asked(message)
                await to_server.send(message)
            with anyio.move_on_after(_LAST_SECONDS):
                while self._open:
                    await self._changed.wait()

    async def write(self, from_server: MemoryObjectReceiveStream[SessionMessage], writing: Any) -> None:
        """What the server says is written."""
        async with writing:
            async for message in from_server:
                await writing.send(message)
                if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                    self._settled(message.message.id)

    def _asked(self, message: SessionMessage) -> None:
        said = message.message
        if isinstance(said, JSONRPCRequest):
            self._open.add(said.id)
        elif isinstance(said, JSONRPCNotification) and said.method == "notifications/cancelled":
            self._settled((said.params or {}).get("requestId"))

    def _settled(self, number: str | int | None) -> None:
        if number is not None:
            self._open.discard(number)
        self._changed.set()
        self._changed = anyio.Event()
