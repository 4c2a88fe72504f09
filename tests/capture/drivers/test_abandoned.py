"""A real daemon and a driver that hangs: nothing of the driver outlives the call, nor a daemon that is killed."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symd import Client
from symd.errors import SymdError
from symd.model.grabs import GrabRequest
from tests.capture.drivers.conftest import SPIRV
from tests.daemon.conftest import Daemon
from tests.daemon.processes import children, serving
from tests.system.process.test_run import gone

REQUEST = GrabRequest("level-zero", "spirv", SPIRV, driver="made", timeout=100.0)


@pytest.fixture
def hanging(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a driver that never comes back; the daemon's temporary files lie in a folder of the test's own."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    library = folder / "usr/lib/x86_64-linux-gnu/libze_loader.so.1"
    command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input="int zeInit() { for (;;) pause(); }", text=True, check=True)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return folder


def eventually(found: Callable[[], set[int]]) -> set[int]:
    """What ``found`` says once it says something."""
    until = time.monotonic() + 30
    while not (now := found()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return now


def drivers(daemon: Daemon) -> set[int]:
    def started(pid: int) -> bool:
        try:
            return b"symd.capture.drivers.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except FileNotFoundError:
            return False

    return {pid for pid in children(daemon.process.pid) if started(pid)}


def test_a_driver_ends_when_its_client_leaves(hanging: Path, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--driver", f"made={hanging}") as daemon,
        ThreadPoolExecutor(1) as threads,
        daemon.client() as staying,
    ):
        leaving = Client(daemon.address, timeout=120)
        grabbing = threads.submit(leaving.grab, REQUEST)
        (driver,) = eventually(lambda: drivers(daemon))
        leaving.close()
        with pytest.raises((SymdError, ValueError)):  # ValueError: the channel is closed
            grabbing.result(timeout=30)
        assert gone(driver)
        until = time.monotonic() + 30
        while list((tmp_path / "tmp").glob("symd-driver-*")) and time.monotonic() < until:
            time.sleep(0.02)
        assert not list((tmp_path / "tmp").glob("symd-driver-*"))
        assert list(staying.modules()) == []


def test_a_killed_daemon_leaves_neither_driver_nor_for_long_its_folder(hanging: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--driver", f"made={hanging}") as daemon, ThreadPoolExecutor(1) as threads:
        with daemon.client() as client:
            grabbing = threads.submit(client.grab, REQUEST)
            (driver,) = eventually(lambda: drivers(daemon))
            daemon.process.kill()
            with pytest.raises(SymdError):
                grabbing.result(timeout=30)
        assert gone(driver)
    (left,) = (tmp_path / "tmp").glob("symd-driver-*")
    with serving(tmp_path):
        until = time.monotonic() + 30
        while left.exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert not left.exists()
