"""Modules made to take the daemon down: it lives, stays small, answers its neighbours, and starts again over what they left."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from symd.engine.indexes.builds import MAX_ATTEMPTS
from symd.errors import DataLoss, LimitExceeded, Malformed, SymdError
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.line_tables import ListingPart
from symd.model.summaries import ModuleSummary
from symd.model.watches import ModuleAdded, Watching
from tests.daemon.conftest import Daemon
from tests.daemon.processes import children, has_ended, kill, most_memory, serving
from tests.hostile.bombs import MIB, directories_times_files, expanding_strings, noise
from tests.hostile.wrappers import WRAPPERS

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
GOOD = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
DIGEST = hashlib.sha256(GOOD).hexdigest()
CODE_OBJECT = (BIN.parents[1] / "amdgpu/bin/v4-gfx900.co").read_bytes()
QUERY = ByKernel("raycast", KernelOffset(0x610))
MOST = 512 * MIB
"""What the daemon's own process may take."""


def answers(daemon: Daemon) -> bool:
    with daemon.client() as client:
        client.add(GOOD)
        return [frame.function for frame in client.symbolize_one(DIGEST, QUERY).frames] == [
            "length_squared",
            "distance_to",
        ]


def test_directories_that_multiply_with_files(tmp_path: Path) -> None:
    """An upload of 60 KB that took all memory there was, and again at every start."""
    data = directories_times_files()
    assert 55_000 < len(data) < 70_000
    with serving(tmp_path) as daemon, daemon.client() as client:
        module = client.add(data)
        assert "file paths take more than" in module.objects[0].notes[-1]
        assert answers(daemon)
        assert most_memory(daemon.process.pid) < MOST
    with serving(tmp_path) as daemon:
        assert answers(daemon)


def test_memory_that_a_module_takes_is_its_workers(tmp_path: Path) -> None:
    """It may have less than the bounds of what it reads come to."""
    with serving(tmp_path, "--limit", "build_memory=300M") as daemon, daemon.client() as client:
        for _ in range(2):
            with pytest.raises(LimitExceeded) as caught:
                client.add(directories_times_files())
            assert caught.value.metadata["limit"] == "build_memory"
        assert answers(daemon)
        assert most_memory(daemon.process.pid) < MOST


def test_a_daemon_that_is_killed_while_it_indexes_starts_again(tmp_path: Path) -> None:
    """The processes that index are stopped, so that the module is slow; after so many kills it is given up."""
    slow = expanding_strings()
    for before in range(MAX_ATTEMPTS):
        with serving(tmp_path) as daemon:
            for worker in children(daemon.process.pid):
                os.kill(worker, signal.SIGSTOP)
            with daemon.client() as client:
                asking = threading.Thread(target=ended, args=(client.add, slow))
                asking.start()
                wait_for(lambda before=before: attempts(tmp_path / "store") > before)
                kill(daemon.process)
                asking.join(130)
                assert not asking.is_alive()
    with serving(tmp_path) as daemon, daemon.client() as client:
        assert answers(daemon)
        with pytest.raises(Malformed, match=f"{MAX_ATTEMPTS} attempts"):
            client.add(slow)
        assert client.missing([hashlib.sha256(slow).hexdigest()])


def test_a_daemon_that_is_told_to_end_while_it_indexes_counts_no_attempt(tmp_path: Path) -> None:
    """More often than a module has attempts: machines that may be taken away are told before."""
    for _ in range(MAX_ATTEMPTS + 1):
        with serving(tmp_path, "--grace", "0") as daemon, indexing(daemon, ended):
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.process.wait(60) == 0
        assert attempts(tmp_path / "store") == 0
    with serving(tmp_path) as daemon:
        assert answers(daemon)


def test_processes_that_read_modules_are_not_ended_with_the_daemon_but_by_it(tmp_path: Path) -> None:
    """systemd sends SIGTERM to all processes of a service (KillMode= in systemd.kill(5)): what runs has the daemon's grace."""
    found = []
    with serving(
        tmp_path, "--grace", "120"
    ) as daemon:  # a process that was stopped while it started may take long to go on
        with indexing(daemon, lambda add, data: found.append(add(data).sha256)) as workers:
            for process in (daemon.process.pid, *workers):
                os.kill(process, signal.SIGTERM)
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
        assert daemon.process.wait(60) == 0
    assert found == [DIGEST]


