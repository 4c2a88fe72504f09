"""What another thread does while a question about a module is under way: what was admitted stays, what was removed is
forgotten, and an index that was made meanwhile is used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from symd.api import Pending
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.indexes.builds import ModuleLocks
from symd.engine.reading.questions import IndexFor, InProcessReader, MakeIndex, Outline
from symd.errors import DeadlineExceeded, ModuleNotFound, WorkerDied
from symd.formats import containers
from symd.index import VERSION
from symd.index.partial import MIN_OBJECTS
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.store import Store
from symd.store.module_log import Removals
from tests.builders import igc

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
VADD = (BIN / "vadd" / "dg2-opt.dbg").read_bytes()
QUERY = ByKernel("ray_7", KernelOffset(0x610))
LONG = 60.0


@pytest.fixture(scope="module")
def container() -> bytes:
    """A module that is outlined first: one kernel under many names."""
    code = containers.unpack(RAYCAST, Limits()).objects[0]
    return igc.debug_container([igc.DebugRecord(f"ray_{number}", code.data) for number in range(MIN_OBJECTS + 20)])


class Interrupted(InProcessReader):
    """Calls ``meanwhile`` in another thread, to its end, when the first question of the kind ``kind`` has its answer
    and who asked it has not; ``error`` is raised instead of that answer."""

    def __init__(self, kind: type[Any], error: Exception | None = None, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits())
        self.kind, self.error = kind, error
        self.meanwhile: Callable[[], object] | None = None
        self.asked: list[type[Any]] = []

    def ask(self, module, question):
        self.asked.append(type(question))
        answer = super().ask(module, question)
        if not isinstance(question, self.kind) or self.meanwhile is None:
            return answer
        call, self.meanwhile = self.meanwhile, None
        with ThreadPoolExecutor(1) as other:
            other.submit(call).result(LONG)
        if self.error is not None:
            raise self.error
        return answer


def close_all_but_last(engine: Engine) -> None:
    """With room for one open index, the index of another module closes those of all before."""
    engine.module(engine.add(VADD).sha256)


def test_a_failed_upload_leaves_a_module_that_another_upload_was_told_is_there(
    container: bytes, tmp_path: Path
) -> None:
    reader = Interrupted(Outline, WorkerDied("died"))
    with Engine(Store(tmp_path), reader=reader) as engine:
        told = []
        reader.meanwhile = lambda: told.append(engine.add(container).sha256)
        with pytest.raises(WorkerDied):
            engine.add(container)
        assert engine.missing(told) == []
        assert engine.symbolize_one(told[0], QUERY).reason is Reason.EXACT


def test_a_module_that_is_removed_while_a_kernel_is_indexed_answers_no_more(container: bytes, tmp_path: Path) -> None:
    reader = Interrupted(IndexFor)
    with Engine(Store(tmp_path), reader=reader) as engine:
        digest = engine.add(container).sha256
        reader.meanwhile = lambda: engine.remove(digest)
        engine.symbolize_one(digest, QUERY)
        with pytest.raises(ModuleNotFound):
            engine.symbolize_one(digest, QUERY)


def test_a_module_that_is_removed_while_it_is_outlined_is_forgotten(container: bytes, tmp_path: Path) -> None:
    reader = Interrupted(Outline)
    with Engine(Store(tmp_path), reader=reader) as engine:
        reader.meanwhile = lambda: engine.remove(next(iter(engine.modules())).sha256)
        with pytest.raises(ModuleNotFound):
            engine.add(container)
        assert reader.asked == [Outline]
        engine.add(container)
        assert reader.asked == [Outline, Outline]


@pytest.mark.parametrize("kind", [Outline, IndexFor])
def test_an_index_that_is_made_meanwhile_is_opened_again_when_it_was_closed(
    kind: type[Any], container: bytes, tmp_path: Path
) -> None:
    limits = Limits(open_indexes=1)
    reader = Interrupted(kind, limits=limits)
    with Engine(Store(tmp_path, limits), limits, reader=reader) as engine:
        reader.meanwhile = lambda: engine.module(next(iter(engine.modules())).sha256)
        digest = engine.add(container).sha256
        engine.symbolize_one(digest, QUERY)
        assert reader.meanwhile is None
        assert engine.store.index(digest, VERSION) is not None
        close_all_but_last(engine)
        reader.asked.clear()
        assert engine.symbolize_one(digest, ByKernel("ray_9", KernelOffset(0x610))).reason is Reason.EXACT
        assert reader.asked == []


def test_where_the_log_of_removals_has_a_gap_outlined_modules_are_forgotten_too(
    container: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Removals, "notify_logged", lambda *_, **__: None)
    with Engine(Store(tmp_path)) as engine, Store(tmp_path) as other:
        digest = engine.add(container).sha256
        engine.symbolize_one(digest, QUERY)
        other.remove(digest)
        engine.store.removals.notify(None)
        with pytest.raises(ModuleNotFound):
            engine.symbolize_one(digest, QUERY)


class Late(InProcessReader):
    """Takes too long for an index, when it is let."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self.began, self.go_on = threading.Event(), threading.Event()

    def ask(self, module, question):
        if isinstance(question, MakeIndex):
            self.began.set()
            assert self.go_on.wait(LONG)
            raise DeadlineExceeded("took too long", metadata={"limit": "build_seconds"})
        return super().ask(module, question)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a thread waits for the lock of a module."""
    waits, original = threading.Event(), ModuleLocks._holder

    def noticed(locks: ModuleLocks, digest: str, mine: Future[None]) -> Future[None]:
        holder = original(locks, digest, mine)
        if holder is not mine:
            waits.set()
        return holder

    monkeypatch.setattr(ModuleLocks, "_holder", noticed)
    return waits


def test_two_uploads_of_a_module_that_takes_too_long_are_both_told_so(
    tmp_path: Path, waits: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is told that there is no such module, which the other had refused."""
    reader, both, put = Late(), threading.Barrier(2), Store.put

    def put_together(store: Store, *arguments: Any) -> str:
        both.wait(LONG)  # for neither it is there
        return put(store, *arguments)

    monkeypatch.setattr(Store, "put", put_together)
    with Engine(Store(tmp_path), reader=reader) as engine, ThreadPoolExecutor(2) as threads:
        uploads = [threads.submit(engine.add, RAYCAST) for _ in range(2)]
        assert waits.wait(LONG)
        reader.go_on.set()
        assert [type(upload.exception(LONG)) for upload in uploads] == [DeadlineExceeded] * 2
        assert list(engine.modules()) == []


