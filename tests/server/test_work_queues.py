"""Threads of one kind of work: what a client may have of them, and who gives them back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from symd.api import Pending
from symd.errors import Busy, DeadlineExceeded
from symd.server.work_queues import Work, WorkQueue

SECONDS = 30
"""Against hanging."""


def behind(made: Future[None]) -> str:
    """Work that goes on when something else is made."""
    if not made.done():
        raise Pending(made)
    return "answered"


async def until(true) -> None:
    async with asyncio.timeout(SECONDS):
        while not true():  # noqa: ASYNC110 - a work queue tells nobody
            await asyncio.sleep(0.001)


def test_work_that_waits_for_other_work_holds_no_thread() -> None:
    async def main() -> None:
        queue, made = WorkQueue(Work.COLD_QUESTION, 1, 100), Future()
        waiting = [asyncio.create_task(queue.run("a", lambda: behind(made))) for _ in range(50)]
        await until(lambda: queue.waiting == 50 and not queue.running)
        assert await asyncio.wait_for(queue.run("b", lambda: 7), SECONDS) == 7
        made.set_result(None)
        assert await asyncio.wait_for(asyncio.gather(*waiting), SECONDS) == ["answered"] * 50
        assert (queue.waiting, queue.running) == (0, 0)

    asyncio.run(main())


def test_all_who_wait_hear_of_work_that_took_too_long() -> None:
    async def main() -> None:
        queue, made = WorkQueue(Work.COLD_QUESTION, 1, 100), Future()
        waiting = [asyncio.create_task(queue.run("a", lambda: behind(made))) for _ in range(3)]
        await until(lambda: queue.waiting == 3)
        made.set_exception(DeadlineExceeded("took too long"))
        async with asyncio.timeout(SECONDS):
            heard = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(each) for each in heard] == ["took too long"] * 3

    asyncio.run(main())


def test_whose_client_has_left_gives_up_the_place() -> None:
    async def main() -> None:
        queue, made = WorkQueue(Work.COLD_QUESTION, 1, 2), Future()
        waiting = [asyncio.create_task(queue.run("a", lambda: behind(made))) for _ in range(2)]
        await until(lambda: queue.waiting == 2)
        with pytest.raises(Busy):
            await asyncio.wait_for(queue.run("a", lambda: behind(made)), SECONDS)
        for each in waiting:
            each.cancel()
        await until(lambda: queue.waiting == 0)
        made.set_result(None)
        assert await asyncio.wait_for(queue.run("a", lambda: behind(made)), SECONDS) == "answered"

    asyncio.run(main())


def test_who_waits_most_gives_way_to_another_client() -> None:
    async def main() -> None:
        queue, made = WorkQueue(Work.COLD_QUESTION, 1, 2), Future()
        waiting = [asyncio.create_task(queue.run("a", lambda: behind(made))) for _ in range(2)]
        await until(lambda: queue.waiting == 2)
        other = asyncio.create_task(queue.run("b", lambda: behind(made)))
        with pytest.raises(Busy):
            await asyncio.wait_for(waiting[1], SECONDS)
        made.set_result(None)
        async with asyncio.timeout(SECONDS):
            assert [await waiting[0], await other] == ["answered"] * 2

    asyncio.run(main())


def test_a_client_has_no_more_than_its_share() -> None:
    async def main() -> None:
        queue, go_on = WorkQueue(Work.COLD_QUESTION, 4, 100, share=2), threading.Event()
        slow = [asyncio.create_task(queue.run("a", lambda: go_on.wait(SECONDS))) for _ in range(6)]
        await until(lambda: queue.running == 2 and queue.waiting == 4)
        assert await asyncio.wait_for(queue.run("b", lambda: 7), SECONDS) == 7
        assert (queue.running, queue.waiting) == (2, 4)
        go_on.set()
        assert await asyncio.wait_for(asyncio.gather(*slow), SECONDS) == [True] * 6
        assert (queue.running, queue.waiting) == (0, 0)

    asyncio.run(main())


def test_the_next_in_turn_is_one_whose_share_is_not_used_up() -> None:
    async def main() -> None:
        queue, go_on, ended = WorkQueue(Work.COLD_QUESTION, 2, 100, share=1), threading.Event(), threading.Event()
        first = asyncio.create_task(queue.run("a", lambda: go_on.wait(SECONDS)))
        second = asyncio.create_task(queue.run("b", lambda: ended.wait(SECONDS)))
        await until(lambda: queue.running == 2)
        later = [asyncio.create_task(queue.run(client, lambda: True)) for client in "aac"]
        await until(lambda: queue.waiting == 3)
        ended.set()
        assert await asyncio.wait_for(asyncio.gather(second, later[2]), SECONDS) == [True, True]
        assert not later[0].done()
        go_on.set()
        assert await asyncio.wait_for(asyncio.gather(first, *later), SECONDS) == [True] * 4

    asyncio.run(main())


def test_a_thread_that_cannot_be_started_is_no_loss_to_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        queue = WorkQueue(Work.QUESTION, 1, 100)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            tried = [asyncio.create_task(queue.run(client, lambda: 1)) for client in "aab"]
            async with asyncio.timeout(SECONDS):
                heard = await asyncio.gather(*tried, return_exceptions=True)
            assert [type(each) for each in heard] == [Busy] * 3
            assert "the system gives the daemon no further thread" in str(heard[0]), "no work queue is full"
            assert all("limit" not in each.metadata for each in heard)
        assert (queue.waiting, queue.running) == (0, 0)
        assert await asyncio.wait_for(queue.run("a", lambda: 2), SECONDS) == 2

    asyncio.run(main())
