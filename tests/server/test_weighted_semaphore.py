"""Holders share so many units: who wants more than are free waits, in the order in which they came."""

from __future__ import annotations

import threading
import time

from symd.server.work_queues import WeightedSemaphore

UNIT = 100


def at_work(semaphore, count, begun, over):
    def work():
        with semaphore.acquired(count):
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
    semaphore, begun, over = WeightedSemaphore(4 * UNIT, UNIT), [], threading.Event()
    threads = []
    for number, count in enumerate((2 * UNIT, 3 * UNIT, UNIT)):
        threads.append(at_work(semaphore, count, begun, over))
        assert eventually(lambda number=number: begun == [2 * UNIT] and len(semaphore._waiting) == number)
    over.set()
    for thread in threads:
        thread.join(20)
    assert sorted(begun) == [UNIT, 2 * UNIT, 3 * UNIT]  # the last two had room together


def test_who_wants_more_than_there_are_works_alone():
    semaphore, begun, over = WeightedSemaphore(UNIT, UNIT), [], threading.Event()
    first = at_work(semaphore, 9 * UNIT, begun, over)
    assert eventually(lambda: begun == [9 * UNIT])
    second = at_work(semaphore, UNIT, begun, over)
    assert eventually(lambda: len(semaphore._waiting) == 1)
    over.set()
    first.join(20)
    second.join(20)
    assert begun == [9 * UNIT, UNIT]


def test_few_units_wait_for_none():
    semaphore, begun, over = WeightedSemaphore(UNIT, UNIT), [], threading.Event()
    large = at_work(semaphore, UNIT, begun, over)
    assert eventually(lambda: begun == [UNIT])
    with semaphore.acquired(UNIT - 1):
        over.set()
    large.join(20)
