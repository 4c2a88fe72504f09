"""A command's output: answers as JSON lines, or as text that is plain unless it goes to a terminal; and messages about
its work on stderr, and how far it is on a terminal. No file that it writes may be one that it reads.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from symd.errors import InvalidInput
from symd.formats.containers import uri
from symd.model.frame_text import printable as printable  # noqa: PLC0414 - as verbs know it
from symd.model.json import to_json
from symd.model.texts import counted
from symd.system.messages import check_no_input, complain

if TYPE_CHECKING:
    from symd.model.sources import PathRule

_PIECES = 1 << 12
"""Pieces of lines that are written together."""
NO = 1
"""The exit code of a command whose answer is no: nothing found, or not all of it."""
MISUSED = 2
"""The exit code where the call or the input is wrong."""
SHIM_MARK = "# symd install-shim"
"""A line of every script that ``symd install-shim`` writes."""
_PERIOD = 0.5
"""Seconds between two words on how far it is."""
_CLEAR = "\r\x1b[K"
"""The sequence that goes to the beginning of the line and clears it."""


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


def value_text(value: float) -> str:
    """A sum of a profile's values, as people read it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


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


def styled(text: str, style: str) -> str:
    """Text in a style on a terminal: a colour, "bold" or "dim", or several of them; "" is none."""
    words = style.split()
    colour = next((word for word in words if word not in ("bold", "dim")), None)
    return click.style(text, colour, bold="bold" in words or None, dim="dim" in words or None) if words else text


Style = Callable[[str, str], str]
"""Gives text a style (``styled``), or leaves it plain."""


def style_of(stream: TextIO) -> Style:
    """How text is styled that goes to ``stream``."""
    return styled if is_coloured(stream) else lambda text, _style: text


class Branch(NamedTuple):
    """A line of a tree, words side by side, each plain or with a style, and what is below it, made when it is
    written: branches, and where there are very many lines with none or one below, pairs of these as they are to be
    written, the second one "" where there is none."""

    words: tuple[str | tuple[str, str], ...]
    below: Iterable[Branch | tuple[str, str]] = ()


def write_tree(tree: Branch) -> None:
    """A tree, one line each, however long and however many: coloured on a terminal, elsewhere plain."""
    pieces: list[str] = []
    _add_lines(tree, "", "", pieces, style_of(sys.stdout))
    _write_pieces(pieces)


def _write_pieces(pieces: list[str]) -> None:
    """Write and forget them."""
    sys.stdout.write("".join(pieces))
    pieces.clear()


def _add_lines(tree: Branch, guide: str, below: str, pieces: list[str], style: Style) -> None:
    """Add the pieces of a tree's lines to some that wait until they are many."""
    words = [
        style(printable(word), "") if isinstance(word, str) else style(printable(word[0]), word[1])
        for word in tree.words
    ]
    pieces += f"{guide}{'  '.join(words)}".rstrip(" "), "\n"
    corner, edge = f"{below}├── ", f"{below}│   "
    end = f"\n{edge}└── "
    branches = iter(tree.below)
    branch = next(branches, None)
    while branch is not None:
        if len(pieces) >= _PIECES:
            _write_pieces(pieces)
        following = next(branches, None)
        if following is None:
            corner, edge = f"{below}└── ", f"{below}    "
            end = f"\n{edge}└── "
        if isinstance(branch, Branch):
            _add_lines(branch, corner, edge, pieces, style)
        else:
            text, under = branch
            pieces += (corner, text, end, under, "\n") if under else (corner, text, "\n")
        branch = following


PRINTED_NOTES = 20
"""Notes that are printed; --json prints all."""


def say_notes(notes: Sequence[str]) -> None:
    """The first notes of a report, and how many more there are."""
    for note in notes[:PRINTED_NOTES]:
        complain(note)
    if len(notes) > PRINTED_NOTES:
        complain(f"and {counted(len(notes) - PRINTED_NOTES, 'more note')} (--json prints all)")


def say_unused_rules(file: str, rules: Iterable[PathRule]) -> None:
    """Say which --map fit none of the source files of ``file``."""
    for rule in rules:
        folder = rule.prefix or "a relative folder"
        complain(f"--map {rule.prefix}={rule.replacement}: no source file of {file} lies in {folder}")


Show = Callable[[str, int, int], None]
"""Called with what is done, how much of it is, and how much there is in all."""


@contextmanager
def progress_bar(begins: str = "opening modules") -> Iterator[Show]:
    """Tells what is done, and how much of it, in a line on stderr while it lasts, and only on a terminal; at first that
    it ``begins``."""
    out, told = sys.stderr, 0.0
    is_terminal = out.isatty() and os.environ.get("TERM") != "dumb"

    def show(stage: str, done: int, total: int) -> None:
        nonlocal told
        if is_terminal and time.monotonic() - told >= _PERIOD:
            told = time.monotonic()
            out.write(f"{_CLEAR}symd: {stage}, {done / max(total, 1):.0%}")
            out.flush()

    show(begins, 0, 0)
    try:
        yield show
    finally:
        if is_terminal:
            out.write(_CLEAR)
            out.flush()


def check_output_is_not_input(targets: Iterable[Path | str | None], files: Iterable[str | None]) -> None:
    """Raises ``InvalidInput`` where one of ``targets`` is one of the ``files`` that the verb was given: paths, code
    object URIs, "-". None is a file that nobody named."""
    check_no_input(
        (each for each in targets if each is not None), (path_of(each) for each in files if each is not None)
    )


def path_of(file: str) -> str:
    """The path in a code object URI; anything else as it is."""
    try:
        return uri.parse_uri(file).path if uri.is_uri(file) else file
    except InvalidInput:
        return file  # its reader reports what is wrong
