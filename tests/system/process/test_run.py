"""One program from start to end: its answer, its limits, and the truth about its death."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from symd.model.cancellation import cancelled_by
from symd.system.process import launcher, process
from symd.system.process.process import _LAUNCHER, ProcessLimits, signal_name
from symd.system.process.run import Ended, ExitStatus, Limit, run
from tests.daemon.processes import children
from tests.open_files import open_files
from tests.system.process import early_limits
from tests.tools import require

MIB = 1 << 20
PROCESS_LIMITS = ProcessLimits(seconds=60.0, memory=1024 * MIB, answer=MIB)
FOREVER = "import signal\nwhile True: signal.pause()"


@pytest.fixture
def python(tmp_path: Path):
    """Run a few lines of Python as the child."""

    def start(program: str, limits: ProcessLimits = PROCESS_LIMITS, **options) -> Ended:
        command = [sys.executable, "-I", "-S", "-c", program]
        return run(command, limits, folder=tmp_path, environment={"A": "b"}, **options)

    return start


def gone(pid: int) -> bool:
    """Whether a process has ended; a killed one may need a moment, and one that nobody has waited for yet counts."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


def test_standard_output_is_the_answer_and_the_rest_is_what_it_printed(python) -> None:
    ended = python("import os; os.write(1, b'answer'); os.write(2, b'first\\nlast words\\n'); os._exit(3)")
    assert (ended.answer, ended.printed) == (b"answer", "first\nlast words\n")
    assert ended.last_words == "last words"
    assert ended.ending == ExitStatus(3)
    assert str(ended.ending) == "ended with exit status 3"


def test_an_answer_on_a_pipe_of_its_own_is_apart_from_all_that_is_printed(python) -> None:
    ended = python("import os, sys; print('noise'); os.write(int(sys.argv[-1]), b'answer')", own_pipe=True)
    assert (ended.answer, ended.printed, ended.ending.status) == (b"answer", "noise\n", 0)


