"""A command's output: answers as JSON lines, or as text that is plain unless it goes to a terminal; and messages about
its work on stderr, with a progress bar on a terminal. No file that it writes may be one that it reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from symd.errors import InvalidInput
from symd.model.frame_text import printable as printable  # noqa: PLC0414 - as verbs know it
from symd.model.json import to_json
from symd.model.texts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree


_LINES = 1 << 10
"""Lines that are written together."""
NO = 1
"""The exit code of a command whose answer is no: nothing found, or not all of it."""
MISUSED = 2
"""The exit code where the call or the input is wrong."""
PLAIN_COLUMNS = 100_000
"""The width of what is not written to a terminal: nothing is folded."""


def write_json(value: Any) -> None:
    """One line of JSON."""
    sys.stdout.write(to_json(value) + "\n")


def write_line(text: str = "") -> None:
    """One line of text; control characters of foreign names do not reach the terminal."""
    sys.stdout.write(printable(text) + "\n")


def write_raw(text: str) -> None:
    """Lines in the form of another tool, which programs read as they stand; to a terminal control characters of foreign
    names are escaped."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(text)


def write_build_log(log: str) -> None:
    """A compiler's words on stderr, line by line; control characters do not reach the terminal."""
    for line in log.rstrip("\n").split("\n"):
        sys.stderr.write(printable(line.rstrip("\r").expandtabs()) + "\n")


def is_coloured(stream: TextIO) -> bool:
    """Whether colours go to ``stream``: to terminals, unless $NO_COLOR says no; anywhere where $FORCE_COLOR says so
    (no-color.org, force-color.org; $NO_COLOR wins)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def write_rich(what: RenderableType, columns: int = PLAIN_COLUMNS) -> None:
    """A tree or a table: coloured and folded on a terminal; elsewhere plain, folded at ``columns``, by default one line
    each, however long."""
    from rich.console import Console  # noqa: PLC0415 - 15 ms: slow to import, and most verbs write lines

    coloured = is_coloured(sys.stdout)
    console = Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else columns,
        force_terminal=coloured,
        no_color=not coloured,
        color_system="standard" if coloured else None,  # whatever $TERM says: who asks for colours gets them
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


class Branch(NamedTuple):
    """A line of a tree, words side by side, each plain or with a style, and what is below it, made when it is
    written."""

    words: tuple[str | tuple[str, str], ...]
    below: Iterable[Branch] = ()


def write_tree(tree: Branch) -> None:
    """A tree: coloured and folded on a terminal; elsewhere plain, one line each, however long and however many."""
    if sys.stdout.isatty() or is_coloured(sys.stdout):
        write_rich(_rich(tree))
    else:
        lines: list[str] = []
        _add_lines(tree, "", "", lines)
        _write_lines(lines)


def _write_lines(lines: list[str]) -> None:
    """Write and forget them."""
    some = lines if "".join(lines).isprintable() else [printable(line) for line in lines]
    sys.stdout.write("\n".join([*some, ""]))
    lines.clear()


def _add_lines(tree: Branch, guide: str, below: str, lines: list[str]) -> None:
    """Add the lines of a tree to some that wait until they are many."""
    line = "  ".join([word if isinstance(word, str) else word[0] for word in tree.words])
    lines.append(f"{guide}{line}".rstrip(" "))
    if len(lines) >= _LINES:
        _write_lines(lines)
    branches = iter(tree.below)
    branch = next(branches, None)
    while branch is not None:
        following = next(branches, None)
        if following is None:
            _add_lines(branch, f"{below}└── ", f"{below}    ", lines)
        else:
            _add_lines(branch, f"{below}├── ", f"{below}│   ", lines)
        branch = following


def _rich(branch: Branch) -> Tree:
    from rich.text import Text  # noqa: PLC0415 - 9 ms: slow to import
    from rich.tree import Tree  # noqa: PLC0415 - 15 ms

    words = [(word, "") if isinstance(word, str) else word for word in branch.words]
    tree = Tree(Text("  ").join(Text(printable(text), style) for text, style in words))
    tree.children = [_rich(each) for each in branch.below]
    return tree


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


Show = Callable[[str, int, int], None]
"""Called with what is done, how much of it is, and how much there is in all."""


@contextmanager
def progress_bar() -> Iterator[Show]:
    """A bar on stderr while it lasts, and only on a terminal."""
    from rich.console import Console  # noqa: PLC0415 - 15 ms: slow to import, and few verbs have a bar
    from rich.progress import (  # noqa: PLC0415 - 27 ms
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("opening modules", total=None)

        def show(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        yield show


def check_output_is_not_input(targets: Iterable[Path | str | None], files: Iterable[str | None]) -> None:
    """Raises ``InvalidInput`` where one of ``targets`` is one of the ``files`` that the verb was given: paths, code
    object URIs, "-". None is a file that nobody named."""
    from symd.system.atomic_output import check_no_input  # noqa: PLC0415 - 6 ms: few verbs write files

    check_no_input(
        (each for each in targets if each is not None), (path_of(each) for each in files if each is not None)
    )


def path_of(file: str) -> str:
    """The path in a code object URI; anything else as it is."""
    from symd.formats.containers import uri  # noqa: PLC0415 - 2 ms: few verbs write files

    try:
        return uri.parse(file).path if uri.is_uri(file) else file
    except InvalidInput:
        return file  # its reader reports what is wrong
