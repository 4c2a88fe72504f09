"""The sessions of gdb and LLDB that docs/integrations.md shows, typed again: all that is printed stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from shlex import quote

import pytest

from tests.cli.debuggers.programs import untraceable
from tests.docs.shell import ROOT, Shell, steps
from tests.tools import require

PAGE = (ROOT / "docs" / "integrations.md").read_text()
OF_THE_SYSTEM = re.compile(
    r"warning: Error disabling address space randomization|\[Thread debugging using libthread_db|Using host libthread_db"
)
"""What gdb says of the system that it runs on."""
LLDB_EVENT = re.compile(r"Process \S+ exited with status")
"""What LLDB's event thread prints: it may be too late where LLDB is told to quit next."""
Said = list[tuple[str, list[str]]]
"""What was typed, and the lines that were printed next; the first is what came before."""


def section(title: str) -> str:
    """A section of the page, whose first line is its title."""
    return re.split(r"(?m)^## ", PAGE.partition(f"\n## {title}\n")[2])[0]


def session(lines: list[str], prompt: str) -> Said:
    """A session as it was printed."""
    said: Said = [("", [])]
    for line in lines:
        if line.startswith(prompt):
            said.append((line.removeprefix(prompt).strip(), []))
        elif line.strip() and not OF_THE_SYSTEM.match(line):
            said[-1][1].append(line.rstrip())
    return said


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a folder with the samples and the program to debug."""
    require("gcc", "cc")
    shell = Shell(tmp_path)
    shell.variables |= {"HOME": str(tmp_path), "TERM": "dumb"}
    for step in steps(section("gdb"))[:-1]:
        shell.run(step.line)
    yield shell
    shell.stop()


def is_as_shown(line: str, shown: str) -> bool:
    """Whether a line is the one that the page shows, where "…" stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def without_events(said: Said) -> Said:
    """A session of LLDB without what its event thread prints."""
    return [(typed, [line for line in lines if not LLDB_EVENT.match(line)]) for typed, lines in said]


def compare(shown: Said, printed: Said) -> None:
    for (typed, expected), (given, found) in zip_longest(shown, printed, fillvalue=("", [])):
        assert is_as_shown(given, typed), f"{given!r} was typed in place of {typed!r}"
        for line, said in zip_longest(expected, found, fillvalue=""):
            assert is_as_shown(said, line), f"after {typed!r}, {said!r} is printed in place of {line!r}"


def test_gdb_prints_what_the_page_shows(shell: Shell) -> None:
    """Its standard input is no terminal, so that it does not repeat what is typed."""
    require("gdb")
    step = steps(section("gdb"))[-1]
    shown = session(step.shown, "(gdb) ")
    typed = [words for words, _ in shown[1:]]
    (shell.folder / "typed").write_text("\n".join(typed) + "\n")
    printed = shell.run(f"{step.line} < typed")
    if "ptrace" in printed or "Could not trace" in printed:
        untraceable(printed)
    pieces = printed.split("(gdb) ")
    told = [session(piece.splitlines(), "(gdb) ")[0][1] for piece in pieces]
    compare(shown, list(zip(["", *typed], told, strict=True)))


def test_lldb_prints_what_the_page_shows(shell: Shell) -> None:
    path = require("lldb")
    serve, step = steps(section("LLDB"))
    shell.run(serve.line)
    shown = session(step.shown, "(lldb) ")
    typed = [words for words, _ in shown if words and not words.startswith(("target create", "command script"))]
    given = "-o 'settings set target.disable-aslr false' "  # which takes a right that containers do not give
    given += " ".join(f"-o {quote(words)}" for words in typed)
    command = step.line.removeprefix("lldb ").removesuffix(" ./fault")
    printed = shell.run(f"{path} --no-lldbinit -b {command} {given} ./fault || true")
    if any(each in printed for each in ("ptrace", "failed to launch", "Cannot launch", "attach failed")):
        untraceable(printed)
    said = session(printed.splitlines(), "(lldb) ")
    asked = [each for each in said if not each[0].startswith("settings set")]
    compare(without_events(shown), without_events(asked))
