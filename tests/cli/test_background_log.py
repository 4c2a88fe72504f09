"""A log whose reader stops reading holds nobody up."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from symd import Client
from symd.cli import serving
from symd.cli.serving import BackgroundHandler
from symd.server.logs import JsonLogFormatter


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("name", logging.INFO, "path", 1, text, (), None)


def test_lines_come_in_order_and_all_at_the_end(pipe) -> None:
    handler = BackgroundHandler(pipe[1])
    for number in range(100):
        handler.emit(record(f"line {number} \udc80"))
    handler.close()
    os.close(pipe[1])
    with open(pipe[0], "rb", closefd=False) as stream:
        assert stream.read().decode().splitlines() == [f"line {number} \\udc80" for number in range(100)]


def test_lines_that_nobody_takes_are_counted(pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LINES", 4)
    handler = BackgroundHandler(pipe[1])
    long = "x" * 100_000  # more than a pipe holds
    for _ in range(20):
        handler.emit(record(long))
    with open(pipe[0], "rb", closefd=False) as stream:
        for _ in range(3):
            assert stream.readline() == f"{long}\n".encode()
        handler.emit(record("after"))
        rest = [line.decode().rstrip("\n") for line in iter(stream.readline, b"after\n")]
    handler.close()
    os.close(pipe[1])
    assert rest[-1].endswith("lines of the log were lost: nobody took them")


def test_what_was_lost_is_told_in_json_where_all_else_is(pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LINES", 4)
    handler = BackgroundHandler(pipe[1])
    handler.setFormatter(JsonLogFormatter())
    for _ in range(20):
        handler.emit(record("x" * 100_000))
    with open(pipe[0], "rb", closefd=False) as stream:
        for _ in range(3):
            json.loads(stream.readline())
        handler.emit(record("after"))
        told = json.loads(next(line for line in iter(stream.readline, b"") if b"were lost" in line))
    handler.close()
    os.close(pipe[1])
    assert (told["log"], told["level"]) == ("symd.log", "WARNING")


def test_a_reader_that_is_gone_is_no_error(pipe) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    handler = BackgroundHandler(writing)
    for _ in range(5):
        handler.emit(record("line"))
    handler.close()
    assert not handler._thread.is_alive()
    os.close(writing)


def test_a_daemon_whose_log_nobody_reads_goes_on(tmp_path: Path, sample: Path) -> None:
    """Each of these calls leaves a line, together several times what a pipe holds."""
    command = [
        sys.executable,
        "-m",
        "symd",
        "serve",
        "--address",
        f"unix:{tmp_path}/s",
        "--store",
        str(tmp_path / "store"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[-1]
            digest = hashlib.sha256(sample.read_bytes()).hexdigest()
            with Client(address, timeout=60) as client:
                client.add(sample.read_bytes())
                for number in range(2000):
                    client.relabel(digest, f"label {number}")
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.count("what=UpdateModule") > 100
