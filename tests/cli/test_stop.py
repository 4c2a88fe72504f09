"""``symd daemon stop`` ends the daemon at a socket and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from symd.client import Client
from tests.cli.conftest import Run


def daemon(folder: Path) -> tuple[subprocess.Popen, str]:
    address = f"unix:{folder}/s.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == f"symd serves at {address}\n"
    return process, address


def test_a_daemon_is_stopped_and_waited_for(run: Run, tmp_path: Path) -> None:
    process, address = daemon(tmp_path)
    try:
        outcome = run("daemon", "stop", "--server", address)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out == f"symd: stopped the daemon at {address} (process {process.pid})\n"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert run("daemon", "stop", "--server", address).code == 3


def test_one_that_does_not_end_in_time_is_said(run: Run, tmp_path: Path, monkeypatch) -> None:
    process, address = daemon(tmp_path)
    try:
        monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
        outcome = run("daemon", "stop", "--timeout", "0.01", "--server", address)
        assert outcome.code == 3
        assert f"the daemon (process {process.pid}) did not end within 0.01 seconds" in outcome.err
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_what_listens_and_is_no_daemon_is_left_alone(run: Run, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/other.sock")
        listener.listen()
        listener.settimeout(0)
        outcome = run("daemon", "stop", "--server", f"tls:127.0.0.1:{os.getpid() % 1000 + 1024}")
        assert outcome.code == 2
        assert "only a daemon at a Unix socket can be stopped from here" in outcome.err


def test_one_that_ends_by_itself_meanwhile_is_no_fault(run: Run, tmp_path: Path, monkeypatch) -> None:
    """Whoever else stops it may be faster: between the question who is there and the look at its process."""
    process, address = daemon(tmp_path)

    def ended(_: Client) -> None:
        process.terminate()
        process.wait(30)

    try:
        monkeypatch.setattr(Client, "server_info", ended)
        outcome = run("daemon", "stop", "--server", address)
        assert (outcome.code, outcome.out) == (3, "")
        assert outcome.err.startswith(f"symd: {address}: no daemon is running any more (nothing to stop; ")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


STOP = """
import sys
from symd.cli.command_line import invoke
from symd.client import Client
Client.server_info = lambda self: None
sys.exit(invoke(["daemon", "stop", "--server", sys.argv[1]]))
"""


def test_one_in_another_container_is_left_to_it(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address.removeprefix("unix:"))
        listener.listen()
        inside = ["unshare", "--pid", "--fork"]
        if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this user may make no PID namespace")
        command = [*inside, sys.executable, "-c", STOP, address]
        stop = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (stop.returncode, stop.stdout) == (3, "")
    assert stop.stderr == f"symd: {address}: the daemon runs in another container (PID namespace) (stop it there)\n"
