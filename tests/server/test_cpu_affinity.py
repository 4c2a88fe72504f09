"""Threads that hand calls to each other share a processor while nothing else is busy there; those that do the work have all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from symd.client import Client
from symd.server import own_process
from tests.server.test_lifecycle import daemon

ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="one processor")


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def started(work: Callable[[], object]) -> int:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread.native_id


def seen(state: Callable[[], bool]) -> bool:
    """Whether it comes about within half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if state():
            return True
        time.sleep(0.005)
    return False


def places(threads: list[int]) -> list[set[int]]:
    return [os.sched_getaffinity(thread) for thread in threads]


def share_one(threads: list[int]) -> bool:
    first, *rest = places(threads)
    return len(first) == 1 and all(each == first for each in rest)


def test_threads_share_a_processor_until_the_end(stopping):
    threads = [started(stopping.wait), started(stopping.wait)]
    with own_process.pinned_to_one_cpu(threads):
        assert seen(lambda: share_one(threads))
    assert places(threads) == [ALL, ALL]


def test_a_thread_whose_processor_is_busy_may_run_anywhere_for_a_while(stopping, monkeypatch):
    monkeypatch.setattr(own_process, "PERIOD", 0.1)

    def work() -> None:
        while not stopping.is_set():
            pass

    threads = [started(work)]
    with ExitStack() as stack, own_process.pinned_to_one_cpu(threads):
        assert seen(lambda: share_one(threads))
        for processor in ALL:
            stack.enter_context(busy(processor))
        assert seen(lambda: places(threads) == [ALL])
        assert seen(lambda: share_one(threads))


@contextmanager
def busy(processor: int) -> Iterator[None]:
    code = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield
        finally:
            process.kill()


def test_a_thread_that_has_ended_ends_the_watch_over_it():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    with own_process.pinned_to_one_cpu([thread.native_id]):
        pass


def test_a_thread_stays_pinned_to_no_processor_where_the_next_one_has_ended(stopping):
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    living = [started(stopping.wait), started(stopping.wait)]
    with own_process.pinned_to_one_cpu([living[0], ended.native_id, living[1]]):
        pass
    assert places(living) == [ALL, ALL]


def test_a_thread_that_ends_while_it_is_pinned_leaves_the_others_pinned_to_nothing(stopping):
    over = threading.Event()
    ending = threading.Thread(target=over.wait, daemon=True)
    ending.start()
    living = [started(stopping.wait), started(stopping.wait)]
    threads = [living[0], ending.native_id, living[1]]
    with own_process.pinned_to_one_cpu(threads):
        assert seen(lambda: share_one(threads))
        over.set()
        ending.join()
        task = Path(f"/proc/self/task/{ending.native_id}")
        assert seen(lambda: not task.exists())
    assert places(living) == [ALL, ALL]


def test_a_thread_begun_by_one_that_is_bound_can_run_anywhere(stopping):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: os.sched_setaffinity(0, {min(ALL)})).result()

        def begin(*first: Callable[[], None]) -> int:
            return pool.submit(started, lambda: ([call() for call in first], stopping.wait())).result()

        bound, free = begin(), begin(own_process.unpin)
    assert places([bound]) == [{min(ALL)}]
    assert seen(lambda: places([free]) == [ALL])


def test_a_daemons_loop_is_bound_and_the_threads_that_answer_are_not(tmp_path):
    with daemon(f"unix:{tmp_path}/socket") as (process, address), Client(address) as client:

        def bound() -> list[set[int]]:
            return [each for each in places(threads(process.pid)) if each != ALL]

        assert seen(lambda: len(bound()) == 2 and bound()[0] == bound()[1])
        before = len(threads(process.pid))
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda _: list(client.modules()), range(200)))
        assert len(threads(process.pid)) > before, "no thread began to answer"
        assert len(bound()) <= 2


def threads(process: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
