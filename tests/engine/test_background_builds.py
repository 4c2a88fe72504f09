"""What is built before anybody waits for it takes a few threads, however much is added."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from symd.engine.indexes.builds import BUILD_THREADS, BackgroundBuilds


class Builder:
    """Notes what it builds and in which threads, and ends no build before ``let_go`` is set."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.let_go = threading.Event()

    def __call__(self, digest: str) -> None:
        self.threads.add(threading.current_thread())
        self.built.append(digest)
        assert self.let_go.wait(20)

    def join(self) -> None:
        """Wait for the threads, which end when nothing waits."""
        for thread in self.threads:
            thread.join(20)


def eventually(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not is_so() and time.monotonic() < end:
        time.sleep(0.01)
    return is_so()


@pytest.fixture
def builder():
    builder = Builder()
    yield builder
    builder.let_go.set()


def test_thirty_modules_take_no_more_threads_than_four(builder: Builder) -> None:
    before = threading.active_count()
    builds = BackgroundBuilds(builder)
    for number in range(30):
        builds.add(f"{number}")
    assert threading.active_count() - before == BUILD_THREADS == 4
    builder.let_go.set()
    assert eventually(lambda: len(builder.built) == 30)
    assert sorted(builder.built, key=int) == [f"{number}" for number in range(30)]
    assert len(builder.threads) <= 4


def test_a_module_waits_once_and_no_more_than_so_many_wait(builder: Builder, monkeypatch) -> None:
    builds = BackgroundBuilds(builder)
    for number in range(BUILD_THREADS):
        builds.add(f"{number}")
    assert eventually(lambda: len(builder.built) == BUILD_THREADS)
    monkeypatch.setattr("symd.engine.indexes.builds._MAX_WAITING", 3)
    for name in ("a", "a", "b", "c", "too much"):
        builds.add(name)
    builder.let_go.set()
    builder.join()
    assert sorted(builder.built[BUILD_THREADS:]) == ["a", "b", "c"]


def test_what_waits_is_forgotten_when_asked(builder: Builder) -> None:
    builds = BackgroundBuilds(builder)
    for number in range(BUILD_THREADS):
        builds.add(f"{number}")
    assert eventually(lambda: len(builder.built) == BUILD_THREADS)
    builds.add("late")
    builds.close()
    builder.let_go.set()
    builder.join()
    builds.add("later")
    assert not {"late", "later"} & {*builder.built}


def test_where_no_thread_can_be_started_nothing_is_raised(builder: Builder, monkeypatch) -> None:
    builder.let_go.set()
    builds = BackgroundBuilds(builder)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", _no_thread)
        builds.add("dropped")
    builds.add("built")
    assert eventually(lambda: "built" in builder.built)
    builder.join()
    assert builder.built == ["built"]


def test_a_module_for_which_there_was_no_thread_may_come_again(builder: Builder, monkeypatch) -> None:
    builder.let_go.set()
    builds = BackgroundBuilds(builder)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", _no_thread)
        builds.add("again")
    builds.add("again")
    assert eventually(lambda: builder.built == ["again"])


WAITS = """
import threading
from symd.engine.indexes.builds import BackgroundBuilds
begun = threading.Event()
def build(digest):
    begun.set()
    threading.Event().wait(60)
builds = BackgroundBuilds(build)
builds.add("waits")
assert begun.wait(20)
builds.close()
print("ends", flush=True)
"""


def test_a_process_ends_though_a_build_waits() -> None:
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "ends\n"


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
