"""A real daemon, started as a user starts it: its own process, its own socket and store, a real engine and drivers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from symd import Client

LONG = 30.0


@dataclass
class Daemon:
    address: str
    store: Path
    process: subprocess.Popen[str]

    def client(self) -> Client:
        return Client(self.address, timeout=120)

    def stored(self) -> dict[str, int]:
        """Every file of modules and indexes with its size."""
        folders = (self.store / name for name in ("modules", "index", "incoming", "damaged"))
        return {str(path): path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()}

    def settled(self) -> dict[str, int]:
        """The same, once what was added is filed: its answer does not wait until the index has lost its temporary name."""
        end = time.monotonic() + LONG
        while any((self.store / "incoming").iterdir()) and time.monotonic() < end:
            time.sleep(0.01)
        assert not any((self.store / "incoming").iterdir())
        return self.stored()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    address = f"unix:{folder}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"symd serves at {address}\n"
        yield Daemon(address, folder / "store", process)
        process.terminate()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in errors
