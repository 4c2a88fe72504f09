"""Standard streams that another program has left as ones that do not wait (O_NONBLOCK): nothing is lost."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from symd.cli.serving import BackgroundHandler
from symd.engine.engine import Engine
from symd.store import Store

SYMD = [sys.executable, "-c", "from symd.cli.start import main; main()"]
MODULE = str(Path(__file__).parents[2] / "samples/amdgpu/bin/v4-gfx900.co")
SMALLEST_PIPE = 4096
QUESTIONS = b"0x1978\n" * 1000
SECONDS = 60
COMES_WITHIN = 2


@pytest.fixture
def full() -> Iterator[tuple[int, int]]:
    """A pipe in which nothing has room, and whose end for writing does not wait."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    os.set_blocking(writing, False)
    assert os.write(writing, b"x" * SMALLEST_PIPE) == SMALLEST_PIPE
    yield reading, writing
    os.close(reading)


def read_to_the_end(descriptor: int) -> bytes:
    return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))


def pending(descriptor: int) -> int:
    """Bytes that wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def let_it_come_to_that(process: subprocess.Popen[bytes]) -> None:
    """Until it has ended, as it would if it did not wait, or has had time for that."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(COMES_WITHIN)


@pytest.mark.parametrize(
    "arguments", [["symbolize", MODULE, "0x1978"], ["symbolize", MODULE, "-"], ["lines", "--json", MODULE]]
)
def test_what_is_written_waits_for_its_reader(full: tuple[int, int], arguments: list[str]) -> None:
    reading, writing = full
    whole = subprocess.run([*SYMD, *arguments], input=QUESTIONS, stdout=subprocess.PIPE, check=True, timeout=SECONDS)
    with subprocess.Popen(
        [*SYMD, *arguments], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        assert process.stdin is not None
        process.stdin.write(QUESTIONS)
        process.stdin.close()
        let_it_come_to_that(process)
        said = read_to_the_end(reading)
        assert process.wait(SECONDS) == 0
    assert said[SMALLEST_PIPE:] == whole.stdout


def test_what_is_written_when_a_stream_ceases_to_wait_is_not_written_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    store = tmp_path / "store"
    with Engine(Store(store, durable=False)) as engine:
        engine.add(Path(MODULE).read_bytes())
    asked = [*SYMD, "symbolize", "--store", str(store), MODULE, *["0x1978"] * 200]
    whole = subprocess.run(asked, stdout=subprocess.PIPE, check=True, timeout=SECONDS).stdout
    assert len(whole) > 2 * SMALLEST_PIPE
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    with subprocess.Popen(asked, stdout=writing) as process:
        while pending(reading) < SMALLEST_PIPE:
            assert process.poll() is None
            threading.Event().wait(0.01)
        os.set_blocking(writing, False)
        os.close(writing)
        assert read_to_the_end(reading) == whole
        assert process.wait(SECONDS) == 0
    os.close(reading)


def test_questions_are_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen([*SYMD, "symbolize", MODULE, "-"], stdin=reading, stdout=subprocess.PIPE) as process:
        os.close(reading)
        let_it_come_to_that(process)
        os.write(writing, b"0x1978\n")
        os.close(writing)
        said, _ = process.communicate(timeout=SECONDS)
        assert (process.returncode, said[:25]) == (0, b"0x1978: blend at /src/sha")


def test_a_module_on_standard_input_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with subprocess.Popen([*SYMD, "symbolize", "-", "0x1978"], stdin=reading, stdout=subprocess.PIPE) as process:
        os.close(reading)
        let_it_come_to_that(process)
        with open(writing, "wb") as given:  # noqa: PTH123 - a descriptor
            given.write(Path(MODULE).read_bytes())
        said, _ = process.communicate(timeout=SECONDS)
        assert (process.returncode, said[:25]) == (0, b"0x1978: blend at /src/sha")


def test_a_log_goes_on_after_nobody_took_it_for_a_while(full: tuple[int, int]) -> None:
    reading, writing = full
    handler = BackgroundHandler(writing)
    for text in ("first", "second"):
        handler.emit(logging.LogRecord("name", logging.INFO, "path", 1, text, (), None))
    while handler._lines.qsize() > 1:
        threading.Event().wait(0.01)
    assert os.read(reading, SMALLEST_PIPE) == b"x" * SMALLEST_PIPE
    handler.close()
    os.close(writing)
    assert read_to_the_end(reading) == b"first\nsecond\n"
