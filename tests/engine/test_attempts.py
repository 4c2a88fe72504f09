"""A module that ends whoever indexes it does so a few times, and not for ever."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from symd.api import Pending
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.indexes.builds import MAX_ATTEMPTS
from symd.engine.reading.questions import InProcessReader, MakeIndex
from symd.errors import DeadlineExceeded, LimitExceeded, Malformed, StoreUnavailable, SymdError, WorkerDied
from symd.index import VERSION
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.watches import ModuleAdded, Watching
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
DIGEST = hashlib.sha256(RAYCAST).hexdigest()


class Failing(InProcessReader):
    """Raises ``error`` for each question while there is one, and counts."""

    def __init__(self, error: BaseException | None, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits())
        self.error = error
        self.asked = 0
        self.indexed: list[MakeIndex] = []

    def ask(self, module, question):
        self.asked += 1
        if isinstance(question, MakeIndex):
            self.indexed.append(question)
        if self.error is not None:
            raise self.error
        return super().ask(module, question)


def outcomes(engine: Engine, count: int) -> list[type[BaseException]]:
    found = []
    for _ in range(count):
        with pytest.raises(SymdError) as caught:
            engine.add(RAYCAST)
        found.append(caught.type)
    return found


def attempts(store: Store, version: int = VERSION) -> int:
    with store.attempt(DIGEST, version) as before:
        return before.begun


@pytest.mark.parametrize("error", [WorkerDied("died of SIGSEGV"), DeadlineExceeded("took too long")], ids=repr)
def test_what_ends_the_process_that_reads_it_is_malformed_in_the_end(tmp_path: Path, error: SymdError) -> None:
    reader = Failing(error)
    with Engine(Store(tmp_path), reader=reader) as engine:
        assert outcomes(engine, MAX_ATTEMPTS + 2) == [type(error)] * MAX_ATTEMPTS + [Malformed] * 2
        assert reader.asked == MAX_ATTEMPTS
        failure = engine.store.failure(DIGEST, VERSION)
        assert f"{MAX_ATTEMPTS} attempts" in str(failure)
        assert error.message in str(failure)
        assert engine.missing([DIGEST]) == [DIGEST]


def killed(root: Path, times: int) -> None:
    """Begin to index the module so often in processes that are killed: what a kill leaves is what an exception leaves that nothing handles."""
    for _ in range(times):
        with Store(root) as store:
            if store.missing([DIGEST]):
                store.put(RAYCAST)
            engine = Engine(store, reader=Failing(KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                engine.resume()


def test_a_process_that_is_killed_while_it_indexes_leaves_the_count(tmp_path: Path) -> None:
    killed(tmp_path, MAX_ATTEMPTS)
    reader = Failing(None)
    with Engine(Store(tmp_path), reader=reader) as engine:
        engine.resume()
        assert reader.asked == 0
        assert engine.missing([DIGEST]) == [DIGEST]
        with pytest.raises(Malformed, match="was killed"):
            engine.add(RAYCAST)
        engine.remove(DIGEST)
        assert engine.add(RAYCAST).sha256 == DIGEST


def test_a_module_that_ended_its_readers_is_not_tried_once_more(tmp_path: Path) -> None:
    killed(tmp_path, MAX_ATTEMPTS - 1)
    reader = Failing(WorkerDied("died of SIGSEGV"))
    with Engine(Store(tmp_path), reader=reader) as engine:
        assert outcomes(engine, 2) == [WorkerDied, Malformed]
        assert len(reader.indexed) == 1


def test_an_answer_forgets_the_count(tmp_path: Path) -> None:
    reader = Failing(WorkerDied("died"))
    with Engine(Store(tmp_path), reader=reader) as engine:
        outcomes(engine, MAX_ATTEMPTS - 1)
        reader.error = None
        assert engine.add(RAYCAST).sha256 == DIGEST
        assert attempts(engine.store) == 0


def test_another_version_of_the_format_forgets_the_count(tmp_path: Path) -> None:
    with Engine(Store(tmp_path), reader=Failing(WorkerDied("died"))) as engine:
        outcomes(engine, MAX_ATTEMPTS)
        assert attempts(engine.store, VERSION + 1) == 0


def test_what_is_no_fault_of_the_modules_is_not_counted(tmp_path: Path) -> None:
    with Engine(Store(tmp_path), reader=Failing(StoreUnavailable("the disk is full"))) as engine:
        assert set(outcomes(engine, MAX_ATTEMPTS + 2)) == {StoreUnavailable}


def test_closing_counts_no_attempt_that_it_ends(tmp_path: Path) -> None:
    class Closing(InProcessReader):
        def ask(self, module, question):
            engine.close()
            raise KeyboardInterrupt

    engine = Engine(Store(tmp_path), reader=Closing(Limits()))
    engine.store.put(RAYCAST)
    with pytest.raises(KeyboardInterrupt):
        engine.module(DIGEST)
    with Store(tmp_path) as store:
        assert attempts(store) == 0


def test_a_limit_that_was_raised_lets_the_module_be_tried_again(tmp_path: Path) -> None:
    limits = Limits(object_count=0)
    with Engine(Store(tmp_path, limits), limits) as engine, pytest.raises(LimitExceeded):
        engine.add(RAYCAST)
    reader = Failing(None, limits)
    with Engine(Store(tmp_path, limits), limits, reader=reader) as engine, pytest.raises(LimitExceeded):
        engine.add(RAYCAST)
    assert reader.asked == 0  # it was remembered
    with Engine(Store(tmp_path)) as engine:
        assert engine.add(RAYCAST).sha256 == DIGEST


def test_recovery_goes_on_after_a_module_that_cannot_be_read_and_keeps_what_may_pass(tmp_path: Path) -> None:
    with Engine(Store(tmp_path), reader=Failing(DeadlineExceeded("took too long"))) as engine:
        engine.store.put(RAYCAST)
        engine.store.put(b"no format")
        engine.resume()
        assert engine.missing([DIGEST]) == []
    with Engine(Store(tmp_path)) as engine:
        engine.resume()
        assert [(record.sha256, record.format) for record in engine.modules()] == [(DIGEST, "igc-debug")]


@pytest.mark.parametrize(
    "error", [WorkerDied("died"), DeadlineExceeded("late"), Malformed("symd cannot read it")], ids=repr
)
def test_a_watch_passes_over_a_module_that_cannot_be_read(tmp_path: Path, error: SymdError) -> None:
    with Store(tmp_path) as store:
        store.put(RAYCAST, format="igc-debug")
        engine = Engine(store, reader=Failing(error))
        with engine.watch([Breakpoint("b", SourceLine("raycast.cl", 16))]) as watch:
            assert [type(each) for each in islice(watch, 2)] == [ModuleAdded, Watching]


def test_engines_over_one_store_take_turns_and_build_once(tmp_path: Path) -> None:
    """More of them than a module has attempts: those that wait are no failed ones."""
    count = MAX_ATTEMPTS + 2
    together = threading.Barrier(count)

    class Slow(Failing):
        def ask(self, module, question):
            time.sleep(0.3)  # meanwhile the others come to wait
            return super().ask(module, question)

    with Store(tmp_path) as store:
        store.put(RAYCAST)
    readers = [Slow(None) for _ in range(count)]

    def ask(reader: Slow) -> str:
        with Engine(Store(tmp_path), reader=reader) as engine:
            together.wait(60)
            return engine.module(DIGEST).sha256

    with ThreadPoolExecutor(count) as threads:
        assert set(threads.map(ask, readers)) == {DIGEST}
    assert sum(reader.asked for reader in readers) == 1
    assert list((tmp_path / "incoming").iterdir()) == []


def counted(root: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        return connection.execute("SELECT sha256, count FROM attempts").fetchall()


def test_a_module_that_is_gone_when_its_index_begins_is_not_counted(tmp_path: Path) -> None:
    """As when another process removes it at that moment, and this one is killed then."""
    with Store(tmp_path) as store:
        with store.attempt(DIGEST, VERSION):
            assert counted(tmp_path) == []
        store.put(RAYCAST)
        with store.attempt(DIGEST, VERSION):
            assert counted(tmp_path) == [(DIGEST, 1)]
            store.remove(DIGEST)
        assert counted(tmp_path) == []


def test_what_a_kill_left_of_an_attempt_goes_with_the_module_for_which_there_is_no_room(tmp_path: Path) -> None:
    with Store(tmp_path, Limits(store_size=len(RAYCAST) + 10)) as store:
        store.put(RAYCAST)
        with store.attempt(DIGEST, VERSION):
            pass  # a kill: nobody says how it ended
        assert counted(tmp_path) == [(DIGEST, 1)]
        store.put(bytes(20))
        assert store.missing([DIGEST]) == [DIGEST]
        assert counted(tmp_path) == []


class Held(InProcessReader):
    """Makes an index when it is let, and ends with ``error`` then, where there is one."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(Limits())
        self.error = error
        self.begun = 0
        self.began, self.go_on = threading.Event(), threading.Event()

    def ask(self, module, question):
        if isinstance(question, MakeIndex):
            self.begun += 1
            self.began.set()
            assert self.go_on.wait(60)
            if self.error is not None:
                raise self.error
        return super().ask(module, question)


