"""``symd run`` beside a daemon: programs' modules and addresses are there, also where the daemon is slow, absent, or dies half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.model.answers import Reason
from tests.live.capturing import SUMMARY, Host, built
from tests.live.conftest import NEWER_ROOT, demand
from tests.live.test_capture_opencl import HOSTS

PATIENCE = 120.0


@dataclass
class Daemon:
    """A daemon that may be started again over the same store."""

    folder: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"unix:{self.folder}/symd.sock"

    def start(self) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "symd",
            "serve",
            "--address",
            self.address,
            "--store",
            str(self.folder / "store"),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == f"symd serves at {self.address}\n"
        self.running.append(process)
        return process

    def modules(self) -> int:
        with Client(self.address, timeout=PATIENCE) as client:
            return len(list(client.modules()))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        made = Daemon(Path(folder))
        yield made
        for process in made.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


@dataclass
class Run:
    """``symd run --server`` on a program that builds as many modules as it is told."""

    host: Host
    program: Path
    daemon: Daemon

    @property
    def captures(self) -> Path:
        return self.host.folder / "captures"

    def start(self, modules: int, mode: str = "plain") -> subprocess.Popen[str]:
        symd = [sys.executable, "-m", "symd", "run", "--server", self.daemon.address, "--"]
        command = [*symd, *self.host.command(self.program, mode, str(modules))]
        variables = self.host.variables | {"SYMD_CAPTURES": str(self.captures)}
        return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, modules: int, mode: str = "plain") -> str:
        """What symd said at the end."""
        process = self.start(modules, mode)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 7
        assert output.count("built 0 ") == modules
        assert SUMMARY.sub("", errors) == ""
        return errors

    def waiting(self) -> list[Path]:
        return list(self.captures.iterdir()) if self.captures.exists() else []


@pytest.fixture(params=HOSTS)
def run(
    request: pytest.FixtureRequest, daemon: Daemon, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(request.param, "opencl")
    host = Host(request.param, "opencl", tmp_path)
    return Run(host, built(tmp_path_factory.mktemp("programs"), "opencl_host.c"), daemon)


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_finished_programs_addresses_resolve(run: Run, daemon: Daemon) -> None:
    daemon.start()
    said = run(2)
    assert said == f"symd: 2 modules of 2 builds, through the OpenCL layer; sent to {daemon.address}\n"
    assert run.waiting() == []
    with Client(daemon.address, timeout=PATIENCE) as client:
        [context] = client.contexts.all()
        loads = [load for _, load in client.contexts.loads(context.id)]
        assert len(loads) == 2
        asked = np.arange(loads[0].segments[0].address, loads[0].segments[0].address + 0x400, 8, dtype=np.uint64)
        answers = client.contexts.symbolize(context.id, asked, np.full(asked.size, loads[0].time, np.int64))
        exact = [each.answer for each in answers if each.answer.reason is Reason.EXACT]
        assert {answer.kernel for answer in exact} == {"scale_0"}
        assert {frame.function for answer in exact for frame in answer.frames} == {"scale_0", "helper"}


def test_without_a_daemon_everything_waits_and_is_sent_once(run: Run, daemon: Daemon) -> None:
    assert "the next symd run sends the rest" in run(2)
    assert len(run.waiting()) == 1
    daemon.start()
    assert "sent to" in run(1)
    assert run.waiting() == []
    with Client(daemon.address, timeout=PATIENCE) as client:
        counts = sorted(len(list(client.contexts.loads(context.id))) for context in client.contexts.all())
    assert counts == [1, 2]


def test_a_daemon_that_dies_half_way(run: Run, daemon: Daemon) -> None:
    first = daemon.start()
    process = run.start(6)
    until(lambda: daemon.modules() >= 1)
    first.kill()
    first.communicate()
    daemon.running.remove(first)
    (daemon.folder / "symd.sock").unlink(missing_ok=True)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 7
    assert output.count("built 0 ") == 6
    assert errors.startswith("symd: 6 modules of 6 builds")
    daemon.start()
    run(1)
    assert run.waiting() == []
    with Client(daemon.address, timeout=PATIENCE) as client:
        assert sorted(len(list(client.contexts.loads(each.id))) for each in client.contexts.all()) == [1, 6]


def test_a_daemon_that_does_not_answer_holds_the_program_up_for_a_bounded_time(run: Run, daemon: Daemon) -> None:
    stopped = daemon.start()
    stopped.send_signal(signal.SIGSTOP)
    assert "not everything reached the daemon" in run(2)
    stopped.send_signal(signal.SIGCONT)
    run(1)
    assert run.waiting() == []
    assert daemon.modules() == 2  # the first module is the same in both runs


def test_two_runs_at_once_do_not_mix(run: Run, daemon: Daemon) -> None:
    daemon.start()
    processes = [run.start(2), run.start(3)]
    for process in processes:
        process.communicate(timeout=PATIENCE)
    with Client(daemon.address, timeout=PATIENCE) as client:
        assert sorted(len(list(client.contexts.loads(each.id))) for each in client.contexts.all()) == [2, 3]


def test_symd_itself_may_be_killed(run: Run, daemon: Daemon) -> None:
    """The program goes on; what it built then lies in files, and the next run takes them in."""
    daemon.start()
    process = run.start(8)
    until(lambda: daemon.modules() >= 1)
    before = set(Path("/tmp").glob("symd-run-*"))
    process.kill()
    process.wait()
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    until(
        lambda: not any(b"opencl_host" in _command(each) for each in Path("/proc").glob("[0-9]*") if _parent(each) == 1)
    )
    for folder in before:
        os.utime(folder, (0, 0)) if folder.exists() else None
    run(1)
    assert run.waiting() == []
    with Client(daemon.address, timeout=PATIENCE) as client:
        assert sorted(len(list(client.contexts.loads(each.id))) for each in client.contexts.all()) == [1, 8]


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
