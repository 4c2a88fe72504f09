"""The index of an uploaded module is begun while the disk takes the module in, and nothing else changes by that."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.indexes.builds import MAX_ATTEMPTS
from symd.engine.reading.questions import InProcessReader, MakeIndex
from symd.errors import HashMismatch, LimitExceeded, Malformed, StoreUnavailable, SymdError, WorkerDied
from symd.index import VERSION
from symd.model.addresses import ByAddress
from symd.store import Store
from tests.open_files import open_files

DATA = (Path(__file__).parents[2] / "samples" / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
DIGEST = hashlib.sha256(DATA).hexdigest()
PLACE = ByAddress(0x1978)


class Elsewhere(InProcessReader):
    """Says that others read, notes what the store has when an index is begun, and raises ``error`` where there is one."""

    elsewhere = True

    def __init__(self, error: SymdError | None = None, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits())
        self.error = error
        self.store: Store | None = None
        self.begun: list[bool] = []
        self.let_go = threading.Event()
        self.let_go.set()

    def ask(self, module, question):
        if isinstance(question, MakeIndex):
            assert self.store is not None
            self.begun.append(self.store.is_catalogued(module.digest))
            assert self.let_go.wait(20)
            if self.error is not None:
                raise self.error
        return super().ask(module, question)


@pytest.fixture
def reader() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def engine(tmp_path: Path, reader: Elsewhere):
    with Engine(Store(tmp_path), reader=reader) as engine:
        reader.store = engine.store
        yield engine


def upload(engine: Engine, data: bytes = DATA, digest: str = DIGEST, label: str = ""):
    with engine.receive(label) as arriving:
        arriving.write(data[:1000])
        arriving.write(data[1000:])
        return arriving.commit(digest)


def slowed(engine: Engine, reader: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes a file in no sooner than its index is begun."""
    begun, ask = threading.Event(), reader.ask

    def asked(module, question):
        begun.set()
        return ask(module, question)

    monkeypatch.setattr(reader, "ask", asked)
    sync = engine.store._incoming().__class__.sync
    monkeypatch.setattr("symd.store.files.IncomingFile.sync", lambda file: (begun.wait(20), sync(file))[1])


def test_it_is_begun_before_the_disk_has_the_module(engine: Engine, reader: Elsewhere, monkeypatch, tmp_path) -> None:
    slowed(engine, reader, monkeypatch)
    summary = upload(engine)
    assert reader.begun[0] is False
    assert len(reader.begun) == 1
    with Engine(Store.temporary()) as other:
        assert other.add(DATA) == summary
        assert other.symbolize_one(DIGEST, PLACE) == engine.symbolize_one(DIGEST, PLACE)
    assert engine.store.index(DIGEST, VERSION) is not None
    with engine.store.attempt(DIGEST, VERSION) as before:
        assert before.begun == 0


def test_a_disk_that_has_no_room_for_the_index_is_told(engine: Engine, reader: Elsewhere, monkeypatch) -> None:
    slowed(engine, reader, monkeypatch)
    write = os.write

    def refused(handle: int, data) -> int:
        if "incoming-" in str(Path(f"/proc/self/fd/{handle}").readlink()) and bytes(data[:4]) != DATA[:4]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    with monkeypatch.context() as full:
        full.setattr("symd.store.files.os.write", refused)
        with pytest.raises(StoreUnavailable, match="no space left"):
            upload(engine)
    assert upload(engine).sha256 == DIGEST


def test_a_module_that_is_there_already_is_not_begun_again(engine: Engine, reader: Elsewhere) -> None:
    upload(engine)
    upload(engine)
    assert len(reader.begun) == 1


def test_bytes_of_another_digest_are_not_begun(engine: Engine, reader: Elsewhere) -> None:
    with pytest.raises(HashMismatch):
        upload(engine, digest="0" * 64)
    assert reader.begun == []


def test_what_cannot_be_indexed_goes_and_is_remembered(engine: Engine, reader: Elsewhere) -> None:
    reader.error = LimitExceeded("too much", metadata={"limit": "debug_entries", "value": "1000000000000"})
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="too much"):
            upload(engine)
    assert engine.missing([DIGEST]) == [DIGEST]
    assert len(reader.begun) == 1


def test_what_ends_its_reader_is_given_up_after_as_many_attempts(engine: Engine, reader: Elsewhere) -> None:
    reader.error = WorkerDied("died of SIGSEGV")
    for expected in [WorkerDied] * MAX_ATTEMPTS + [Malformed] * 2:
        with pytest.raises(expected):
            upload(engine)
    assert engine.missing([DIGEST]) == [DIGEST]


def test_who_cannot_be_stored_does_not_wait_for_the_index(engine: Engine, reader: Elsewhere, tmp_path: Path) -> None:
    reader.let_go.clear()
    with pytest.raises(LimitExceeded, match="label"):
        upload(engine, label="x" * 5000)
    reader.let_go.set()
    assert engine.missing([DIGEST]) == [DIGEST]
    upload(engine)
    assert engine.symbolize_one(DIGEST, PLACE).frames


def test_nothing_stays_open_or_behind(engine: Engine, reader: Elsewhere, tmp_path: Path) -> None:
    upload(engine, DATA + b"first", hashlib.sha256(DATA + b"first").hexdigest())
    _end_threads()
    before = _open_files()
    for number in range(5):
        data = DATA + number.to_bytes(4, "little")
        upload(engine, data, hashlib.sha256(data).hexdigest())
    _end_threads()
    assert _open_files() <= before
    assert list((tmp_path / "incoming").iterdir()) == []


def test_a_module_is_added_where_no_thread_can_be_started(engine: Engine, reader: Elsewhere, monkeypatch) -> None:
    """Its index is made afterwards then, and its descriptor is closed."""
    with engine.receive("") as arriving:
        arriving.write(DATA)
        before = _open_files()
        monkeypatch.setattr(threading.Thread, "start", _no_thread)
        assert arriving.commit(DIGEST).sha256 == DIGEST
    assert _open_files() <= before
    assert reader.begun == [True]
    assert engine.symbolize_one(DIGEST, PLACE).frames


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def _end_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "symd-index-ahead":
            thread.join(20)


def _open_files() -> set[str]:
    """But for connections to the catalogue, of which there may be as many as there were threads at a time."""
    return {each for each in open_files() if "catalogue.sqlite" not in each}
