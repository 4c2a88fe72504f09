"""Kept processes: called again and again, replaced when they die, and their death told truly."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import BuildFailed, Unavailable
from symd.system.process import confinement
from symd.system.process import pool as pool_module
from symd.system.process.frames import BYTES, JSON, write_frame
from symd.system.process.pool import Pool
from symd.system.process.process import ProcessLimits
from symd.system.process.run import ChildException, ExitStatus, Limit
from tests.system.process.functions import ATTEMPTS
from tests.system.process.test_run import gone

PROCESS_LIMITS = ProcessLimits(seconds=60.0, memory=1 << 30, answer=1 << 20)
LIMITS = Limits(batch=17)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    made = Pool("tests.system.process.functions:work", 2)
    yield made
    made.close()


def ask(pool: Pool, data: bytes, limits: ProcessLimits = PROCESS_LIMITS) -> bytes | ExitStatus:
    return pool.call(data, LIMITS, limits)


def test_one_process_answers_again_and_again_with_the_limits_that_were_given(pool: Pool) -> None:
    first = ask(pool, b"pid")
    assert ask(pool, b"limits") == b"17"
    assert ask(pool, b"print") == b"printed"
    assert ask(pool, b"x" * 1000) == b"x" * 1000
    assert ask(pool, b"pid") == first


def test_a_process_does_not_see_this_ones_settings(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMD_TOKEN", "a-secret")
    found = ask(pool, b"environment")
    assert isinstance(found, bytes)
    assert b"PATH=" in found
    assert b"a-secret" not in found


needs_landlock = pytest.mark.skipif(not confinement.available(), reason="this kernel cannot confine")


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    made = Pool("tests.system.process.functions:work", 1, confined=True)
    yield made
    made.close()


@needs_landlock
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_confined_process_reaches_nothing(confined: Pool, attempt: str) -> None:
    assert ask(confined, b"try " + attempt.encode()) == b"refused"


@pytest.mark.parametrize(
    "attempt", ["read", "list", "environment", "connect", "network", "thread", "signal", "processor"]
)
def test_one_that_is_not_confined_would(pool: Pool, attempt: str) -> None:
    """So that the test above can fail."""
    assert ask(pool, b"try " + attempt.encode()) == b"done"


@needs_landlock
def test_it_has_the_files_that_come_with_a_call_for_that_call(confined: Pool, tmp_path: Path) -> None:
    given, into = tmp_path / "given", tmp_path / "into"
    given.write_bytes(b"what was given")
    into.write_bytes(b"")
    with given.open("rb") as one, into.open("r+b") as other:
        pair = (one.fileno(), other.fileno())
        assert confined.call(b"read", LIMITS, PROCESS_LIMITS, descriptors=pair) == b"what was given "
        assert confined.call(b"write some", LIMITS, PROCESS_LIMITS, descriptors=pair) == b"4"
        pid = confined.call(b"pid", LIMITS, PROCESS_LIMITS, descriptors=pair)
    assert into.read_bytes() == b"some"
    assert isinstance(pid, bytes)
    kept = {str(path.readlink()) for path in Path(f"/proc/{int(pid)}/fd").iterdir()}
    assert not {str(given), str(into)} & kept
    assert ask(confined, b"read") == b""


@needs_landlock
def test_it_imports_what_it_needs_late(confined: Pool) -> None:
    assert ask(confined, b"import") == b"wave"


FROM_THE_START = """
import os, resource
from pathlib import Path
Path({mark!r} + "~").write_text(repr(resource.getrlimit(resource.RLIMIT_AS)))
os.rename({mark!r} + "~", {mark!r})
def work(data, limits, descriptors): return data
"""


def test_a_process_has_its_limits_before_it_imports_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where whoever would set them from outside comes late."""
    mark = tmp_path / "limits"
    (tmp_path / "from_the_start.py").write_text(FROM_THE_START.format(mark=str(mark)))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    prlimit = resource.prlimit

    def set_late(*arguments):
        while not mark.exists():
            time.sleep(0.01)
        return prlimit(*arguments)

    monkeypatch.setattr(resource, "prlimit", set_late)
    pool = Pool("from_the_start:work", 1)
    try:
        assert ask(pool, b"echo") == b"echo"
    finally:
        pool.close()
    assert mark.read_text() == repr((PROCESS_LIMITS.memory, PROCESS_LIMITS.memory))


