"""Modules' bytes are read in processes of their own; whatever becomes of those, the daemon says it in one error."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.reading import ModuleFile, served
from symd.engine.reading.questions import (
    EmbeddedSources,
    IndexFor,
    InProcessReader,
    ListedCode,
    MakeIndex,
    ObjectBytes,
    Outline,
    PtxLinesRequest,
    VariablesAt,
)
from symd.engine.reading.served import encode
from symd.errors import (
    DataLoss,
    DeadlineExceeded,
    LimitExceeded,
    Malformed,
    ModuleNotFound,
    ObjectNotFound,
    SymdError,
    Unavailable,
    WorkerDied,
)
from symd.index.module import build_index
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodeSpan
from symd.server import workers as workers_module
from symd.server.workers import Workers
from symd.store import Store
from symd.system.process import confinement
from tests.daemon.processes import children
from tests.server.test_budgets import eventually

SAMPLES = Path(__file__).parents[2] / "samples"
BIN = SAMPLES / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
CUBIN = (SAMPLES / "cuda/bin/saxpy.sm_75.lines.cubin").read_bytes()


def module_of(folder, data):
    path = folder / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return ModuleFile(path.name, str(path))


@pytest.fixture
def raycast(tmp_path):
    return module_of(tmp_path, RAYCAST)


@pytest.fixture
def workers():
    with Workers(Limits(), 2, 1) as made:
        yield made


def limited(**limits):
    return Workers(Limits(**limits), 1, 1)


def make_index(reader, module, folder):
    into = folder / "made"
    into.write_bytes(b"")
    size = reader.ask(module, MakeIndex(str(into)))
    made = into.read_bytes()
    assert len(made) == size
    return made


def test_the_index_is_the_one_that_this_process_would_make(workers, raycast, tmp_path):
    assert make_index(workers, raycast, tmp_path) == build_index(RAYCAST, Limits())


@pytest.mark.parametrize(
    "question",
    [
        Outline(),
        IndexFor(()),
        VariablesAt("raycast", ((1, 0x368),)),
        ListedCode(),
        ListedCode("raycast", (CodeSpan(ObjectPath("raycast"), 1, 0, 8),), "dg2"),
        EmbeddedSources(("/tmp/raycast.cl", "nowhere.cl")),
        ObjectBytes("raycast"),
        PtxLinesRequest(),
    ],
    ids=lambda question: type(question).__name__,
)
def test_an_answer_is_the_one_that_this_process_would_give(workers, raycast, question):
    assert encode(workers.ask(raycast, question)) == encode(InProcessReader(Limits()).ask(raycast, question))


@pytest.mark.skipif(not confinement.available(), reason="this kernel cannot confine")
def test_the_processes_are_confined(workers, raycast):
    before = children(os.getpid())
    assert workers.ask(raycast, ObjectBytes("raycast"))
    assert any(map(is_filtered, before))


def is_filtered(process: int) -> bool:
    """Whether seccomp bounds it (proc(5)); one that another test left may end meanwhile."""
    try:
        return re.search(r"^Seccomp:\t2$", Path(f"/proc/{process}/status").read_text(), re.MULTILINE) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_kernel_that_cannot_confine_is_said_once(raycast, caplog, monkeypatch):
    monkeypatch.setattr(confinement, "version", lambda: 0)
    with Workers(Limits(), 1, 1) as workers:
        assert workers.ask(raycast, ObjectBytes("raycast"))
        assert workers.ask(raycast, EmbeddedSources(("nowhere.cl",))) is not None
    assert caplog.text.count("no Landlock") == 1


def test_lines_of_ptx_come_back_as_columns(workers, tmp_path):
    module = module_of(tmp_path, CUBIN)
    [there] = workers.ask(module, PtxLinesRequest())
    [here] = InProcessReader(Limits()).ask(module, PtxLinesRequest())
    assert (there.line == here.line).all()
    assert list(there.strings) == list(here.strings)
    assert len(there)


def test_a_refusal_comes_back_as_itself(workers, raycast, tmp_path):
    cut = module_of(tmp_path, RAYCAST[:100])
    with pytest.raises(Malformed) as there:
        make_index(workers, cut, tmp_path)
    with pytest.raises(Malformed) as here:
        build_index(RAYCAST[:100], Limits())
    assert str(there.value) == str(here.value)
    with pytest.raises(ObjectNotFound):
        workers.ask(raycast, ObjectBytes("nowhere"))


def test_time_that_is_up_is_said_by_the_limits_name(raycast, tmp_path):
    with limited(build_seconds=0.001, question_seconds=0.001) as workers:
        with pytest.raises(DeadlineExceeded) as caught:
            make_index(workers, raycast, tmp_path)
        assert caught.value.metadata == {"limit": "build_seconds", "value": "0.001"}
        with pytest.raises(DeadlineExceeded) as caught:
            workers.ask(raycast, ObjectBytes("raycast"))
        assert caught.value.metadata["limit"] == "question_seconds"


def test_what_is_not_done_quickly_is_done_in_the_other_pool(workers, raycast, tmp_path, monkeypatch):
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", 0.001)
    assert make_index(workers, raycast, tmp_path) == build_index(RAYCAST, Limits())


def test_who_asks_for_little_does_not_wait_for_who_asks_for_much(raycast, tmp_path, monkeypatch):
    """The index of a large module is being made, by a process that is stopped, while a small question is answered."""
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", HANGING)  # a busy machine takes longer to begin
    large = module_of(tmp_path, RAYCAST + bytes(served.LARGE_MODULE))
    with limited(build_seconds=HANGING, question_seconds=HANGING) as workers:
        [quick], [long] = waiting(workers._quick), waiting(workers._long)
        os.kill(long, signal.SIGSTOP)
        indexing = threading.Thread(target=make_index, args=(workers, large, tmp_path))
        indexing.start()
        assert workers.ask(raycast, ObjectBytes("raycast"))
        assert indexing.is_alive()
        os.kill(long, signal.SIGCONT)
        indexing.join(HANGING)
        assert not indexing.is_alive()
        assert quick in children(os.getpid())


HANGING = 600.0
"""Seconds, of what takes less than one."""


def waiting(pool):
    """The processes of a pool that wait for work."""
    return [worker.process.pid for worker in pool._idle]


def test_memory_that_runs_out_is_said_by_the_limits_name(tmp_path):
    module = module_of(tmp_path, bytes(300 << 20))
    with limited(build_memory=400 << 20) as workers, pytest.raises(LimitExceeded, match="419430400 bytes") as caught:
        make_index(workers, module, tmp_path)
    assert caught.value.metadata == {"limit": "build_memory", "value": "419430400"}


def test_an_answer_that_is_too_large_is_said(raycast, monkeypatch):
    monkeypatch.setattr("symd.server.workers.ANSWER_SIZE", 100)
    with limited() as workers, pytest.raises(LimitExceeded) as caught:
        workers.ask(raycast, ObjectBytes("raycast"))
    assert caught.value.metadata == {"limit": "answer_size", "value": "100"}


def test_an_index_that_is_too_large_is_said_by_the_limits_name(raycast, tmp_path):
    with limited(index_size=100) as workers, pytest.raises(LimitExceeded) as caught:
        make_index(workers, raycast, tmp_path)
    assert caught.value.metadata == {"limit": "index_size", "value": "100"}


def test_a_process_that_is_killed_is_one_clear_error_and_is_replaced(raycast, monkeypatch):
    monkeypatch.setattr(workers_module, "QUICK_SECONDS", HANGING)
    before = children(os.getpid())
    with limited(question_seconds=HANGING) as workers:
        mine = children(os.getpid()) - before
        assert len(mine) == 2  # they are started ahead
        for process in mine:
            os.kill(process, signal.SIGSTOP)
        failed = []

        def ask():
            try:
                workers.ask(raycast, ObjectBytes("raycast"))
            except SymdError as error:
                failed.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert eventually(lambda: workers._quick._working)
        for process in mine:
            os.kill(process, signal.SIGKILL)
        asking.join(HANGING)
        assert [type(error) for error in failed] == [WorkerDied]
        assert failed[0].metadata == {"signal": "SIGKILL"}
        assert workers.ask(raycast, ObjectBytes("raycast"))
    assert children(os.getpid()) <= before  # one that another test left may end meanwhile


def test_bytes_that_are_not_the_digests_are_refused_and_a_file_that_is_gone_is_said(workers, raycast):
    path = Path(raycast.path)
    damaged = bytearray(RAYCAST)
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataLoss) as caught:
        workers.ask(raycast, ObjectBytes("raycast"))
    assert caught.value.metadata["module"] == f"modules/{raycast.digest}"
    path.unlink()
    with pytest.raises(ModuleNotFound):
        workers.ask(raycast, ObjectBytes("raycast"))


def test_an_exception_of_nobodys_is_malformed_under_an_id_that_the_log_has(workers, raycast, tmp_path, caplog):
    """Nobody foresees a question about a number, as nobody foresees what a library does with some bytes."""
    with caplog.at_level(logging.ERROR), pytest.raises(Malformed) as caught:
        workers.ask(raycast, ListedCode(None, 5))
    number = caught.value.metadata["id"]
    assert number in str(caught.value)
    assert caught.value.metadata["exception"] == "TypeError"
    assert number in caplog.text
    assert "Traceback" in caplog.text


def test_workers_that_are_closed_say_so(raycast):
    workers = Workers(Limits(), 1, 1)
    workers.close()
    with pytest.raises(Unavailable):
        workers.ask(raycast, ObjectBytes("raycast"))


def test_many_who_ask_for_one_module_have_it_built_once(tmp_path):
    asked = []

    class Slow(InProcessReader):
        def ask(self, module, question):
            asked.append(type(question))
            time.sleep(0.2)
            return super().ask(module, question)

    with Engine(Store(tmp_path), reader=Slow(Limits())) as engine:
        digest = engine.store.put(RAYCAST)
        asking = [threading.Thread(target=engine.module, args=(digest,)) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert asked == [MakeIndex]
