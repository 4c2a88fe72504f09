"""Where the pages are that a help names: a wheel has them in the package, a clone beside it."""

from __future__ import annotations

import click

from symd.cli.folded_examples import ExampleFormatter
from symd.errors import Unavailable


class DocumentedContext(click.Context):
    """The context of a command whose help ends with where ``docs/`` is, if it names a page, and whose examples fit the terminal."""

    formatter_class = ExampleFormatter

    def get_help(self) -> str:
        """Called by click for --help."""
        text = super().get_help()
        return f"{text}\n\ndocs/ is {folder}" if "docs/" in text and (folder := _folder()) else text


def documented(command: click.Command) -> click.Command:
    """The command, with such contexts for itself and the commands below it."""
    command.context_class = DocumentedContext
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        documented(each)
    return command


def _folder() -> str:
    from symd.cli.samples import shipped  # noqa: PLC0415 - for a help that names a page alone

    try:
        return str(shipped("docs"))
    except Unavailable:
        return ""
