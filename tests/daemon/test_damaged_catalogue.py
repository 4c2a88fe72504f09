"""A daemon whose catalogue is damaged while it runs: each call is answered, or says so once, and the daemon goes on."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from symd import Client
from symd.errors import ContextNotFound, DataLoss, ModuleNotFound, StoreUnavailable, SymdError
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.contexts import Alias, Context, Unload
from tests.daemon.processes import serving

SAMPLE = (Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
LONG = 60.0
DAMAGE = ("DROP TABLE failures", "DROP TABLE evictions", "DROP TABLE totals")


def calls(client: Client, digest: str) -> list[Callable[[], object]]:
    return [
        lambda: client.record(digest),
        lambda: list(client.modules()),
        lambda: client.aliases.resolve("build-id", "1"),
        lambda: list(client.aliases.of(digest)),
        lambda: list(client.contexts.all()),
        lambda: client.contexts.record(client.contexts.add(Context(process=2)), [Unload("key", 5)]),
        lambda: client.aliases.add([Alias("build-id", "2", digest)]),
        lambda: client.add(SAMPLE + os.urandom(8)),
        lambda: client.relabel(digest, "label"),
    ]


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_daemon_says_so_and_the_next_mends_it(tmp_path: Path, statement: str) -> None:
    query = ByKernel("raycast", KernelOffset(0x368))
    with serving(tmp_path) as daemon, Client(daemon.address) as client:
        digest = client.add(SAMPLE, "label").sha256
        client.aliases.add([Alias("build-id", "1", digest)])
        client.contexts.add(Context(process=1))
        reason = client.symbolize_one(digest, query).reason
        with closing(sqlite3.connect(daemon.store / "catalogue.sqlite", timeout=LONG)) as connection:
            connection.execute(statement)
            connection.commit()
        assert {_goes_well(call) for call in calls(client, digest)} >= {False}
        assert client.symbolize_one(digest, query).reason is reason
        daemon.process.terminate()
        _, log = daemon.process.communicate(timeout=LONG)
        assert "Traceback" not in log
    with serving(tmp_path) as daemon, Client(daemon.address) as client:
        end = time.monotonic() + LONG
        while not all(_goes_well(call) for call in calls(client, digest)):  # modules are found by their files
            assert time.monotonic() < end
        assert client.symbolize_one(digest, query).reason is reason
        daemon.process.terminate()
        _, log = daemon.process.communicate(timeout=LONG)
    assert "the catalogue was damaged (" in log


def _goes_well(call: Callable[[], object]) -> bool:
    try:
        call()
    except (DataLoss, ModuleNotFound, StoreUnavailable):  # its file has not been found yet
        return False
    except ContextNotFound:  # it was added after the copy that the repair took, and recorded into after it
        return False
    except SymdError as error:
        raise AssertionError(error) from error
    return True
