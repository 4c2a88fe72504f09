"""A program in the foreground: signals, stops, endings, as whoever started symd sees them. One in the background is
tested with ``symd daemon start``."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUN = """
import os, sys
from symd.system.process.programs import ForegroundProgram, end_like, signals_held
with signals_held() as mask:
    ending = ForegroundProgram(sys.argv[1:], os.environ, mask).wait()
sys.exit(end_like(ending))
"""
IN_FOREGROUND = [sys.executable, "-c", RUN]
PATIENCE = 60.0


def run(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*IN_FOREGROUND, *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE, **options
    )  # type: ignore[call-overload,no-any-return]


def start(script: str) -> subprocess.Popen[str]:
    """A shell script in the foreground of a process group of its own, after it said that it is ready."""
    process = subprocess.Popen(
        [*IN_FOREGROUND, "/bin/bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("status", [0, 1, 2, 41, 127, 255])
def test_the_exit_status_is_the_programs(status: int) -> None:
    assert run("/bin/sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1]
)
def test_a_signal_that_ends_the_program_ends_symd(number: signal.Signals) -> None:
    assert run("/bin/sh", "-c", f"kill -{number.value} $$").returncode == -number


def test_streams_are_the_programs() -> None:
    ended = run("/bin/sh", "-c", "cat; echo error >&2", input="text")
    assert (ended.stdout, ended.stderr) == ("text", "error\n")


def test_signals_have_the_actions_that_a_shell_gives() -> None:
    """What Python ignores, or what symd holds back, is not ignored or held back in the program."""
    ours = run("grep", "^Sig[BI]", "/proc/self/status")
    bare = subprocess.run(["grep", "^Sig[BI]", "/proc/self/status"], capture_output=True, text=True, check=True)
    assert ours.stdout == bare.stdout


def test_an_ignored_signal_stays_ignored() -> None:
    command = [
        "/bin/sh",
        "-c",
        'trap "" INT HUP; exec "$@"',
        "sh",
        *IN_FOREGROUND,
        "/bin/sh",
        "-c",
        "kill -INT $$; kill -HUP $$; exit 5",
    ]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE).returncode == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT, signal.SIGRTMIN])
def test_a_signal_for_symd_is_the_programs(number: signal.Signals) -> None:
    process = start(f"trap 'echo got; exit 6' {int(number)}; echo ready; while :; do sleep 0.02; done")
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("got\n", 6)


def test_symd_stops_and_goes_on_with_the_program() -> None:
    process = start("echo ready; kill -STOP $$; echo on; exit 4")
    wait_for(lambda: state(process.pid) == "T")
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("on\n", 4)


def test_the_terminals_signals_reach_the_program_once() -> None:
    """Ctrl-C at a terminal: the kernel sends it to the whole foreground group."""
    try:
        leader, follower = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo-terminals: {error}")
    script = "trap 'echo got' INT; echo ready; read line; echo $line; read line; exit 9"
    process = subprocess.Popen(
        [*IN_FOREGROUND, "/bin/bash", "-c", script],
        cwd=ROOT, stdin=follower, stdout=follower, stderr=follower,
        preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0)),  # noqa: PLW1509 - the tests of this room start no threads
    )  # fmt: skip
    os.close(follower)
    text = b""

    def said(word: bytes) -> bool:
        nonlocal text
        if select.select([leader], [], [], 0.05)[0]:
            text += os.read(leader, 1000)
        return word in text

    wait_for(lambda: said(b"ready"))
    os.write(leader, b"\x03")
    wait_for(lambda: said(b"got"))
    os.write(leader, b"line\n")
    wait_for(lambda: text.count(b"line") >= 2 or said(b"line\r\nline"))
    os.write(leader, b"end\n")
    assert process.wait(PATIENCE) == 9
    os.close(leader)
    assert text.count(b"got") == 1


def test_a_script_that_does_not_say_what_runs_it(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 3\n")
    script.chmod(0o755)
    assert run(str(script)).returncode == 3


def test_a_program_that_is_not_there_is_an_error_of_the_system() -> None:
    assert "FileNotFoundError" in run("/nowhere/at/all").stderr
    assert "PermissionError" in run("/etc/passwd").stderr
