"""How a frame is written in the manner of addr2line. Imports nothing: programs that answer one question begin with it.

Nouns for so many things.

Small tables in HTML, for notebooks. What they show comes from strangers' files: every cell is escaped.

Text that callers hand over: any that can be encoded.

Labels of modules: any text that can be encoded. Names of files are bytes, and may be none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

from symd.errors import BadQuery


def frame_text(function: str | None, linkage_name: str | None, file: str | None, line: int, column: int) -> str:
    """FUNCTION at FILE:LINE:COLUMN, as far as it is known."""
    name = function or linkage_name or "(unnamed)"
    if file is None:
        return name
    return f"{name} at {file}:{line}" + (f":{column}" if column else "")


def printable(text: str) -> str:
    """``text`` with everything but spaces and printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def plural(count: int, thing: str, things: str = "") -> str:
    """The noun for so many: ``thing`` for one, else ``things``, which without a word is ``thing`` with an s."""
    return thing if count == 1 else things or f"{thing}s"


def counted(count: int, thing: str, things: str = "") -> str:
    """So many of them: "1 module", "2,197 modules"."""
    return f"{count:,} {plural(count, thing, things)}"


ROWS = 50
"""Rows that are shown of a table."""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> str:
    """A caption and the first rows; None is an empty cell. ``total`` is how many rows there are, where ``rows`` may have fewer."""
    shown = list(islice(rows, ROWS + 1))
    count = total if total is not None else len(shown)
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown[:ROWS])
    more = count - len(shown[:ROWS])
    rest = "" if more <= 0 else f"<p>and {f'{more:,}' if total is not None else 'more'}</p>"
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
    )


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can say it: other bytes of an argument or a file's name are surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_utf8(text: str) -> str:
    """The text, with other bytes of a file's name escaped."""
    return text.encode(errors="backslashreplace").decode()


def checked_text(text: str, what: str, hint: str) -> str:
    """Raises BadQuery for what is no text, or has surrogates, which no encoding has; ``what`` it is and ``hint`` say what to pass."""
    if not isinstance(text, str):
        raise BadQuery(f"{what} is text, not {type(text).__name__}", hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadQuery(
            f"{text[error.start]!r} in {what} is no character", hint="pass text that UTF-8 can say"
        ) from None
    return text


def file_label(name: str) -> str:
    """The label of a file's name: bytes of it that are no UTF-8 are escaped, as where it is printed."""
    return name.encode("utf-8", "backslashreplace").decode()


def checked_label(label: str) -> str:
    """Raises BadQuery for what no encoding has."""
    return checked_text(label, "a label", "leave it out where there is none")
