"""``symd lines FILE``: the decoded line table, in table order."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click
import numpy as np

from symd.cli.options import debug_option, example, file_verb, object_option
from symd.cli.output import printable, to_json, write_line
from symd.cli.subject import Subject, opened
from symd.config import Limits
from symd.errors import NoDebugData
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineLevel, LineTable

CHUNK = 10_000
"""Rows turned into text at a time."""


@click.command(
    "lines",
    epilog=example(
        "symd lines program.bin\nsymd lines --json program.bin | jq 'select(.is_stmt)'\nsymd lines --level ptx saxpy.cubin"
    ),
)
@file_verb
@object_option
@debug_option
@click.option(
    "--level",
    type=click.Choice([level.value for level in LineLevel]),
    default=LineLevel.SOURCE.value,
    show_default=True,
    help="Lines of the source, or of the PTX that an NVIDIA code object was compiled through, with their text.",
)
def command(
    file: str, server: str | None, limits: Limits, as_json: bool, path: str | None, debug: str | None, level: str
) -> None:
    """Print the line table of FILE as it was decoded, one row a line.

    FILE may be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. A file without any line table ends with exit code 1.
    """
    render = json_rows if as_json else text_rows
    chosen = LineLevel(level)
    with opened(file, server, limits, debug) as subject:
        tables = (table for table in subject.symbolizer.lines(subject.digest, path, chosen) if len(table))
        number = -1
        for number, table in enumerate(tables):
            if number and not as_json:
                write_line()
            for piece in render(table):
                sys.stdout.write(piece)
        if number < 0:
            raise _nothing(subject, path, chosen)


def _nothing(subject: Subject, path: str | None, level: LineLevel) -> NoDebugData:
    if level is LineLevel.PTX:
        return NoDebugData(
            "no PTX lines",
            where=subject.name,
            hint="only code objects of NVIDIA's compilers have them, built with -lineinfo or -G",
        )
    objects = [item for item in subject.summary().objects if path in (None, item.path)]
    kinds = sorted({item.debug for item in objects}) or ["none"]
    return NoDebugData(
        f"no line table (debug data: {', '.join(kinds)})",
        where=subject.name,
        hint="compile with -g; symd info shows why",
    )


def json_rows(table: LineTable) -> Iterator[str]:
    """The rows as JSON lines, many in one text."""
    strings = [to_json(text or None) for text in table.strings]
    start = f'{{"object": {to_json(table.path)}, "target": {to_json(table.target)}, '
    places = [_place_json(place.section, place.section_index) for place in table.text_sections]
    texts = [""] if table.text is None else [f', "text": {string}' for string in strings]
    for rows in _chunks(table):
        yield "".join(
            f'{start}{places[place]}, "section_offset": {offset}, "address": {table.text_sections[place].address + offset}, '
            f'"kernel": {strings[kernel]}, "function": {strings[function]}, "file": {strings[file]}, "line": {line}, '
            f'"column": {column}, {_FLAGS_JSON[flags & _SHOWN]}{texts[text]}}}\n'
            for place, offset, kernel, function, file, line, column, flags, text in rows
        )


def _place_json(section: str | None, index: int) -> str:
    number = "null" if section is None else str(index)
    return f'"section": {to_json(section)}, "section_index": {number}'


_SHOWN = RowFlag.IS_STMT | RowFlag.END_SEQUENCE
_FLAGS_JSON = {
    flags: f'"is_stmt": {to_json(bool(flags & RowFlag.IS_STMT))}, "end_sequence": {to_json(bool(flags & RowFlag.END_SEQUENCE))}'
    for flags in (0, 1, 4, 5)
}


def text_rows(table: LineTable) -> Iterator[str]:
    """The rows as a table, with a heading wherever another section or kernel begins."""
    strings = [printable(text.replace("\t", " ")) for text in table.strings]
    last: tuple[int, int] | None = None
    for rows in _chunks(table):
        piece = []
        for place, offset, kernel, _, file, line, column, flags, text in rows:
            if (place, kernel) != last:
                piece.append("\n" if last else "")
                last = place, kernel
                piece.append(_heading(table, place, strings[kernel]))
            address = table.text_sections[place].address + offset
            spot = f"{line}:{column}" if column else f"{line}"
            words = f"{address:#012x}  {spot:<10}  {_flag_words(flags):<12}  {strings[file]}  {strings[text]}"
            piece.append(f"{words.rstrip()}\n")
        yield "".join(piece)


def _heading(table: LineTable, place: int, kernel: str) -> str:
    section = table.text_sections[place].section
    parts = [table.path, table.target or "", section or "", f"kernel {kernel}" if kernel else ""]
    title = printable("  ".join(part for part in parts if part)) or "module"
    text = "  text" if table.text is not None else ""
    return f"{title}\n{'address':<12}  {'line:col':<10}  {'flags':<12}  file{text}\n"


def _flag_words(flags: int) -> str:
    if flags & RowFlag.END_SEQUENCE:
        return "end_sequence"
    return "is_stmt" if flags & RowFlag.IS_STMT else ""


def _chunks(table: LineTable) -> Iterator[Iterator[Sequence[int]]]:
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
    for start in range(0, len(table), CHUNK):
        yield zip(*(column[start : start + CHUNK].tolist() for column in columns), strict=True)
