"""Daemons over one store, killed under load: the shipped client never fails, no answer is wrong, nothing is made twice."""

from __future__ import annotations

import asyncio

from symd import AsyncClient, Client
from symd.model.watches import ModuleAdded
from tests.store.shared.replicas import LONG, Replicas, kill_under_load, replicas, variant, wipe_under_load

SECONDS = 20.0
WIPING_SECONDS = 8.0


def test_daemons_that_are_killed_under_load_are_missed_by_nobody() -> None:
    seen = kill_under_load(SECONDS)
    assert seen.is_good, seen
    assert seen.kills >= 5
    assert all(seen.asked[work] > 5 for work in ("ask_one", "ask_many", "ask_column", "add")), seen.asked


def test_what_a_bucket_loses_under_load_is_missing_until_it_is_added_again() -> None:
    losses = wipe_under_load(WIPING_SECONDS)
    assert losses.is_good, losses
    assert losses.lost > 5


def test_an_awaited_watch_goes_on_where_its_daemon_is_killed() -> None:
    with replicas(2) as (daemons, _):
        added, told = asyncio.run(added_and_told(daemons))
    assert told == added


async def added_and_told(daemons: Replicas) -> tuple[list[str], list[str]]:
    """The modules that were added while each daemon was killed in turn, so that one of them was the watch's; and what a watch told."""

    async def next_added() -> str:
        async for event in watch:
            if isinstance(event, ModuleAdded):
                return event.digest
        return "the watch has ended"

    added: list[str] = []
    told: list[str] = []
    async with AsyncClient(daemons.address) as client:
        with Client(daemons.addresses[0]) as one:
            added.append(one.add(variant(0)).sha256)
        watch = client.watch()
        told.append(await asyncio.wait_for(next_added(), LONG))
        for number, other in ((0, 1), (1, 0)):
            await asyncio.to_thread(daemons.kill, number)
            with Client(daemons.addresses[other]) as one:
                added.append((await asyncio.to_thread(one.add, variant(1 + number))).sha256)
            told.append(await asyncio.wait_for(next_added(), LONG))
            await asyncio.to_thread(daemons.start, number)
        watch.close()
        assert await next_added() == "the watch has ended"
    return added, told
