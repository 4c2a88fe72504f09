"""One program from start to end: its answer, its limits, and the truth about its death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from symd.child.ending import Ending, Limit, signal_name
from symd.child.process import ProcessLimits
from symd.child.run import Ended, run
from tests.open_files import open_files

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
    assert ended.ending == Ending(3)
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
    assert ended.ending == Ending(-signal.Signals[name])
    assert str(ended.ending) == f"died of {name}"


def test_a_signal_without_a_name_has_its_number() -> None:
    assert signal_name(40) == "signal 40"


def test_time_that_is_up_ends_the_child_and_all_that_it_started(python, tmp_path: Path) -> None:
    program = f"import os\nif pid := os.fork(): open('pid', 'w').write(str(pid)); os.write(1, b'so far')\n{FOREVER}"
    ended = python(program, ProcessLimits(2.0, PROCESS_LIMITS.memory, MIB))
    assert ended.ending == Ending(-signal.SIGKILL, Limit.SECONDS)
    assert ended.ending.signal == "", "that it died of our signal is no news"
    assert ended.answer == b"so far"
    assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_child_leaves_running_is_ended_with_it(python, tmp_path: Path) -> None:
    ended = python(f"import os\nif pid := os.fork(): open('pid', 'w').write(str(pid)); os._exit(0)\n{FOREVER}")
    assert ended.ending == Ending(0)
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
    program = (
        "from resource import *\nwhile getrlimit(RLIMIT_AS)[0] == RLIM_INFINITY: pass\n"  # it runs before it is limited
    )
    program += "try: bytes(300 << 20)\nexcept MemoryError: print('refused')\nelse: print('had')"
    assert python(program, ProcessLimits(60.0, 200 * MIB, MIB)).answer == b"refused\n"
    assert python(program).answer == b"had\n"


def test_processor_time_beyond_the_limit_is_named(python) -> None:
    ended = python("while True: pass", ProcessLimits(60.0, PROCESS_LIMITS.memory, MIB, cpu_seconds=1))
    assert ended.ending == Ending(-signal.SIGXCPU, Limit.CPU_SECONDS)
    assert str(ended.ending) == "was ended: it passed its limit of cpu_seconds"


def test_a_file_beyond_the_limit_is_named(python) -> None:
    program = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('f', 'wb').write(bytes(2 << 20))"
    ended = python(program, ProcessLimits(60.0, PROCESS_LIMITS.memory, MIB, file_size=MIB))
    assert ended.ending == Ending(-signal.SIGXFSZ, Limit.FILE_SIZE)


def test_a_limit_that_this_process_already_has_is_not_raised(python) -> None:
    """The limits are set a moment after its start, that of core dumps as the last one."""
    program = (
        "import resource\n"
        "while resource.getrlimit(resource.RLIMIT_CORE)[1]: pass\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_AS))"
    )
    assert python(program).answer == b"(0, 0) (1073741824, 1073741824)\n"


def test_a_program_that_is_not_there_is_an_os_error_and_leaves_no_pipe_open(tmp_path: Path) -> None:
    before = open_files()
    with pytest.raises(FileNotFoundError):
        run(["/nowhere/program"], PROCESS_LIMITS, folder=tmp_path, environment={})
    assert open_files() <= before


def test_a_process_lets_itself_open_as_many_files_as_it_may() -> None:
    """In a process of its own: limits cannot be raised again."""
    program = (
        "import resource\n"
        "from symd.child.process import allow_open_files\n"
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

    with pytest.raises(NobodyWaits):
        python(f"import os; open('pid', 'w').write(str(os.getpid()))\n{FOREVER}", check_wanted=check)
    assert (tmp_path / "pid").exists() is bool(asked)
    assert not asked or gone(int((tmp_path / "pid").read_text()))
