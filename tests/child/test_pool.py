"""Kept processes: called again and again, replaced when they die, and their death told truly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from symd.child.ending import Defect, Ending, Limit
from symd.child.frames import BYTES, JSON, write_frame
from symd.child.pool import Pool
from symd.child.process import ProcessLimits
from symd.config import Limits
from symd.errors import BuildFailed
from tests.child.test_run import gone

PROCESS_LIMITS = ProcessLimits(seconds=60.0, memory=1 << 30, answer=1 << 20)
LIMITS = Limits(batch=17)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    made = Pool("tests.child.functions:work", 2)
    yield made
    made.close()


def ask(pool: Pool, data: bytes, limits: ProcessLimits = PROCESS_LIMITS) -> bytes | Ending:
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
        (b"kill %d" % signal.SIGSEGV, Ending(-signal.SIGSEGV)),
        (b"kill %d" % signal.SIGKILL, Ending(-signal.SIGKILL)),
    ],
)
def test_a_death_is_told_and_the_next_call_has_a_new_process(pool: Pool, request_: bytes, ending: Ending) -> None:
    first = ask(pool, b"pid")
    assert ask(pool, request_) == ending
    assert ask(pool, b"pid") not in (first, ending)


def test_an_exception_of_nobodys_is_told_whole_and_costs_no_process(pool: Pool) -> None:
    first = ask(pool, b"pid")
    found = ask(pool, b"defect")
    assert isinstance(found, Defect)
    assert (found.exception, found.message) == ("RuntimeError", "a defect")
    assert "tests/child/functions.py" in found.traceback
    assert ask(pool, b"pid") == first


def test_memory_that_is_refused_is_named(pool: Pool) -> None:
    ended = ask(pool, b"memory")
    assert isinstance(ended, Ending)
    assert ended.limit is Limit.MEMORY
    assert ask(pool, b"again") == b"again"


def test_time_that_is_up_ends_the_process(pool: Pool, tmp_path: Path) -> None:
    first = ask(pool, b"pid")
    assert isinstance(first, bytes)
    mark = tmp_path / "reached"
    assert ask(pool, b"hang " + bytes(mark), ProcessLimits(1.0, 1 << 30, 1)) == Ending(-signal.SIGKILL, Limit.SECONDS)
    assert mark.exists()
    assert gone(int(first))


def test_an_answer_larger_than_allowed_is_not_taken(pool: Pool) -> None:
    ended = ask(pool, b"x" * 2000, ProcessLimits(60.0, 1 << 30, 1000))
    assert isinstance(ended, Ending)
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
    assert isinstance(ask(pool, b"kill 9"), Ending)
    second = ask(pool, b"pid")
    assert second not in (first, None)


def test_a_process_is_preferred_that_worked_on_the_same_before(pool: Pool) -> None:
    def pid(subject: str) -> bytes | Defect | Ending:
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
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    command = [sys.executable, "-P", str(root / "symd" / "child" / "worker.py"), "tests.child.functions:work"]
    requests, answers = os.pipe(), os.pipe()
    with subprocess.Popen(command, stdin=requests[0], stdout=answers[1], stderr=subprocess.PIPE) as process:
        for end in (requests[0], answers[1], answers[0]):
            os.close(end)
        fields = json.dumps(asdict(LIMITS) | {"cpu_seconds": None}).encode()
        write_frame(requests[1], JSON, fields)
        write_frame(requests[1], BYTES, b"pid")
        os.close(requests[1])
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)
