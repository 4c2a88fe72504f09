"""Tools: each way to fail is an error of its own, and a tool meets nothing of the user's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from symd import errors
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool, tool_error

PROCESS_LIMITS = ProcessLimits(seconds=60.0, memory=1 << 30, answer=1 << 20)


@pytest.fixture
def tool(tmp_path: Path):
    """Writes a shell script that is the tool."""

    def write(script: str) -> list[str]:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(stat.S_IRWXU)
        return [str(path)]

    return write


def test_a_tool_finds_its_input_in_an_empty_folder_that_is_gone_afterwards(tool, monkeypatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_OF_THE_USER", "x")
    answer = run_tool(tool("cat input; pwd; ls -A; env"), PROCESS_LIMITS, data=b"bytes\n").answer.decode().splitlines()
    assert answer[0] == "bytes"
    assert answer[2] == "input"
    folder = answer[1]
    assert not Path(folder).exists()
    environment = dict(line.split("=", 1) for line in answer[3:])
    assert environment["HOME"] == environment["TMPDIR"] == folder
    assert environment["PATH"] == os.environ["PATH"]
    assert "LD_PRELOAD_OF_THE_USER" not in environment


def test_a_tool_that_is_named_by_a_relative_path_is_found(tool, tmp_path: Path, monkeypatch) -> None:
    tool("echo here")
    monkeypatch.chdir(tmp_path)
    assert run_tool(["./tool"], PROCESS_LIMITS).answer == b"here\n"


def test_a_signal_is_a_crash_that_names_it(tool) -> None:
    error = tool_error("tool", run_tool(tool("echo why >&2; kill -SEGV $$"), PROCESS_LIMITS))
    assert type(error) is errors.ToolCrashed
    assert str(error) == "tool: it died of SIGSEGV; its last words: why"
    assert error.metadata == {"tool": "tool", "signal": "SIGSEGV"}
    assert (error.status, error.exit_code) == ("FAILED_PRECONDITION", 3)


def test_an_exit_status_is_a_failure_with_its_last_words(tool) -> None:
    error = tool_error("tool", run_tool(tool("echo no >&2; exit 7"), PROCESS_LIMITS), hint="h")
    assert type(error) is errors.ToolFailed
    assert str(error) == "tool: it ended with exit status 7; its last words: no (h)"
    assert error.metadata == {"tool": "tool", "exit_status": "7"}
    assert (error.status, error.exit_code) == ("FAILED_PRECONDITION", 3)


@pytest.mark.parametrize(
    ("script", "limits", "kind", "said"),
    [
        ("sleep 600", ProcessLimits(0.5, 1 << 30, 1), errors.DeadlineExceeded, "no end within 0.5 seconds"),
        (
            "while :; do :; done",
            ProcessLimits(60, 1 << 30, 1, 1),
            errors.DeadlineExceeded,
            "1 seconds of processor time",
        ),
        ("exec yes", PROCESS_LIMITS, errors.LimitExceeded, "it wrote more than 1048576 bytes"),
        (
            "exec yes > f",
            ProcessLimits(60, 1 << 30, 1, None, 4096),
            errors.LimitExceeded,
            "a file of more than 4096 bytes",
        ),
    ],
)
def test_a_limit_that_is_passed_is_named_with_its_value(tool, script: str, limits, kind, said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        run_tool(tool(script), limits, hint="ask for less")
    assert (caught.value.where, caught.value.hint) == ("tool", "ask for less")


def test_a_program_that_cannot_be_started_says_why(tool, tmp_path: Path) -> None:
    with pytest.raises(errors.ToolFailed, match=r"nothing: it cannot be started: no such file"):
        run_tool([str(tmp_path / "nothing")], PROCESS_LIMITS)
