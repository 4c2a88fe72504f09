"""``symd serve`` in a terminal: lines about changes go to a file that it names, and the terminal stays for answers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from symd import Client
from tests.cli.conftest import ROOT

SAMPLE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.mark.parametrize("verbose", [[], ["-v"]], ids=["quiet", "verbose"])
def test_changes_are_logged_in_a_file_where_somebody_types(verbose: list[str], tmp_path: Path) -> None:
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo-terminals: {error}")
    address = f"unix:{tmp_path}/s.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{tmp_path}/store", *verbose]
    environment = {**os.environ, "XDG_STATE_HOME": f"{tmp_path}/state"}
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment)
    os.close(theirs)
    try:
        assert daemon.stdout.readline() == f"symd serves at {address}\n"
        with Client(address) as client:
            client.add(SAMPLE.read_bytes(), "kernels.co")
        daemon.terminate()
        assert daemon.wait(30) == 0
        shown = os.read(ours, 1 << 16).decode()
    finally:
        daemon.kill()
        daemon.wait()
        daemon.stdout.close()
        os.close(ours)
    file = tmp_path / "state" / "symd" / "audit.log"
    assert file.exists() == (f"symd: changes are logged in {file}" in shown) == (not verbose)
    assert f"foreground until Ctrl-C here, or symd stop --server {address} in another terminal; " in shown
    assert f"; symd symbolize --server {address} FILE ADDRESS asks it" in " ".join(shown.split())
    assert ("symd.audit time=" in shown) == bool(verbose)
    if not verbose:
        (line,) = file.read_text().splitlines()
        assert line.startswith("symd.audit time=")
        assert "what=UploadModule" in line
        assert file.stat().st_mode & 0o777 == 0o600