def test_who_need_not_wait_is_told_when_the_index_is_made(tmp_path: Path) -> None:
    reader = Held()
    with Engine(Store(tmp_path), reader=reader) as engine, ThreadPoolExecutor(1) as threads:
        engine.store.put(RAYCAST)
        first = threads.submit(engine.module, DIGEST)
        assert reader.began.wait(60)
        with engine.without_waiting(), pytest.raises(Pending) as caught:
            engine.module(DIGEST)
        assert not caught.value.made.done()
        reader.go_on.set()
        assert caught.value.made.result(60) is None
        with engine.without_waiting():
            assert engine.module(DIGEST) == first.result(60)


def test_who_waited_for_an_attempt_that_took_too_long_does_not_make_another(tmp_path: Path) -> None:
    reader = Held(DeadlineExceeded("took too long", metadata={"limit": "build_seconds"}))
    with Engine(Store(tmp_path), reader=reader) as engine, ThreadPoolExecutor(3) as threads:
        engine.store.put(RAYCAST)
        first = threads.submit(engine.module, DIGEST)
        assert reader.began.wait(60)
        with engine.without_waiting(), pytest.raises(Pending) as caught:
            engine.module(DIGEST)
        others = [threads.submit(engine.module, DIGEST) for _ in range(2)]
        until = time.monotonic() + 60
        while not all(each.running() for each in others) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)  # what runs has asked by now
        reader.go_on.set()
        for each in (first, *others, caught.value.made):
            error = each.exception(60)
            assert isinstance(error, DeadlineExceeded)
            assert error.metadata == {"limit": "build_seconds"}
        assert reader.begun == 1


def test_another_process_that_holds_the_turn_is_waited_for_no_longer_than_an_attempt_may_take(tmp_path: Path) -> None:
    limits = Limits(build_seconds=0.3)
    with Store(tmp_path) as other, Engine(Store(tmp_path, limits), limits) as engine:
        other.put(RAYCAST)
        with other.attempt(DIGEST, VERSION):
            with pytest.raises(DeadlineExceeded, match="another process has been indexing") as caught:
                engine.module(DIGEST)
            assert caught.value.metadata == {"limit": "build_seconds", "value": "0.3"}
            assert engine.store.failure(DIGEST, VERSION) is None
        other.forget_attempts(DIGEST, VERSION)
    with Engine(Store(tmp_path)) as engine:
        assert engine.module(DIGEST).sha256 == DIGEST
