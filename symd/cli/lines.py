"""``symd lines FILE``: the decoded line table, in table order."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from symd.cli.options import debug_option, example, file_verb, object_option
from symd.cli.output import printable, write_line
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.module import kernel_names, open_module
from symd.errors import NoDebugData
from symd.model.compile_advice import compile_advice
from symd.model.debug_info import RowFlag
from symd.model.json.answers import row_chunks, row_lines
from symd.model.line_tables import LineLevel, LineTable


@click.command(
    "lines",
    epilog=example(
        "symd lines program.bin\nsymd lines --json program.bin | jq 'select(.is_stmt)'\nsymd lines --kernel vadd program.bin\n"
        "symd lines --level ptx saxpy.cubin"
    ),
)
@file_verb
@object_option
@debug_option
@click.option(
    "--kernel",
    metavar="NAME",
    help="Show only the rows of this kernel; NAME can be anything that symd symbolize accepts.",
)
@click.option(
    "--level",
    type=click.Choice([level.value for level in LineLevel]),
    default=LineLevel.SOURCE.value,
    show_default=True,
    help="Show lines of the source, or of the PTX that an NVIDIA code object was compiled from, with their text.",
)
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    kernel: str | None,
    level: str,
) -> None:
    """Print the decoded line table of FILE, one row per line.

    FILE can be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. Exit code 1: FILE has no
    line table, or no kernel has that name.
    """
    chosen = LineLevel(level)
    with open_module(file, server, limits, debug, path) as module:
        tables = module.symbolizer.lines(module.digest, path, chosen)
        if kernel is not None:
            names = kernel_names(module.symbolizer, module.digest, kernel, path)
            tables = (table.of_kernels(names) for table in tables)
        tables = (table for table in tables if len(table))
        number = -1
        for number, table in enumerate(tables):
            if number and not as_json:
                write_line()
            for piece in row_lines(table) if as_json else text_rows(table, debug_of(module, table)):
                sys.stdout.write(piece)
        if number < 0:
            raise _nothing(module, path, chosen, kernel)


def _nothing(module: OpenModule, path: str | None, level: LineLevel, kernel: str | None) -> NoDebugData:
    if kernel is not None and level is LineLevel.SOURCE:
        hint = "symd lines without --kernel shows what there is"
        return NoDebugData(f"no row of a line table lies in kernel {kernel}", where=module.name, hint=hint)
    if level is LineLevel.PTX:
        return NoDebugData(
            "no PTX lines",
            where=module.name,
            hint="only code objects of NVIDIA's compilers have them, built with -lineinfo or -G",
        )
    summary = module.summary()
    if not summary.objects:
        return NoDebugData("there is no code object in it", where=module.name, hint="; ".join(summary.notes))
    objects = [item for item in summary.objects if path in (None, item.path)]
    kinds = ", ".join(sorted({item.debug for item in objects}) or ["none"])
    if objects and all(item.debug != "none" and not summary.unread(item.path) for item in objects):
        return NoDebugData(
            f"no row of a line table is about its code (debug data: {kinds})",
            where=module.name,
            hint="symd info shows what code there is",
        )
    return NoDebugData(
        f"no line table (debug data: {kinds})",
        where=module.name,
        hint=f"{'; '.join(compile_advice(summary.objects, path))}; symd info shows why",
    )


def debug_of(module: OpenModule, table: LineTable) -> str:
    """Which debug data a table is from."""
    return next((item.debug for item in module.summary().objects if item.path == table.path), "")


def text_rows(table: LineTable, debug: str = "") -> Iterator[str]:
    """The rows as a table, with a heading wherever another section or kernel begins; ``debug`` names the debug data."""
    strings = [printable(text.replace("\t", " ")) for text in table.strings]
    last: tuple[int, int] | None = None
    for rows in row_chunks(table):
        piece = []
        for section, offset, kernel, _, file, line, column, flags, text in rows:
            if (section, kernel) != last:
                piece.append("\n" if last else "")
                last = section, kernel
                piece.append(_heading(table, section, strings[kernel], debug))
            address = table.text_sections[section].address + offset
            position = f"{line}:{column}" if column else f"{line}"
            words = f"{address:#012x}  {position:<10}  {_flag_words(flags):<20}  {strings[file]}  {strings[text]}"
            piece.append(f"{words.rstrip()}\n")
        yield "".join(piece)


def _heading(table: LineTable, number: int, kernel: str, debug: str) -> str:
    section = table.text_sections[number].section
    parts = [table.path, table.target or "", debug, section or "", f"kernel {kernel}" if kernel else ""]
    title = printable("  ".join(part for part in parts if part)) or "module"
    text = "  text" if table.text is not None else ""
    return f"{title}\n{'address':<12}  {'line:col':<10}  {'flags':<20}  file{text}\n"


def _flag_words(flags: int) -> str:
    if flags & RowFlag.END_SEQUENCE:
        return "end_sequence"
    return " ".join(word for flag, word in _SHOWN if flags & flag)


_SHOWN = ((RowFlag.IS_STMT, "is_stmt"), (RowFlag.PROLOGUE_END, "prologue_end"))
