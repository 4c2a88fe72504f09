"""The examples of a help, folded to the width of the terminal so that a shell takes them as they are shown.

Where the pages are that a help names: a wheel has them in the package, a clone beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from symd.cli.options import EXAMPLE
from symd.errors import Unavailable

_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+\s*""")
"""A word of a shell's command line, quotes and all, with the space behind it."""
_FURTHER = 4
"""Columns by which the rest of a command line is indented further than its beginning."""


class ExampleFormatter(click.HelpFormatter):
    """click's, which keeps the lines of examples however long they are."""

    def write_text(self, text: str) -> None:
        """Called by click for the paragraphs of a help."""
        before, found, examples = text.partition(EXAMPLE)
        room = self.width - self.current_indent
        lines = [each for line in examples.split("\n") for each in folded(line, room)]
        super().write_text(before + found + "\n".join(lines))


def folded(line: str, width: int) -> list[str]:
    r"""A command line as lines of so many columns, each but the last with a ``\`` behind it; words are kept whole."""
    indent = line[: len(line) - len(line.lstrip())]
    found, room = [indent], width
    words = _with_values(_WORD.findall(line))
    for number, word in enumerate(words):
        is_last = number == len(words) - 1
        if found[-1].strip() and len(found[-1]) + len(word.rstrip()) > room - (0 if is_last else len(" \\")):
            found[-1] = f"{found[-1].rstrip()} \\"
            found.append(indent + " " * _FURTHER)
        found[-1] += word
    return found


def _with_values(words: Sequence[str]) -> list[str]:
    """Words, with what follows an option, its value as a rule, behind it."""
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("-") and found[-1].count(" ") == 1 and not word.startswith(("-", "|")):
            found[-1] += word
        else:
            found.append(word)
    return found


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
