"""A stream whose call ended before it was begun: its handler ends, and the work queue has its thread again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from grpc.aio import BaseError

from symd.config import Limits
from symd.server.answering import Method, MethodOptions, serve_stream
from symd.server.call import Call, CallEnded
from symd.server.messages import BytesInFlight
from symd.server.waiting import WaitingCalls
from symd.server.work_queues import Work, WorkQueue
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse

SECONDS = 30
"""Against hanging."""


class Context:
    """A call that ends while its message is read."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def read(self) -> bytes:
        self._call.end()
        return SymbolizeRequest().SerializeToString()

    async def write(self, _: bytes) -> None:
        raise BaseError


def service() -> Any:
    limits = Limits()
    return SimpleNamespace(
        waiting=WaitingCalls(limits),
        flight=BytesInFlight(limits),
        work_queues={Work.STREAM: WorkQueue(Work.STREAM, 1, 5)},
        config=SimpleNamespace(limits=limits),
    )


def test_a_stream_whose_call_has_ended_keeps_no_thread() -> None:
    left = threading.Event()

    def handle(*_: object) -> Iterator[SymbolizeResponse]:
        """More answers than are made before the first of them is sent."""
        try:
            for _each in range(20):
                yield SymbolizeResponse()
        finally:
            left.set()

    async def main() -> None:
        call, at_work = Call("x", "p", None), service()
        method = Method("x", handle, SymbolizeRequest, MethodOptions(), many_requests=False, many_responses=True)
        with pytest.raises((BaseError, CallEnded)):
            async with asyncio.timeout(SECONDS):
                await serve_stream(method, at_work, Context(call), call)
        assert await asyncio.to_thread(left.wait, SECONDS)
        assert await asyncio.wait_for(at_work.work_queues[Work.STREAM].run("another", lambda: 7), SECONDS) == 7

    asyncio.run(main())
