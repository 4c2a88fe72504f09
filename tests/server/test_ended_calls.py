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
from symd.server.config import Right
from symd.server.messages import BytesInFlight, Requests, Responses
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
        call, at_work = Call("x", Right.READ, "p", None), service()
        method = Method(
            "x", handle, SymbolizeRequest, MethodOptions(Right.READ), many_requests=False, many_responses=True
        )
        with pytest.raises((BaseError, CallEnded)):
            async with asyncio.timeout(SECONDS):
                await serve_stream(method, at_work, Context(call), call)
        assert await asyncio.to_thread(left.wait, SECONDS)
        assert await asyncio.wait_for(at_work.work_queues[Work.STREAM].run("another", lambda: 7), SECONDS) == 7

    asyncio.run(main())


LARGE = 10 << 20


def test_a_message_read_ahead_is_not_held_once_its_call_has_ended() -> None:
    flight, call = BytesInFlight(Limits()), Call("x", Right.READ, "p", None)
    messages = iter([b"b" * LARGE])
    taken, arrived, ended = threading.Event(), threading.Event(), threading.Event()

    async def read() -> bytes:
        return next(messages)

    def handle(requests: Requests) -> None:
        assert len(next(requests)) == LARGE
        taken.set()
        assert ended.wait(SECONDS)
        with pytest.raises(CallEnded):
            next(requests)

    async def main() -> None:
        requests = Requests(b"a" * LARGE, read, flight, call, Limits())
        requests.notify = arrived.set
        handler = asyncio.create_task(asyncio.to_thread(handle, requests))
        assert await asyncio.to_thread(taken.wait, SECONDS)
        assert await asyncio.to_thread(arrived.wait, SECONDS)
        assert flight.total == LARGE
        call.end()
        ended.set()
        await handler

    asyncio.run(main())
    assert flight.total == 0


def test_a_response_that_nobody_takes_any_more_ends_the_wait_for_it() -> None:
    async def main() -> None:
        call = Call("x", Right.READ, "p", None)

        async def write(_: bytes) -> None:
            asyncio.get_running_loop().call_soon(call.end)
            await asyncio.sleep(SECONDS)

        responses = Responses(write, BytesInFlight(Limits()), call)
        await asyncio.to_thread(responses.put, b"x")
        with pytest.raises(CallEnded):
            await responses.last_taken()

    asyncio.run(main())


def test_who_is_cancelled_while_a_response_is_taken_is_cancelled() -> None:
    """As grpc.aio does it: the wait is over, and the call has not ended for all that."""

    async def main() -> None:
        begun = asyncio.Event()

        async def write(_: bytes) -> None:
            begun.set()
            await asyncio.sleep(SECONDS)

        responses = Responses(write, BytesInFlight(Limits()), Call("x", Right.READ, "p", None))
        await asyncio.to_thread(responses.put, b"x")
        await begun.wait()
        waiting = asyncio.create_task(responses.last_taken())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