def test_input_folder_and_environment_are_as_given_and_nothing_is_inherited(python, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    program = "import os, sys; sys.stdout.write(f'{sys.stdin.read()} {os.getcwd()} {dict(os.environ)} {os.listdir(\"/proc/self/fd\")}')"
    try:
        answer = python(program, stdin=b"x" * (1 << 17)).answer.decode()
    finally:
        os.close(reading)
        os.close(writing)
    given, folder, rest = answer.split(" ", 2)
    assert given == "x" * (1 << 17)
    assert folder == str(tmp_path)
    environment, _, descriptors = rest.partition("} ")
    assert "'A': 'b'" in environment
    assert "HOME" not in environment
    assert descriptors == "['0', '1', '2', '3']", "the last is that of listdir itself"


@pytest.mark.parametrize("name", ["SIGABRT", "SIGSEGV", "SIGKILL"])
def test_a_signal_has_its_name(python, name: str) -> None:
    ended = python(f"import os, signal; os.kill(os.getpid(), signal.{name})")
    assert ended.ending == ExitStatus(-signal.Signals[name])
    assert str(ended.ending) == f"died of {name}"


def test_a_signal_without_a_name_has_its_number() -> None:
    assert signal_name(40) == "signal 40"


def test_time_that_is_up_ends_the_child_and_all_that_it_started(python, tmp_path: Path, time_is_up_with) -> None:
    hangs = "open('pid', 'w').write(str(pid)); os.write(1, b'so far'); open('hangs', 'w')"
    time_is_up_with(tmp_path / "hangs")
    ended = python(
        f"import os\nif pid := os.fork(): {hangs}\n{FOREVER}", ProcessLimits(0.1, PROCESS_LIMITS.memory, MIB)
    )
    assert ended.ending == ExitStatus(-signal.SIGKILL, Limit.SECONDS)
    assert ended.ending.signal == "", "that it died of our signal is no news"
    assert ended.answer == b"so far"
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_child_leaves_running_is_ended_with_it(python, tmp_path: Path) -> None:
    ended = python(f"import os\nif pid := os.fork(): open('pid', 'w').write(str(pid)); os._exit(0)\n{FOREVER}")
    assert ended.ending == ExitStatus(0)
    assert gone(int((tmp_path / "pid").read_text()))


def test_an_answer_without_end_is_cut(python) -> None:
    ended = python("import os\nwhile True: os.write(1, bytes(65536))")
    assert ended.ending.limit is Limit.ANSWER
    assert MIB < len(ended.answer) < 2 * MIB


@pytest.mark.parametrize(("more", "limit"), [(0, None), (1, Limit.ANSWER)])
def test_the_answer_may_be_as_long_as_was_allowed_and_no_longer(python, more: int, limit: Limit | None) -> None:
    ended = python(f"import sys; sys.stdout.write('a' * {MIB + more})")
    assert ended.ending.limit is limit


def test_of_endless_printing_the_end_is_kept_and_the_answer_arrives(python) -> None:
    ended = python(
        "import os\nfor _ in range(64): os.write(2, b'n' * 65536)\nos.write(2, b'end'); os.write(1, b'answer')"
    )
    assert (len(ended.printed), ended.printed[-3:], ended.answer) == (MIB, "end", b"answer")


def test_memory_beyond_the_limit_is_refused(python) -> None:
    program = "try: bytes(300 << 20)\nexcept MemoryError: print('refused')\nelse: print('had')"
    assert python(program, ProcessLimits(60.0, 200 * MIB, MIB)).answer == b"refused\n"
    assert python(program).answer == b"had\n"


def test_processor_time_beyond_the_limit_is_named(python) -> None:
    ended = python("while True: pass", ProcessLimits(60.0, PROCESS_LIMITS.memory, MIB, cpu_seconds=1))
    assert ended.ending == ExitStatus(-signal.SIGXCPU, Limit.CPU_SECONDS)
    assert str(ended.ending) == "was ended: it passed its limit of cpu_seconds"


def test_a_file_beyond_the_limit_is_named(python) -> None:
    program = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('f', 'wb').write(bytes(2 << 20))"
    ended = python(program, ProcessLimits(60.0, PROCESS_LIMITS.memory, MIB, file_size=MIB))
    assert ended.ending == ExitStatus(-signal.SIGXFSZ, Limit.FILE_SIZE)


ALL_LIMITS = ProcessLimits(60.0, 1 << 30, MIB, cpu_seconds=50, file_size=MIB, open_files=20)
ITS_LIMITS = """
import json, os
from resource import *
limits = [getrlimit(each) for each in (RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE)]
with open("partial", "w") as file: json.dump(limits, file)
os.rename("partial", "limits")
"""


def test_limits_are_held_before_the_program_runs(python, tmp_path: Path, late: None) -> None:
    python(ITS_LIMITS, ALL_LIMITS)
    held = [[1 << 30, 1 << 30], [0, 0], [50, 51], [MIB, MIB], [20, 20]]
    assert json.loads((tmp_path / "limits").read_text()) == held


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who would set limits of another process does so when that has told which it has, as where the machine is busy."""
    prlimit = resource.prlimit

    def set_late(*arguments):
        while not (tmp_path / "limits").exists():
            time.sleep(0.01)
        return prlimit(*arguments)

    monkeypatch.setattr(resource, "prlimit", set_late)


def test_nothing_that_a_child_does_at_once_comes_before_its_limits(tmp_path: Path) -> None:
    """More than a few starts: `python -m tests.system.process.early_limits`."""
    command = early_limits.built(tmp_path, require("cc", "gcc"))
    assert [early_limits.passed(command) for _ in range(20)] == [[]] * 20


LOWERED = """
import resource, sys
from pathlib import Path
from tests.system.process.test_run import ALL_LIMITS, ITS_LIMITS
from symd.system.process.run import run
resource.setrlimit(resource.RLIMIT_CPU, (7, 9))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 8192))
run([sys.executable, "-I", "-S", "-c", ITS_LIMITS], ALL_LIMITS, folder=Path(sys.argv[1]), environment={})
"""


def test_a_limit_that_this_process_already_has_is_not_raised(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LOWERED, str(tmp_path)], check=True)
    assert json.loads((tmp_path / "limits").read_text())[2:4] == [[9, 9], [8192, 8192]]


def test_limits_that_cannot_be_set_are_an_error(python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.system.process.process.resource_limits", lambda _: [(resource.RLIMIT_CPU, 10, 5)])
    with pytest.raises(OSError, match="limit") as caught:
        python("open('begun', 'w')")
    assert caught.value.filename == sys.executable
    assert not (tmp_path / "begun").exists()


def test_the_environment_is_as_given_to_the_byte(tmp_path: Path) -> None:
    """Python adds a variable to its own where the locale is C."""
    environment = {"A": "b=c\nd", "EMPTY": "", "ODD\udcff": "\udcfe", "LONG": "x" * 100_000}
    answer = run([require("env"), "-0"], PROCESS_LIMITS, folder=tmp_path, environment=environment).answer
    assert sorted(answer.split(b"\0")) == [
        b"",
        b"A=b=c\nd",
        b"EMPTY=",
        b"LONG=" + b"x" * 100_000,
        b"ODD\xff=\xfe",
    ]
    with pytest.raises(ValueError, match="null byte"):
        run([require("env")], PROCESS_LIMITS, folder=tmp_path, environment={"A": "b\0C=d"})


def test_no_signal_is_ignored_that_python_ignores(tmp_path: Path) -> None:
    command = [require("grep"), "SigIgn", "/proc/self/status"]
    status = run(command, PROCESS_LIMITS, folder=tmp_path, environment={}).answer.decode()
    assert not int(status.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_a_program_is_looked_for_in_its_own_path(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "second" / "program"
    program.write_text("#!/bin/sh\necho found")
    program.chmod(0o700)
    path = {"PATH": f"{tmp_path / 'first'}:{tmp_path / 'second'}"}
    assert run(["program"], PROCESS_LIMITS, folder=tmp_path, environment=path).answer == b"found\n"
    with pytest.raises(FileNotFoundError):
        run(["program"], PROCESS_LIMITS, folder=tmp_path, environment={"PATH": str(tmp_path / "first")})


def test_what_cannot_be_run_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    text = tmp_path / "text"
    for mode, number in ((0o600, errno.EACCES), (0o700, errno.ENOEXEC)):
        text.write_text("no program")
        text.chmod(mode)
        before = children(os.getpid())
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            run([str(text)], PROCESS_LIMITS, folder=tmp_path, environment={})
        assert (caught.value.errno, caught.value.filename) == (number, str(text))
        until = time.monotonic() + 10
        while not children(os.getpid()) <= before and time.monotonic() < until:
            time.sleep(0.01)  # another thread of these tests may have a process of its own just now
        assert children(os.getpid()) <= before


@pytest.mark.parametrize(
    ("does", "ending"), [("os.kill(os.getpid(), 9)", "died of SIGKILL"), ("os._exit(7)", "ended with exit status 7")]
)
def test_a_launcher_that_dies_is_an_os_error_that_says_how(
    python, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, ending: str
) -> None:
    broken = tmp_path / "launcher.py"
    broken.write_text(f"import os; {does}")
    monkeypatch.setattr("symd.system.process.process._LAUNCHER", broken)
    with pytest.raises(OSError, match=ending):
        python("pass")


def test_a_program_is_not_begun_for_one_who_was_killed_meanwhile(tmp_path: Path) -> None:
    """Before all of the environment came: nobody would watch it."""
    ours, its = socket.socketpair()
    command = [sys.executable, "-I", "-S", _LAUNCHER, str(its.fileno()), "10", "", "/usr/bin/touch", tmp_path / "begun"]
    with subprocess.Popen(command, pass_fds=(its.fileno(),)) as process:
        its.close()
        ours.sendall(b"A=b\0")
        ours.close()
        assert process.wait() == 127
    assert not (tmp_path / "begun").exists()


def test_a_program_that_is_not_there_is_an_os_error_and_leaves_no_pipe_open(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(FileNotFoundError) as caught:
        run(["/nowhere/program"], PROCESS_LIMITS, folder=tmp_path, environment={})
    assert caught.value.filename == "/nowhere/program"
    assert open_files() <= before


def test_a_process_lets_itself_open_as_many_files_as_it_may() -> None:
    """In a process of its own: limits cannot be raised again."""
    program = (
        "import resource\n"
        "from symd.system.process.process import allow_open_files\n"
        "for hard, wanted in ((900, 500), (800, 1 << 16), (700, 600)):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))\n"
        "    allow_open_files(wanted)\n"
        "    print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "allow_open_files(50)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(500, 900)", "(800, 800)", "(600, 700)", "(600, 700)"]


class NobodyWaits(Exception):
    pass


@pytest.mark.parametrize("asked", [0, 1], ids=["before it is started", "while it runs"])
def test_a_child_whose_answer_nobody_wants_is_ended(python, tmp_path: Path, asked: int) -> None:
    left = [None] * asked

    def check() -> None:
        if not left:
            raise NobodyWaits
        left.pop()

    with pytest.raises(NobodyWaits), cancelled_by(check):
        python(f"import os; open('pid', 'w').write(str(os.getpid()))\n{FOREVER}")
    assert (tmp_path / "pid").exists() is bool(asked)
    assert not asked or gone(int((tmp_path / "pid").read_text()))


def test_what_a_launcher_said_counts_where_its_program_has_ended_before_it_is_asked() -> None:
    ours, its = socket.socketpair()
    with ours:
        with its:
            its.sendall(launcher.BEGUN)
        assert process._answer(ours, b"") == launcher.BEGUN