def test_a_removal_waits_for_an_attempt_that_takes_too_long_and_does_not_fail_with_it(
    tmp_path: Path, waits: threading.Event
) -> None:
    reader = Late()
    with Engine(Store(tmp_path), reader=reader) as engine, ThreadPoolExecutor(2) as threads:
        digest = engine.store.put(RAYCAST)
        first = threads.submit(engine.module, digest)
        assert reader.began.wait(LONG)
        removal = threads.submit(engine.remove, digest)
        assert waits.wait(LONG)
        reader.go_on.set()
        assert isinstance(first.exception(LONG), DeadlineExceeded)
        assert removal.result(LONG) is None
        assert engine.missing([digest]) == [digest]


def test_a_removal_that_is_begun_again_later_is_not_told_how_the_attempt_ended(tmp_path: Path) -> None:
    reader = Late()
    with Engine(Store(tmp_path), reader=reader) as engine, ThreadPoolExecutor(1) as threads:
        digest = engine.store.put(RAYCAST)
        first = threads.submit(engine.module, digest)
        assert reader.began.wait(LONG)
        with engine.without_waiting(), pytest.raises(Pending) as caught:
            engine.remove(digest)
        assert not caught.value.made.done()
        reader.go_on.set()
        assert isinstance(first.exception(LONG), DeadlineExceeded)
        assert caught.value.made.exception(LONG) is None
        engine.remove(digest)
        assert engine.missing([digest]) == [digest]
