"""A process that stands still, stopped or suspended, ends no request whose client did its part meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

import pytest
from starlette.requests import HTTPConnection, Request

from symd.errors import DeadlineExceeded
from symd.server.http.connections import ClientTimer
from symd.server.http.exchange import Exchange, _body, _WholeResponse
from symd.server.http.site import CostClass, HttpWorkQueue, WebRoute

SECONDS = 60.0
ROUTE = WebRoute("/", lambda _site, _asked: None, method="POST", effort=CostClass.QUESTION, body_limit=1000)  # type: ignore[arg-type, return-value]
SCOPE = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b"", "server": ("x", 1)}


def lived_through(scenario: Callable[[Callable[[float], None]], Coroutine[Any, Any, Any]]) -> Any:
    """What comes of a scenario, which is given what puts the loop's clock forward."""

    async def lived() -> Any:
        loop = asyncio.get_running_loop()
        real, still = loop.time, [0.0]
        loop.time = lambda: real() + sum(still)  # type: ignore[method-assign]
        return await scenario(still.append)

    return asyncio.run(lived())


async def a_few_turns() -> None:
    """Of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)


def part(text: bytes, *, is_last: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": text, "more_body": not is_last}


async def coming(parts: asyncio.Queue[dict[str, Any]]) -> asyncio.Task[bytes]:
    """The body of a request that has begun to come."""
    request = Request({**SCOPE, "exchange": Exchange(HTTPConnection(SCOPE))}, parts.get)
    parts.put_nowait(part(b"a"))
    body = asyncio.create_task(_body(request, ROUTE, cast("HttpWorkQueue", None), SECONDS))
    await a_few_turns()
    assert parts.empty()
    return body


def test_a_body_that_came_while_the_process_stood_still_is_taken() -> None:
    async def scenario(stand_still: Callable[[float], None]) -> bytes:
        loop, parts = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()
        body = await coming(parts)
        stand_still(SECONDS + 1)
        parts.put_nowait(part(b"b"))
        loop.call_soon(loop.call_soon, parts.put_nowait, part(b"c", is_last=True))
        return await body

    assert lived_through(scenario) == b"abc"


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def scenario(stand_still: Callable[[float], None]) -> None:
        body = await coming(asyncio.Queue())
        for _ in range(2):
            stand_still(2 * SECONDS)
            await a_few_turns()
        await body

    with pytest.raises(DeadlineExceeded, match="within 60 s"):
        lived_through(scenario)


def test_who_is_waited_for_is_looked_for_once_more() -> None:
    """After SIGCONT the loop looks at its clock, and only then at its sockets."""

    async def scenario(stand_still: Callable[[float], None]) -> list[str]:
        loop, over = asyncio.get_running_loop(), list[str]()
        timers = [ClientTimer(loop, SECONDS, partial(over.append, name)) for name in ("came", "silent")]
        stand_still(SECONDS + 1)
        await a_few_turns()
        timers[0].cancel()
        stand_still(2 * SECONDS)
        await a_few_turns()
        return over

    assert lived_through(scenario) == ["silent"]


def test_nobody_has_more_than_his_time_anew_however_long_the_process_stood_still() -> None:
    async def scenario(stand_still: Callable[[float], None]) -> list[str]:
        loop, over = asyncio.get_running_loop(), list[str]()
        ClientTimer(loop, SECONDS, partial(over.append, "silent"))
        stand_still(1000 * SECONDS)
        await a_few_turns()
        assert not over
        stand_still(SECONDS)
        await a_few_turns()
        return over

    assert lived_through(scenario) == ["silent"]


def test_an_answer_that_waited_while_the_process_stood_still_is_sent_whole() -> None:
    sent: list[bytes] = []

    async def scenario(stand_still: Callable[[float], None]) -> None:
        async def send(message: Any) -> None:
            if not sent:
                stand_still(SECONDS + 1)
            sent.append(message.get("body", b""))
            await a_few_turns()

        response = _WholeResponse(b"x" * 200_000, 200, {}, "text/plain", SECONDS)
        await response({}, cast("Any", None), send)

    lived_through(scenario)
    assert len(b"".join(sent)) == 200_000
