"""Verbs run in this process against a made-up engine, or as the real command in a process of its own."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from symd.cli import command_line
from symd.model.addresses import Query
from symd.model.answers import Answer
from tests.cli.fake import FakeSymbolizer
from tests.cli.forked import Parent

ROOT = Path(__file__).parent.parent.parent
SYMD = [sys.executable, "-c", "from symd.cli.command_line import main; main()"]


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def call(*arguments: object) -> Outcome:
        code = command_line.invoke([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return call


def pseudo_terminal() -> tuple[int, int]:
    """Both ends of a new one, the one that draws first; the test is skipped where the machine has none."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo-terminals: {error}")


def drawn_on(leader: int) -> bytes:
    """All that was written to a pseudo-terminal, once nobody has its other end open any more; ``leader`` is closed. One
    read gives 4 KiB at most, and less where the writer wrote twice."""
    drawn = b""
    with open(leader, "rb", buffering=0) as terminal, suppress(OSError):  # EIO: it was all
        while piece := terminal.read(1 << 16):
            drawn += piece
    return drawn


@pytest.fixture
def symd(parent_of_commands: Parent) -> Run:
    """Run a command line as a process; ``stdin`` is its whole input."""

    def call(*arguments: object, stdin: bytes = b"") -> Outcome:
        code, out, err = parent_of_commands.run(arguments, stdin, 120)
        return Outcome(code, out.decode(), err.decode())

    return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSymbolizer:
    """The engine that the verbs get instead of a real one."""
    symbolizer = FakeSymbolizer()
    monkeypatch.setattr("symd.engine.files.module.open_symbolizer", lambda *_: nullcontext(symbolizer))
    monkeypatch.setattr("symd.cli.info.file_summary", lambda *_, **__: (symbolizer.summary, {}))
    monkeypatch.setattr("symd.cli.extract.file_objects", lambda *_: symbolizer.objects())
    monkeypatch.setattr(
        "symd.engine.files.opened_file.opened_by_size", lambda file, limits, store=None: FakeFile(symbolizer)
    )
    return symbolizer


@dataclass
class FakeFile:
    """The made-up engine where a verb reads one file itself."""

    symbolizer: FakeSymbolizer

    def symbolize(
        self, queries: Sequence[Query], path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        return self.symbolizer.symbolize("", queries, path)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A file that only the made-up engine understands."""
    path = tmp_path / "module.bin"
    path.write_bytes(b"a module")
    return path


@pytest.fixture(scope="session")
def sample() -> Path:
    """A real module: IGC debug data of one kernel, with lines."""
    return ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"


@pytest.fixture
def server(tmp_path: Path, parent_of_commands: Parent) -> Iterator[str]:
    """The address of a daemon."""
    with serving(tmp_path, tmp_path / "store", parent_of_commands) as address:
        yield address


@contextmanager
def serving(tmp_path: Path, store: Path, parent_of_commands: Parent) -> Iterator[str]:
    """A daemon over this store, and its address."""
    address = f"unix:{tmp_path}/s.sock"
    arguments = ["serve", "--address", address, "--store", store, "--grace", "1"]
    out, theirs = os.pipe()
    daemon = parent_of_commands.start(arguments, 0, theirs, 2)
    os.close(theirs)
    with os.fdopen(out) as stdout:
        assert stdout.readline() == f"symd serves at {address}\n"
        yield address
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
        assert stdout.read() == ""
