"""The help of every command fits a terminal of 80 columns, and a shell takes its examples as they are shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from symd.cli import GROUP
from symd.cli.options import folded
from tests.cli.conftest import Run

COLUMNS = 80


def contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Of a command and all below it."""
    with command.make_context(name, ["--help"], parent, resilient_parsing=True) as context:
        yield context
        for below in command.list_commands(context) if isinstance(command, click.Group) else ():
            found = command.get_command(context, below)
            assert found is not None
            yield from contexts(found, below, context)


COMMANDS = list(contexts(GROUP, "symd"))


@pytest.mark.parametrize("context", COMMANDS, ids=[context.command_path for context in COMMANDS])
def test_no_line_is_wider_than_the_terminal(context: click.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = context.get_help().splitlines()
    assert [line for line in lines if len(line) > COLUMNS and not line.startswith("docs/ is ")] == []


@pytest.mark.parametrize("context", COMMANDS, ids=[context.command_path for context in COMMANDS])
def test_folded_examples_are_the_same_commands(context: click.Context) -> None:
    for line in (context.command.epilog or "").partition("Example:\n")[2].splitlines():
        lines = folded(line, COLUMNS - 4)
        assert all(each.endswith(" \\") for each in lines[:-1])
        assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(line), (
            "a shell reads no line end behind a backslash"
        )


def test_an_option_stays_with_its_value() -> None:
    assert folded("  symd serve --address unix:/run/symd.sock --store /var/lib/symd", 52) == [
        "  symd serve --address unix:/run/symd.sock \\",
        "      --store /var/lib/symd",
    ]


def test_the_first_screen_says_what_to_type_for_a_file_a_program_a_profile_and_a_daemon(run: Run) -> None:
    first = run("--help").out.splitlines()[:12]
    for each in (
        "symd symbolize FILE",
        "symd run -- ",
        "symd profile -m ",
        "symd serve ",
        "symd symbolize --server default ",
    ):
        assert any(line.startswith(f"  {each}") for line in first), each