def test_a_process_is_not_ended_by_sigterm_however_early_it_comes(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service manager sends it to all processes of a service; one may just have been started."""
    begin = pool_module.start

    def start(*arguments, **options):
        process = begin(*arguments, **options)
        os.kill(process.pid, signal.SIGTERM)
        return process

    monkeypatch.setattr(pool_module, "start", start)
    assert ask(pool, b"echo") == b"echo"


def no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_where_the_system_gives_no_thread_that_is_said(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that the processes are being ended. To ask one that runs takes none."""
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(Unavailable, match="no further thread"):
            ask(pool, b"pid")
    first = ask(pool, b"pid")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        assert ask(pool, b"pid") == first


def test_who_asks_does_not_wait_for_a_process_that_is_started_ahead(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.start_ahead(2, PROCESS_LIMITS)
    begun, go_on = threading.Event(), threading.Event()
    start = pool_module._start

    def late(*arguments: object) -> object:
        begun.set()
        assert go_on.wait(60)
        return start(*arguments)

    monkeypatch.setattr(pool_module, "_start", late)
    with ThreadPoolExecutor(2) as threads:
        killed = threads.submit(ask, pool, b"kill 9")
        assert begun.wait(60)
        assert isinstance(threads.submit(ask, pool, b"pid").result(60), bytes)
        assert not killed.done()
        go_on.set()
        assert isinstance(killed.result(60), ExitStatus)


def test_a_process_that_is_started_ahead_beside_a_calls_own_is_not_one_too_many(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    started: list[pool_module._Worker] = []
    start = pool_module._start

    def late(*arguments: object) -> pool_module._Worker:
        begun.set()
        assert go_on.wait(60)
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(pool_module, "_start", late)
    with ThreadPoolExecutor(3) as threads:
        ahead = threads.submit(pool.start_ahead, 1, PROCESS_LIMITS)
        assert begun.wait(60)
        asked = [threads.submit(ask, pool, b"pid") for _ in range(2)]
        while pool._starter._work_queue.qsize() < len(asked):
            threading.Event().wait(0.01)
        go_on.set()
        ahead.result(60)
        assert len({each.result(60) for each in asked}) == len(started) - 1 == 2
    assert sum(each.process.poll() is None for each in started) == 2


def test_a_process_that_starts_while_all_are_ended_is_ended_too(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start_and_close(*arguments: object) -> object:
        started.append(start(*arguments))
        pool.close()
        return started[0]

    start = pool_module._start
    monkeypatch.setattr(pool_module, "_start", start_and_close)
    with pytest.raises(Unavailable):
        ask(pool, b"pid")
    assert started[0].process.returncode == -signal.SIGKILL


HOLDER = """
import sys
from tests.system.process.test_pool import LIMITS, PROCESS_LIMITS
from symd.system.process.pool import Pool
pool = Pool("tests.system.process.functions:work", 1)
print(int(pool.call(b"pid", LIMITS, PROCESS_LIMITS)), flush=True)
pool.call(b"hang " + sys.argv[1].encode(), LIMITS, PROCESS_LIMITS)
"""


def test_a_busy_process_dies_with_a_killed_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    mark = tmp_path / "busy"
    command = [sys.executable, "-c", HOLDER, str(mark)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        for _ in range(3000):
            if mark.exists():
                break
            time.sleep(0.01)
        assert mark.exists()
        holder.kill()
    assert gone(worker)


def test_a_process_outlives_the_thread_that_first_asked_for_it(pool: Pool) -> None:
    """The kernel ends a child with the thread that started it, not only with the process."""
    found = []
    asking = threading.Thread(target=lambda: found.append(ask(pool, b"pid")))
    asking.start()
    asking.join()
    time.sleep(0.2)
    assert ask(pool, b"pid") == found[0]


def test_no_more_processes_run_than_were_allowed(pool: Pool) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len({*threads.map(lambda _: ask(pool, b"pid"), range(40))}) <= 2


def test_an_error_comes_back_as_itself_and_costs_no_process(pool: Pool) -> None:
    first = ask(pool, b"pid")
    with pytest.raises(BuildFailed) as caught:
        ask(pool, b"fail")
    error = caught.value
    assert (str(error), error.build_log, error.metadata) == ("here: no (do)", "log", {"k": "v"})
    assert ask(pool, b"pid") == first


@pytest.mark.parametrize(
    ("request_", "ending"),
    [
        (b"kill %d" % signal.SIGSEGV, ExitStatus(-signal.SIGSEGV)),
        (b"kill %d" % signal.SIGKILL, ExitStatus(-signal.SIGKILL)),
    ],
)
def test_a_death_is_told_and_the_next_call_has_a_new_process(pool: Pool, request_: bytes, ending: ExitStatus) -> None:
    first = ask(pool, b"pid")
    assert ask(pool, request_) == ending
    assert ask(pool, b"pid") not in (first, ending)


def test_an_exception_of_nobodys_is_told_whole_and_costs_no_process(pool: Pool) -> None:
    first = ask(pool, b"pid")
    found = ask(pool, b"defect")
    assert isinstance(found, ChildException)
    assert (found.exception, found.message) == ("RuntimeError", "a defect")
    assert "tests/system/process/functions.py" in found.traceback
    assert ask(pool, b"pid") == first


def test_memory_that_is_refused_is_named(pool: Pool) -> None:
    ended = ask(pool, b"memory")
    assert isinstance(ended, ExitStatus)
    assert ended.limit is Limit.MEMORY
    assert ask(pool, b"again") == b"again"


def test_time_that_is_up_ends_the_process(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask(pool, b"pid")
    assert isinstance(first, bytes)
    mark = tmp_path / "reached"

    class WhenReached(pool_module._ReadUntil):
        def read(self, size: int) -> bytes:
            while not mark.exists():
                time.sleep(0.01)
            self._end = 0.0
            return super().read(size)

    with monkeypatch.context() as patch:
        patch.setattr(pool_module, "_ReadUntil", WhenReached)
        assert ask(pool, b"hang " + bytes(mark)) == ExitStatus(-signal.SIGKILL, Limit.SECONDS)
    assert gone(int(first))


def test_time_is_up_for_a_process_that_does_not_read_its_request(pool: Pool) -> None:
    first = ask(pool, b"pid")
    assert isinstance(first, bytes)
    os.kill(int(first), signal.SIGSTOP)
    larger_than_a_socket_holds = bytes(8 << 20)
    ended = ask(pool, larger_than_a_socket_holds, replace(PROCESS_LIMITS, seconds=0.5))
    assert ended == ExitStatus(-signal.SIGKILL, Limit.SECONDS)
    assert gone(int(first))


def test_an_answer_that_drips_has_no_more_time_than_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, (read_end, write_end) = iter(range(100)), os.pipe()
    monkeypatch.setattr(pool_module.time, "monotonic", lambda: float(next(clock)))
    source = pool_module._ReadUntil(read_end, 5.0)
    monkeypatch.setattr(pool_module, "_PIECE", 1)
    os.write(write_end, bytes(100))
    with pytest.raises(TimeoutError):
        source.read(50)
    assert next(clock) < 10
    for each in (read_end, write_end):
        os.close(each)


def test_an_answer_larger_than_allowed_is_not_taken(pool: Pool) -> None:
    ended = ask(pool, b"x" * 2000, ProcessLimits(60.0, 1 << 30, 1000))
    assert isinstance(ended, ExitStatus)
    assert ended.limit is Limit.ANSWER


def test_a_process_with_another_memory_limit_is_not_reused(pool: Pool) -> None:
    first = ask(pool, b"pid")
    second = ask(pool, b"pid", ProcessLimits(60.0, 1 << 31, 1 << 20))
    assert isinstance(first, bytes)
    assert first != second
    assert gone(int(first))


def test_closing_ends_the_processes_that_wait(pool: Pool) -> None:
    pid = ask(pool, b"pid")
    assert isinstance(pid, bytes)
    assert Path("/proc", pid.decode()).exists()
    pool.close()
    assert gone(int(pid))


def test_processes_that_are_started_ahead_are_there_and_are_replaced(pool: Pool) -> None:
    pool.start_ahead(1, PROCESS_LIMITS)
    first = ask(pool, b"pid")
    assert isinstance(ask(pool, b"kill 9"), ExitStatus)
    second = ask(pool, b"pid")
    assert second not in (first, None)


def test_a_process_is_preferred_that_worked_on_the_same_before(pool: Pool) -> None:
    def pid(subject: str) -> bytes | ChildException | ExitStatus:
        return pool.call(b"pid", LIMITS, PROCESS_LIMITS, subject)

    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(pool.call, b"sleep", LIMITS, PROCESS_LIMITS, "one")
        other = pid("two")
        slow.result()
    assert pid("two") == other
    assert [pid("one") == other, pid("two") == other, pid("one") == other] == [False, True, False]


def test_a_process_that_has_grown_large_gives_its_answer_and_goes(pool: Pool) -> None:
    first = ask(pool, b"pid")
    grown = ask(pool, b"grow")
    assert grown == b"grown"
    assert ask(pool, b"pid") != first


def test_a_processes_own_past_is_not_the_next_calls_lack_of_memory(pool: Pool) -> None:
    """What it holds from one call leaves too little for the next, which a new process has room for."""
    assert ask(pool, b"hold") == b"held"
    assert ask(pool, b"large") == b"done"


def test_a_process_whose_user_was_killed_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", str(root))
    program = str(root / "symd" / "system" / "process" / "worker.py")
    command = [sys.executable, "-P", program, "tests.system.process.functions:work", str(os.getpid()), ""]
    (ours, its), answers = socket.socketpair(), os.pipe()
    with subprocess.Popen(command, stdin=its.fileno(), stdout=answers[1], stderr=subprocess.PIPE) as process, ours:
        its.close()
        for end in answers:
            os.close(end)
        ours.sendall(b".")
        write_frame(ours.fileno(), JSON, json.dumps(LIMITS._asdict()).encode())
        write_frame(ours.fileno(), BYTES, b"pid")
        ours.shutdown(socket.SHUT_WR)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)