@contextmanager
def indexing(daemon: Daemon, act: Callable[[Callable[[bytes], ModuleSummary], bytes], None]) -> Iterator[set[int]]:
    """While GOOD is being indexed by processes that are stopped: these. ``act`` adds it."""
    workers = children(daemon.process.pid)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    with daemon.client() as client:
        asking = threading.Thread(target=act, args=(client.add, GOOD))
        asking.start()
        wait_for(lambda: attempts(daemon.store) > 0)
        yield workers
        asking.join(130)  # the client has 120 s for a call
        assert not asking.is_alive()


def attempts(store: Path) -> int:
    """To index the one module that has some."""
    with closing(sqlite3.connect(f"file:{store / 'catalogue.sqlite'}?mode=ro", timeout=60, uri=True)) as connection:
        return sum(count for (count,) in connection.execute("SELECT count FROM attempts"))


def ended(call, *arguments) -> None:
    with pytest.raises(SymdError):
        call(*arguments)


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_as_many_processes_read_modules_as_the_operator_says(tmp_path: Path) -> None:
    with serving(tmp_path, "--readers", "1", "--builders", "1") as daemon:
        assert len(children(daemon.process.pid)) == 2
        assert answers(daemon)
        assert len(children(daemon.process.pid)) == 2


def test_workers_that_are_killed_are_told_of_and_replaced(tmp_path: Path) -> None:
    killed: set[int] = set()
    with serving(tmp_path) as daemon, daemon.client() as client:
        client.add(GOOD)
        for _ in range(3):
            for worker in children(daemon.process.pid):
                with suppress(ProcessLookupError):  # it has ended before
                    os.kill(worker, signal.SIGKILL)
                killed.add(worker)
            assert refusal(client.variables, DIGEST, QUERY) in (None, "WORKER_DIED")
        wait_for(lambda: all(map(has_ended, killed)))  # a process that was killed lives until it has its turn
        assert client.variables(DIGEST, QUERY).visible.variables


def refusal(call, *arguments) -> str | None:
    """Why the call was refused; None when it was answered."""
    try:
        call(*arguments)
    except SymdError as error:
        return error.reason
    return None


def test_questions_whose_answers_expand_take_no_memory_of_the_daemons(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, daemon.client() as client:
        bomb = expanding_strings()
        assert len(bomb) < 310_000
        digest = client.add(bomb).sha256
        questions = [
            lambda: client.variables(digest, ByAddress(ObjectAddress(0))),
            lambda: client.sources(digest, ["/d/f"]),
            lambda: client.object_data(digest, ""),
            lambda: list(client.listing(digest, ListingPart(target="gfx900"))),
        ]
        with ThreadPoolExecutor(8) as threads:
            reasons = set(threads.map(refusal, questions * 4))
        assert reasons <= {None, "TOOL_MISSING", "TOOL_FAILED", "UNSUPPORTED", "BUSY"}
        assert answers(daemon)
        assert most_memory(daemon.process.pid) < MOST


def test_a_large_code_object_is_read_past_the_daemons_memory(tmp_path: Path) -> None:
    """Three clients read 200 MB each from a module of 2 MB at once."""
    object_bytes = CODE_OBJECT + noise(2_200_000) + bytes(200 * MIB)
    packed = WRAPPERS["ccob"](object_bytes)
    with serving(tmp_path) as daemon, daemon.client() as client:
        summary = client.add(packed)
        [path] = [each.path for each in summary.objects]

        def read(_: int) -> int:
            return len(client.object_data(summary.sha256, path))

        with ThreadPoolExecutor(3) as threads:
            assert set(threads.map(read, range(4))) == {len(object_bytes)}
        assert most_memory(daemon.process.pid) < MOST


def test_a_byte_that_flips_is_noticed_and_the_next_upload_mends_it(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, daemon.client() as client:
        client.add(GOOD, "label")
    path = tmp_path / "store" / "modules" / DIGEST[:2] / DIGEST
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with serving(tmp_path) as daemon, daemon.client() as client:
        with pytest.raises(DataLoss):
            client.variables(DIGEST, QUERY)
        assert client.missing([DIGEST]) == [DIGEST]
        assert client.add(GOOD).sha256 == DIGEST
        assert client.variables(DIGEST, QUERY).visible.variables
        assert client.record(DIGEST).label == "label"


def test_a_watch_over_what_cannot_be_read_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, daemon.client() as client:
        client.add(GOOD)
    for path in (tmp_path / "store" / "index").rglob("*.idx"):
        path.unlink()
    path = tmp_path / "store" / "modules" / DIGEST[:2] / DIGEST
    path.write_bytes(path.read_bytes()[::-1])
    waiting = [Breakpoint("b", SourceLine("raycast.cl", 16))]
    with serving(tmp_path) as daemon, daemon.client() as client, client.watch(waiting) as watch:
        assert [type(next(watch)) for _ in range(2)] == [ModuleAdded, Watching]
