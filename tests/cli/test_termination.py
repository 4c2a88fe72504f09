"""A command that a signal ends leaves nothing behind, and what a killed one left goes with the next."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from symd.store import Store
from symd.system.private_files import make_temporary_folder
from tests.cli.conftest import ROOT

AMD = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
LONG = 60.0
"""Seconds after which a command counts as hung."""
ENDINGS = {signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP, signal.SIGINT: 130}
"""What each signal ends a command with."""
HELLO = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
"""What ``symd mcp`` answers at once."""


COPYING_WITHOUT_END = """
import time
from symd.cli.start import main
from symd.store import maintenance

maintenance._copy_module = lambda *_: time.sleep(600)
raise SystemExit(main())
"""


@contextmanager
def started(
    folder: Path, *arguments: str, program: tuple[str, str] = ("-m", "symd")
) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose temporary files go to the folder, and whose input stays open."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *program, *arguments]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def threads(process: int) -> list[int]:
    """The numbers of a process's threads; the first is the main one."""
    return sorted(int(each.name) for each in Path(f"/proc/{process}/task").iterdir())


def thread_kill(process: int, thread: int, number: int) -> int:
    """tgkill(2): a signal for one thread."""
    result: int = ctypes.CDLL(None).tgkill(process, thread, number)
    return result


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def waiting(tmp_path: Path) -> list[str]:
    """A command that waits for a module in the middle of its work: nobody writes into the pipe."""
    pytest.importorskip("pyarrow")
    os.mkfifo(tmp_path / "pipe")
    return ["batch", "-m", str(tmp_path / "pipe"), str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")]


@pytest.mark.parametrize("number", ENDINGS)
def test_a_batch_that_a_signal_ends_leaves_no_store(
    temporary: Path, waiting: list[str], number: signal.Signals
) -> None:
    with started(temporary, *waiting) as process:
        eventually(lambda: list(temporary.glob("symd-store-*/catalogue.sqlite")))
        process.send_signal(number)
        assert process.wait(LONG) == ENDINGS[number]
    assert not list(temporary.iterdir())


def test_what_a_killed_batch_left_goes_with_the_next_command(temporary: Path, waiting: list[str]) -> None:
    with started(temporary, *waiting) as killed, started(temporary, *waiting) as living:
        eventually(lambda: len(list(temporary.glob("symd-store-*/catalogue.sqlite"))) == 2)
        killed.kill()
        killed.wait(LONG)
        with started(temporary, "names", str(AMD), "*") as other:
            other.communicate(timeout=LONG)
        assert other.returncode == 0
        assert len(list(temporary.iterdir())) == 1
        living.terminate()
        living.wait(LONG)
    assert not list(temporary.iterdir())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "store"
    with Store(root, durable=False) as store:
        store.put(b"a module")
    return root


def copying_without_end(temporary: Path, source: Path, target: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A copy that is in the middle for ever, once its folder is there."""
    return started(temporary, "store", "copy", str(source), str(target), program=("-c", COPYING_WITHOUT_END))


@pytest.mark.parametrize("number", ENDINGS)
def test_a_copy_of_a_store_that_a_signal_ends_leaves_nothing(
    source: Path, tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    place = tmp_path / "copies"
    place.mkdir()
    with copying_without_end(temporary, source, place / "copy") as process:
        eventually(lambda: any(place.glob(".*/catalogue.sqlite")))
        process.send_signal(number)
        assert process.wait(LONG) == ENDINGS[number]
    assert not list(place.iterdir())


def test_what_a_killed_copy_left_goes_with_the_next_to_the_same_place(
    source: Path, tmp_path: Path, temporary: Path
) -> None:
    place = tmp_path / "copies"
    place.mkdir()
    with copying_without_end(temporary, source, place / "copy") as process:
        eventually(lambda: any(place.iterdir()))
        process.kill()
    assert [each.name.startswith(".copy.symd-copy-") for each in place.iterdir()] == [True]
    with started(temporary, "store", "copy", str(source), str(place / "copy")) as process:
        assert process.wait(LONG) == 0
    assert [each.name for each in place.iterdir()] == ["copy"]
    shutil.rmtree(place)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_a_signal_ends_leaves_no_folder(tmp_path: Path, temporary: Path, number: signal.Signals) -> None:
    said = tmp_path / "said"
    program = ["sh", "-c", f"touch {said}; exec sleep 60"]
    with started(temporary, "run", "--out", str(tmp_path / "out"), "--", *program) as process:
        eventually(said.exists)
        process.send_signal(number)
        assert process.wait(LONG) == -number
    assert not list(temporary.iterdir())


def test_what_is_not_a_dead_makers_folder_stays(tmp_path: Path, temporary: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (temporary / f"x-{'0' * 16}").symlink_to(kept)
    (temporary / f"x-{'1' * 16}").write_text("a file")
    (temporary / "x-notes").mkdir()
    living, dead = make_temporary_folder(temporary, "x-"), make_temporary_folder(temporary, "x-")
    os.close(dead.lock)
    make_temporary_folder(temporary, "x-").remove()
    assert len(list(temporary.iterdir())) == 4
    assert living.path.is_dir()
    assert kept.is_dir()


@pytest.mark.parametrize(
    ("command", "said"), [(["view", "--no-browser", str(AMD)], b""), (["view", "--no-browser", "--keep", str(AMD)], b""), (["mcp"], HELLO)]
)  # fmt: skip
def test_a_signal_that_another_thread_gets_ends_a_command_that_lasts(
    temporary: Path, command: list[str], said: bytes
) -> None:
    with started(temporary, *command) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(said)
        process.stdin.flush()
        assert process.stdout.readline()
        eventually(lambda: len(threads(process.pid)) > 1)
        time.sleep(0.2)  # until the main thread waits; sooner it would see the signal in any case
        assert thread_kill(process.pid, threads(process.pid)[-1], signal.SIGTERM) == 0
        assert process.wait(LONG) == -signal.SIGTERM
    assert not list(temporary.iterdir())
