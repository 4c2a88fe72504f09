"""What a command says on stderr of the work that it did."""

from __future__ import annotations

from collections.abc import Sequence

import click

from symd.cli.output import printable
from symd.model.texts import counted

PRINTED_NOTES = 20
"""Notes that are printed; --json prints all."""


def say(text: str) -> None:
    """One line."""
    click.echo(f"symd: {printable(text)}", err=True)


def say_notes(notes: Sequence[str]) -> None:
    """The first notes of a report, and how many more there are."""
    for note in notes[:PRINTED_NOTES]:
        say(note)
    if len(notes) > PRINTED_NOTES:
        say(f"and {counted(len(notes) - PRINTED_NOTES, 'more note')} (--json prints all)")
