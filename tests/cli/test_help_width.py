"""The help of every command fits a terminal of 80 columns, but for examples, which terminals wrap: what is copied stays one command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from symd.cli.command_line import GROUP
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
    lines = context.get_help().partition("Example:\n")[0].splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_the_first_screen_says_what_to_type_for_a_file_a_program_a_profile_and_a_daemon(run: Run) -> None:
    first = run("--help").out.splitlines()[:12]
    for each in (
        "symd symbolize FILE",
        "symd run -- ",
        "symd profile -m ",
        "symd daemon start ",
        "symd symbolize --server default ",
    ):
        assert any(line.startswith(f"  {each}") for line in first), each
