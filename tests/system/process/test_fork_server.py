"""Programs that are started confined by a process that is kept for that."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.errors import DeadlineExceeded, LimitExceeded, ToolFailed
from symd.system.process import confinement
from symd.system.process.fork_server import _SCRIPT, ForkServer
from symd.system.process.process import ProcessLimits
from symd.system.process.run import Ended, run_tool
from tests.daemon.processes import children

LIMITS = ProcessLimits(seconds=60, memory=1 << 30, answer=1 << 20, cpu_seconds=30, file_size=1 << 20, written=1 << 20)
pytestmark = pytest.mark.skipif(not confinement.available(), reason="this kernel has no Landlock")


@pytest.fixture
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as fork_server:
        yield fork_server


def asked(fork_server: ForkServer, script: str, limits: ProcessLimits = LIMITS, data: bytes = b"") -> Ended:
    return run_tool([os.path.realpath(sys.executable), "-I", "-c", script], limits, fork_server=fork_server, stdin=data)


def test_a_program_answers_in_its_folder_with_what_it_is_given(fork_server: ForkServer) -> None:
    script = "import os, sys; print(sys.stdin.read(), os.getcwd() == os.environ['HOME'], os.getsid(0) == os.getpid()); sys.exit(3)"
    ended = asked(fork_server, script, data=b"input")
    assert (ended.ending.status, ended.answer, ended.printed) == (3, b"input True True\n", "")
    assert "seen" in asked(fork_server, "import sys; sys.exit('seen')").printed


def test_it_has_no_descriptor_but_its_own_three(fork_server: ForkServer, tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w") as kept:
        os.set_inheritable(kept.fileno(), True)
        ended = asked(fork_server, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    assert ended.answer == b"[0, 1, 2]\n"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_the_signal_that_it_died_of_is_told(fork_server: ForkServer, number: signal.Signals) -> None:
    ended = asked(fork_server, f"import os; os.kill(os.getpid(), {int(number)})")
    assert ended.ending.signal == number.name


def test_its_limits_are_in_force_from_its_first_instruction(fork_server: ForkServer) -> None:
    script = "import json, resource as r; print(json.dumps([r.getrlimit(each) for each in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_CORE)]))"
    assert json.loads(asked(fork_server, script).answer) == [[1 << 30] * 2, [30, 31], [1 << 20] * 2, [0, 0]]
    assert "MemoryError" in asked(fork_server, "bytes(2 << 30)").printed
    with pytest.raises(DeadlineExceeded):
        asked(fork_server, "while True: pass", ProcessLimits(0.5, 1 << 30, 100))
    with pytest.raises(LimitExceeded):
        asked(fork_server, "while True: print('y' * 99)", ProcessLimits(60, 1 << 30, 100))


def _ignored(status: str) -> set[int]:
    """Of the signals below 32 those that a ``/proc/PID/status`` calls ignored."""
    bits = int(status.partition("SigIgn:")[2].split()[0], 16)
    return {number for number in range(1, 32) if bits >> (number - 1) & 1}


def test_no_signal_is_ignored(fork_server: ForkServer) -> None:
    """That Python ignores, as with ``subprocess``; what whoever started the tests had ignored (nohup, a shell's ``&``) stays so. Signals from 32 on are
    the C library's, which posix_spawn(3) of whoever started this may have left ignored."""
    tool = shutil.which("grep")
    assert tool is not None
    ended = run_tool([os.path.realpath(tool), "SigIgn", "/proc/self/status"], LIMITS, fork_server=fork_server)
    inherited = _ignored(Path("/proc/self/status").read_text())
    assert _ignored(ended.answer.decode()) <= inherited - {signal.SIGPIPE, signal.SIGXFSZ}


def test_many_files_end_it(fork_server: ForkServer) -> None:
    limits = ProcessLimits(60, 1 << 30, 100, files=5)
    with pytest.raises(LimitExceeded, match="5 files"):
        asked(fork_server, "import time; [open(str(n), 'w') for n in range(9)]; time.sleep(60)", limits)


def test_what_is_no_program_cannot_be_started(fork_server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    fork_server.begin()
    before = children(os.getpid())
    for path in (tmp_path / "nothing", tmp_path / "text", tmp_path):
        with pytest.raises(ToolFailed, match="cannot be started"):
            run_tool([str(path)], LIMITS, fork_server=fork_server)
    assert children(os.getpid()) <= before  # a dead one that nobody waits for would be there
    assert asked(fork_server, "print(1)").answer == b"1\n"


def test_limits_that_cannot_be_set_are_told_as_what_cannot_be_started(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """setrlimit raises ValueError for them."""
    monkeypatch.setattr("symd.system.process.fork_server.resource_limits", lambda _: [(resource.RLIMIT_CPU, 10, 5)])
    with pytest.raises(ToolFailed, match=r"cannot be started: .*limit"):
        asked(fork_server, "print(1)")


def test_several_threads_are_served(fork_server: ForkServer) -> None:
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        answers[number] = asked(fork_server, f"print({number})").answer

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"{number}\n".encode() for number in range(12)}


def test_it_comes_back_after_a_kill_and_goes_with_close() -> None:
    before = children(os.getpid())
    with ForkServer() as fork_server:
        fork_server.begin()
        (process,) = children(os.getpid()) - before
        os.kill(process, signal.SIGKILL)
        assert asked(fork_server, "print(1)").answer == b"1\n"
        assert len(children(os.getpid()) - before) == 1
    assert children(os.getpid()) <= before


KILLED_BEFORE_ITS_ANSWER = """
import json, os, runpy, signal, sys
own, written = os.getpid(), json.dumps
def dumps(value):
    if os.getpid() == own:
        os.kill(own, signal.SIGKILL)
    return written(value)
json.dumps = dumps
sys.argv[1:] = [{package!r}]
runpy.run_path({script!r}, run_name="__main__")
"""


def test_a_program_is_not_run_twice_where_the_process_is_killed_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "fork_server_process.py"
    script.write_text(KILLED_BEFORE_ITS_ANSWER.format(script=str(_SCRIPT), package=str(_SCRIPT.parents[2])))
    monkeypatch.setattr("symd.system.process.fork_server._SCRIPT", script)
    before = children(os.getpid())
    with ForkServer() as fork_server:
        ended = asked(fork_server, "print(input())", data=b"once")
        assert (ended.ending.status, ended.answer) == (0, b"once\n")
        assert run_tool([str(script)], LIMITS, fork_server=fork_server).ending.status == 127  # no program
    assert children(os.getpid()) <= before


def test_it_ends_with_the_process_that_has_it() -> None:
    """Killed, that can tell it nothing."""
    script = (
        "import os, time; from symd.system.process.fork_server import ForkServer; fork_server = ForkServer(); fork_server.begin(); "
        "print(fork_server._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        descriptor = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        assert select.select([descriptor], [], [], 30)[0]
        os.close(descriptor)
