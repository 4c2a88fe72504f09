"""`python -m tests.store.start [--modules N] [--bytes N]`: how long `symd serve` takes until it answers, on a store with so
many modules of so many bytes, each with an index and an alias."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from symd.index import VERSION
from symd.model.contexts import Alias
from symd.store import Store


def filled(root: Path, modules: int, size: int) -> None:
    """A store with that many admitted modules."""
    with Store(root, durable=False) as store:
        for number in range(modules):
            digest = store.put(b"%08d" % number + os.urandom(size), f"module {number}")
            store.put_index(digest, VERSION, bytes(1000))
            store.admit(digest, "zebin")
            store.aliases.add([Alias("build-id", f"{number}", digest)])


def seconds_to_start(root: Path) -> float:
    """From the start of the process to the line that says that it answers."""
    address = f"unix:{root.parent}/symd.sock"
    begun = time.monotonic()
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        taken = time.monotonic() - begun
        daemon.terminate()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.store.start")
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=50_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        filled(root, 0, 0)
        empty = seconds_to_start(root)
        filled(root, chosen.modules, chosen.bytes)
        full = [seconds_to_start(root) for _ in range(3)]
    print(f"empty {empty:.2f} s; {chosen.modules} modules {', '.join(f'{each:.2f}' for each in full)} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
