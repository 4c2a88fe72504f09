"""Small tables in HTML, for notebooks. What they show comes from strangers' files: every cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

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
