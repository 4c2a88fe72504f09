"""Rows of line tables, as finished text: a module has hundreds of thousands, so each string is encoded once and the rows
are put together from pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symd.model.debug_info import RowFlag
from symd.model.json import to_json
from symd.model.line_tables import LineTable

ROWS_PER_TEXT = 10_000
"""Rows turned into text at a time."""
_PUBLISHED_FLAGS = int(RowFlag.IS_STMT | RowFlag.END_SEQUENCE | RowFlag.PROLOGUE_END)
_FLAGS_JSON = {
    flags: f'"is_stmt": {to_json(bool(flags & RowFlag.IS_STMT))}, "end_sequence": {to_json(bool(flags & RowFlag.END_SEQUENCE))}'
    + (', "prologue_end": true' if flags & RowFlag.PROLOGUE_END else "")
    for flags in range(_PUBLISHED_FLAGS + 1)
}


def row_lines(table: LineTable) -> Iterator[str]:
    """The rows in table order, one object a line, ``ROWS_PER_TEXT`` lines in one text; ``text`` is a member only where the
    table has the text of its lines, ``prologue_end`` only where a row has that mark."""
    strings = [to_json(text or None) for text in table.strings]
    start = f'{{"object": {to_json(table.path)}, "target": {to_json(table.target)}, '
    sections = [_section_json(text.section, text.section_index) for text in table.text_sections]
    starts = [text.address for text in table.text_sections]
    texts = [""] if table.text is None else [f', "text": {string}' for string in strings]
    for rows in row_chunks(table):
        yield "".join(
            f'{start}{sections[section]}, "section_offset": {offset}, "address": {starts[section] + offset}, '
            f'"kernel": {strings[kernel]}, "function": {strings[function]}, "file": {strings[file]}, "line": {line}, '
            f'"column": {column}, {_FLAGS_JSON[flags & _PUBLISHED_FLAGS]}{texts[text]}}}\n'
            for section, offset, kernel, function, file, line, column, flags, text in rows
        )


def _section_json(section: str | None, index: int) -> str:
    number = "null" if section is None else str(index)
    return f'"section": {to_json(section)}, "section_index": {number}'


def row_chunks(table: LineTable) -> Iterator[Iterator[Sequence[int]]]:
    """The columns of a table as rows of plain ints, ``ROWS_PER_TEXT`` at a time: text section, offset, kernel, function, file, line,
    column, flags, text (0 where the table has no texts)."""
    columns = (
        table.text_section,
        table.offset,
        table.kernel,
        table.function,
        table.file,
        table.line,
        table.column,
        table.flags,
        np.zeros(len(table), np.uint32) if table.text is None else table.text,
    )
    for start in range(0, len(table), ROWS_PER_TEXT):
        yield zip(*(column[start : start + ROWS_PER_TEXT].tolist() for column in columns), strict=True)
