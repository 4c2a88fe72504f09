"""Questions a second that one, two and three daemons over one store answer, over PostgreSQL and S3 on this machine, and what the catalogue takes.

``python -m benchmarks.replicas [--seconds 4] [--rounds 3]`` measures them in turns. Daemons and clients share the machine's processors, so that the processor
time that a daemon spends on a question says more of many machines than the rate does."""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.pool
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

from symd import Client
from symd.config import Limits
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.postgresql import PostgresDatabase
from tests.store.shared.postgresql_server import running
from tests.store.shared.replicas import OBJECT, Replicas, replicas

CLIENTS = 4
COLUMN = 1 << 16
"""Addresses of one call."""
WRITES = 300


def one(client: Client, digest: str) -> int:
    client.symbolize_one(digest, 0x1978)
    return 1


def column(client: Client, digest: str) -> int:
    return len(client.symbolize_column(digest, _ADDRESSES))


def line(client: Client, digest: str) -> int:
    """A question that takes much of a daemon and little of a client."""
    client.locate(digest, "/src/shade.cl:23", every_address=True)
    return 1


_ADDRESSES = np.random.default_rng(1).integers(0x1900, 0x1A00, COLUMN).astype(np.uint64)


def ask(work: Callable[[Client, str], int], address: str, digest: str, seconds: float) -> tuple[int, float]:
    """(answers, processor seconds) of one client process."""
    with Client(address) as client:
        for _ in range(3):  # each daemon has the index open
            work(client, digest)
        begun, cpu, done = time.monotonic(), time.process_time(), 0
        while time.monotonic() - begun < seconds:
            done += work(client, digest)
        return done, time.process_time() - cpu


def measure(
    daemons: Replicas, work: Callable[[Client, str], int], count: int, seconds: float, digest: str
) -> list[float]:
    """Answers a second of ``count`` daemons together, daemons' and clients' microseconds of a processor for each answer."""
    address = "ipv4:" + ",".join(daemons.addresses[:count])
    before = daemons.processor_seconds()
    with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
        found = pool.starmap(ask, [(work, address, digest, seconds)] * CLIENTS)
    answers = sum(each for each, _ in found)
    spent = daemons.processor_seconds() - before
    return [answers / seconds, spent / answers * 1e6, sum(cpu for _, cpu in found) / answers * 1e6]


def transactions(count: int) -> float:
    """Transactions a second that ``count`` daemons' catalogues commit, on a server that waits for its disk."""
    with running(fsync=True) as server:
        url = server.database()
        catalogues = [PostgresCatalogue(PostgresDatabase(url, Limits())) for _ in range(count)]
        begun = time.monotonic()
        with multiprocessing.pool.ThreadPool(count) as pool:
            pool.map(_write, catalogues)
        seconds = time.monotonic() - begun
        for each in catalogues:
            each.close()
        return count * WRITES / seconds


def _write(catalogue: PostgresCatalogue) -> None:
    for number in range(WRITES):
        with catalogue.writing() as connection:
            query = "INSERT INTO contexts (id, description, added, revision, segments) VALUES (?, ?, 0, 0, 0) ON CONFLICT DO NOTHING"
            connection.execute(query, (f"{id(catalogue)}-{number}", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with replicas(3) as (daemons, _):
        with Client(daemons.address) as client:
            digest = client.add(OBJECT.read_bytes()).sha256
        found: dict[tuple[str, int], list[list[float]]] = {}
        for _ in range(chosen.rounds):
            for work in (one, line, column):
                for count in (1, 2, 3):
                    row = measure(daemons, work, count, chosen.seconds, digest)
                    found.setdefault((work.__name__, count), []).append(row)
        for (what, count), rows in found.items():
            rate, spent, clients = (statistics.median(values) for values in zip(*rows, strict=True))
            first = statistics.median(values[0] for values in found[what, 1])
            print(
                f"{what:6} {count} daemons: {rate:12,.0f}/s ({rate / first:.2f} times), a daemon {spent:8.2f} us, a client {clients:8.2f} us"
            )
    for count in (1, 2, 3):
        rates = [transactions(count) for _ in range(chosen.rounds)]
        print(f"transactions of {count} daemons, fsync on: {statistics.median(rates):,.0f}/s")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
