"""Batches share a room of addresses: what does not fit waits, in the order in which it came."""

from __future__ import annotations

import threading
import time

from symd.service.batch_room import COUNTED_ADDRESSES, BatchRoom

UNIT = COUNTED_ADDRESSES


def at_work(room, count, begun, over):
    def work():
        with room.taken(count):
            begun.append(count)
            assert over.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def eventually(true):
    until = time.monotonic() + 20
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def test_what_does_not_fit_waits_and_nothing_overtakes_it():
    room, begun, over = BatchRoom(4 * UNIT), [], threading.Event()
    threads = []
    for number, count in enumerate((2 * UNIT, 3 * UNIT, UNIT)):
        threads.append(at_work(room, count, begun, over))
        assert eventually(lambda number=number: len(room._turns) == max(number, 0))
    assert begun == [2 * UNIT]
    over.set()
    for thread in threads:
        thread.join(20)
    assert begun == [2 * UNIT, 3 * UNIT, UNIT]


def test_a_batch_of_more_than_the_room_is_answered_alone():
    room, begun, over = BatchRoom(UNIT), [], threading.Event()
    first = at_work(room, 9 * UNIT, begun, over)
    assert eventually(lambda: begun == [9 * UNIT])
    second = at_work(room, UNIT, begun, over)
    assert eventually(lambda: len(room._turns) == 1)
    over.set()
    first.join(20)
    second.join(20)
    assert begun == [9 * UNIT, UNIT]


def test_small_batches_wait_for_none():
    room, begun, over = BatchRoom(UNIT), [], threading.Event()
    large = at_work(room, UNIT, begun, over)
    assert eventually(lambda: begun == [UNIT])
    with room.taken(UNIT - 1):
        over.set()
    large.join(20)
