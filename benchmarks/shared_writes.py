"""Changes and new modules a second that one shared store takes, from several processes at a time: its writers take turns at the catalogue. PostgreSQL runs on
this machine, reached by a Unix socket; the objects lie in a folder. No module is indexed.

``python -m benchmarks.shared_writes [--seconds 4] [--rounds 3] [--fsync]`` measures one, two and four processes in turns; ``--fsync``: PostgreSQL waits for its
disk."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from symd.config import Limits
from symd.model.contexts import Context, Load
from symd.store.shared.inspection import SharedUrls
from symd.store.shared.store import SharedStore
from tests.store.shared.postgresql_server import running

PROCESSES = (1, 2, 4)
MODULE_BYTES = 11_000
"""As many as the median of the samples of this repository has."""
Write = Callable[[SharedStore], Iterator[None]]


def changes(store: SharedStore) -> Iterator[None]:
    """A load is told, again and again."""
    context = store.context_log.add(Context(process=os.getpid()))
    for number in itertools.count():
        store.context_log.record(context, [Load("12" * 32, number)])
        yield


def modules(store: SharedStore) -> Iterator[None]:
    """A module that nobody has is added, again and again."""
    while True:
        store.put(os.urandom(MODULE_BYTES))
        yield


def write(what: Write, objects: str, catalogue: str, seconds: float) -> float:
    """Times a second that one process writes."""
    with (
        tempfile.TemporaryDirectory() as cache,
        SharedUrls(objects, catalogue, Limits()).opened(Path(cache), make=True) as store,
    ):
        steps = what(store)
        next(steps)
        begun, done = time.monotonic(), 0
        while time.monotonic() - begun < seconds:
            next(steps)
            done += 1
        return done / (time.monotonic() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fsync", action="store_true")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, fsync {'on' if chosen.fsync else 'off'}")
    found: dict[tuple[str, int], list[float]] = {}
    with running(fsync=chosen.fsync) as server, tempfile.TemporaryDirectory() as folder:
        objects, catalogue = f"file://{folder}/objects", server.database()
        SharedUrls(objects, catalogue, Limits()).opened(Path(folder) / "cache", make=True).close()
        for _ in range(chosen.rounds):
            for what in (changes, modules):
                for count in PROCESSES:
                    with multiprocessing.get_context("spawn").Pool(count) as pool:
                        rates = pool.starmap(write, [(what, objects, catalogue, chosen.seconds)] * count)
                    found.setdefault((what.__name__, count), []).append(sum(rates))
    for (name, count), rates in found.items():
        print(
            f"{name:8} {count} processes: {statistics.median(rates):8,.0f}/s, from {min(rates):,.0f} to {max(rates):,.0f}"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
