"""What the daemon raises reaches clients in any language: its hints name no command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from symd.cli.command_line import _TYPED
from symd.errors import KernelNotFound, ObjectNotFound
from symd.rpc.wire.failures import to_status

ROOT = Path(__file__).resolve().parents[2] / "symd"
ANSWERS = (
    *("cores", "debuginfo/dwarf", "engine/contexts", "engine/indexes", "formats/containers", "index", "query"),
    *("server/rpc", "rpc/wire", "errors.py", "server/answering.py", "server/authentication.py", "server/batches.py"),
    *(
        "server/guard.py",
        "server/messages.py",
        "server/paging.py",
        "server/service_context.py",
        "server/work_queues.py",
        "capture/drivers/runner.py",
    ),
    *("capture/drivers/apis.py", "capture/drivers/child.py", "store/module_log.py", "store/context_log.py"),
)
"""Where errors come from that an answer of the daemon may be."""
ELSEWHERE = (
    *("symd attach PROCESS --out FOLDER takes it", "symd token NAME --access "),
    "the driver is installed and works without hardware",
)
"""Texts that no client gets: of the start of a daemon, of files that a user of the command line names, and of ``symd doctor``."""
COMMAND = re.compile(
    r"\bsymd (?:[a-z]+ )+(?:FILE|DIR|NAME|PROCESS|-)|`symd |\(symd |\bsymd \w+ (?:lists|says|takes) |--limit "
)


def texts(path: Path) -> Iterator[str]:
    """What strings of a file say, but for docstrings."""
    tree = ast.parse(path.read_text())
    prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in prose:
            yield each.value


def test_hints_of_answers_name_no_command_line() -> None:
    files = [
        file for each in ANSWERS for file in ([ROOT / each] if each.endswith(".py") else (ROOT / each).rglob("*.py"))
    ]
    assert len(files) > 100
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in files
        for text in texts(file)
        if COMMAND.search(text) and not any(begin in text for begin in ELSEWHERE)
    ]
    assert not found


def test_a_command_line_would_be_found() -> None:
    for text in (
        "symd info FILE lists them",
        "(symd token)",
        "symd modules lists them",
        "raise it with --limit batch=N",
    ):
        assert COMMAND.search(text)


def test_an_error_travels_without_a_command() -> None:
    for error in (
        ObjectNotFound.at("x"),
        ObjectNotFound.at("x", "abcdefghijk"),
        KernelNotFound("there is no kernel 'x'"),
    ):
        assert "symd " not in to_status(error).message


def test_commands_stand_for_hints_that_there_are() -> None:
    said = [
        text
        for folder in ("formats/containers", "cores")
        for file in (ROOT / folder).rglob("*.py")
        for text in texts(file)
    ]
    assert all(hint in said for hint in _TYPED)
