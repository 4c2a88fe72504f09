"""A daemon that stood still (stopped, or its machine was) ends no call for what came meanwhile and is not taken yet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpc.aio import AbortError

from symd.config import Limits
from symd.server.call import Call
from symd.server.config import Right
from symd.server.waiting import MESSAGE_SECONDS, WaitingCalls

LIMITS = Limits()
HANGING_SECONDS = 60


class Context:
    """Of a call whose message comes when ``came`` is done."""

    def __init__(self) -> None:
        self.came = asyncio.get_running_loop().create_future()
        self.status: Any = None

    async def read(self) -> bytes:
        message: bytes = await self.came
        return message

    async def abort_with_status(self, status: object) -> None:
        self.status = status
        if not self.came.done():
            self.came.set_exception(AbortError)
        raise AbortError


def stand_still() -> None:
    """The loop's clock goes on, past the time of every call, and nothing else does."""
    loop = asyncio.get_running_loop()
    now, passed = loop.time, 2 * MESSAGE_SECONDS
    loop.time = lambda: now() + passed  # type: ignore[method-assign]


def test_a_first_message_that_came_while_the_daemon_stood_still_is_taken() -> None:
    async def main() -> bytes:
        context, calls = Context(), WaitingCalls(LIMITS)
        reading = asyncio.create_task(calls.first_message(context, Call("x", Right.READ, "p", None)))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(context.came.set_result, b"message")
        stand_still()
        message: bytes = await asyncio.wait_for(reading, HANGING_SECONDS)
        assert context.status is None
        return message

    assert asyncio.run(main()) == b"message"


def test_a_call_whose_message_does_not_come_is_ended_all_the_same() -> None:
    async def main() -> None:
        context, calls = Context(), WaitingCalls(LIMITS)
        reading = asyncio.create_task(calls.first_message(context, Call("x", Right.READ, "p", None)))
        await asyncio.sleep(0)
        stand_still()
        with pytest.raises(AbortError):
            await asyncio.wait_for(reading, HANGING_SECONDS)

    asyncio.run(main())
