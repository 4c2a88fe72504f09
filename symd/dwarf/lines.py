"""All line tables of an object -> one set of columns, with one list of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.budget import DebugBudget
from symd.config import DEFAULT_LIMITS, Limits
from symd.dwarf import line_program
from symd.dwarf.bulk_read import Positions
from symd.dwarf.columns import LineColumns, first_rows, look_up_files
from symd.dwarf.constants import Lne
from symd.dwarf.line_header import LineHeader, ProgramParameters, read_headers
from symd.dwarf.paths import FilePaths
from symd.dwarf.row_table import ProgramGroup, RowTable
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.strings import StringReader
from symd.dwarf.units import Unit, Units, read_units
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed
from symd.model.columns import U32, U64

_GROUP_BYTES = 256 << 10
"""Bytes of programs that are run together: what is made of them fits the caches."""
_INTERPRETED_BYTES = 500
"""Programs of the same parameters that are together this short run faster one instruction at a time, of which each is a step."""
_BYTES_A_STEP = 4
"""Bytes of programs that are as much work as a step where they are run together."""
_GROUP_STEPS = 1000
"""What that takes besides, however few they are."""


def read_lines(
    sections: DebugSections,
    units: Units | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> LineColumns:
    """Decode every line table of ``.debug_line``, each once, whether a unit of ``.debug_info`` refers to it or not.

    ``units`` is ``read_units(sections)``, read here when it is not given; it supplies compilation directories (the
    first unit that refers to a table decides). DWARF 2 to 5 (6.2), 32- and 64-bit, all opcodes, NVIDIA's inline
    extension.

    A table whose header or program contradicts the format is left out whole, and a sequence without an end is left
    out, each with a warning; a table whose length leads out of the section ends the walk. Raises Malformed when there
    are tables and not one of them can be read, LimitExceeded where they list more files than ``limits`` allow, or have
    more rows or instructions than ``sections.budget`` has left.
    """
    budget = sections.budget
    units = read_units(sections) if units is None else units
    strings = StringReader(sections)
    warnings = Warnings()
    headers = list(read_headers(sections.lines, strings, units.skipped_tables, warnings, limits, budget))
    rows = RowTable()
    parts = list(run_programs(sections.lines, headers, rows, budget))
    for part in parts:
        _warn(sections.lines.name, part, headers, warnings)
    refused = {part.numbers[number] for part in parts for number in part.malformed}
    if warnings and len(refused) == len(headers):
        raise Malformed(f"no line table can be read: {warnings.all()[0]}", where=sections.lines.name)
    file_maps, files = number_files(FilePaths(sections.lines.name, limits), headers, units.units)
    return assemble(strings, headers, rows, parts, file_maps, files, warnings)


def _groups(headers: Sequence[LineHeader]) -> list[list[int]]:
    """Numbers of headers that are run together: of the same parameters, and not more than fit the caches with what is
    made of them."""
    groups: list[list[int]] = []
    growing: dict[ProgramParameters, tuple[list[int], int]] = {}
    for number, header in enumerate(headers):
        length = header.end - header.program
        group, size = growing.get(header.parameters, ([], 0))
        if not group or size + length > _GROUP_BYTES:
            group, size = [], 0
            groups.append(group)
        group.append(number)
        growing[header.parameters] = group, size + length
    return groups


def run_programs(
    section: DebugSection, headers: Sequence[LineHeader], rows: RowTable, budget: DebugBudget | None
) -> Iterator[ProgramGroup]:
    """Run all programs into ``rows``."""
    for part in _parts(section, headers, rows, budget):
        if budget is not None:
            budget.count(len(part), section.name)
        yield part


def _parts(
    section: DebugSection, headers: Sequence[LineHeader], rows: RowTable, budget: DebugBudget | None
) -> Iterator[ProgramGroup]:
    total, done = sum(header.end - header.program for header in headers), 0
    for group in _groups(headers):
        size = sum(headers[number].end - headers[number].program for number in group)
        done += size
        together = line_program.is_regular(headers[group[0]].parameters) and size > _INTERPRETED_BYTES
        if budget is not None:
            budget.spend(_GROUP_STEPS + size // _BYTES_A_STEP if together else size, section.name)
            if size > _GROUP_BYTES:
                budget.check(_most_rows(section, headers[group[0]]), section.name)
        share = done / total if total else 1
        if together:
            yield rows.add(line_program.run(section, [headers[number] for number in group]), group, share)
        else:
            from symd.dwarf import line_interpreter  # noqa: PLC0415 - large objects do not need it

            for number in group:
                yield rows.add(line_interpreter.run(section, headers[number]), [number], share)


def _most_rows(section: DebugSection, header: LineHeader) -> int:
    """Rows that a program has at the most: in each instruction that adds one stands a special opcode, or the byte 1
    (DW_LNS_copy, DW_LNE_end_sequence); before each that NVIDIA's assembler left out, a call."""
    program = np.frombuffer(section.data, np.uint8)[header.program : header.end]
    added = (program >= header.parameters.opcode_base) | (program == 1) | (program == Lne.DW_LNE_NVIDIA_inlined_call)
    return int(np.count_nonzero(added))


def _warn(section: str, part: ProgramGroup, headers: Sequence[LineHeader], warnings: Warnings) -> None:
    for number, (at, why) in part.malformed.items():
        header = headers[part.numbers[number]]
        warnings.add(f"{section}+{header.offset:#x}: line table left out: {section}+{at:#x}: {why}")
    for number in part.open:
        at = headers[part.numbers[number]].offset
        warnings.add(f"{section}+{at:#x}: the last sequence has no end and is left out")


def number_files(
    full: FilePaths, headers: Sequence[LineHeader], units: Sequence[Unit]
) -> tuple[dict[int, U32], tuple[str, ...]]:
    """Every table's map from file register to file number, and the files' full paths."""
    comp_dirs: dict[int, bytes] = {}
    for unit in units:
        if unit.stmt_list is not None:
            comp_dirs.setdefault(unit.stmt_list, unit.comp_dir)
    numbers: dict[bytes, int] = {b"": 0}
    maps = {}
    for header in headers:
        paths = full.of(header, comp_dirs.get(header.offset, b""))
        maps[header.offset] = np.array([numbers.setdefault(path, len(numbers)) for path in paths], np.uint32)
    return maps, tuple(path.decode("utf-8", "replace") for path in numbers)


def assemble(
    strings: StringReader,
    headers: Sequence[LineHeader],
    rows: RowTable,
    parts: Sequence[ProgramGroup],
    file_maps: Mapping[int, U32],
    files: tuple[str, ...],
    warnings: Warnings,
) -> LineColumns:
    """The rows in the order of their tables, with numbers that count over the whole object."""
    for part in parts:
        maps = [file_maps[headers[number].offset] for number in part.numbers]
        register = rows.column("file")[part.rows]
        register[:] = look_up_files(maps, part.program_of_rows(), register)
    ends, table, order = _sequences(parts)
    lines = LineColumns(
        address=rows.column("address")[order],
        file=rows.column("file")[order],
        line=rows.column("line")[order],
        column=rows.column("column")[order],
        flags=rows.column("flags")[order],
        ends=ends,
        table=table,
        files=files,
        tables=tuple(header.offset for header in headers),
        file_maps=file_maps,
        warnings=warnings.all(),
    )
    if all(part.context is None for part in parts):
        return lines
    context = _concatenated([_or_zeros(part.context, len(part)) for part in parts], np.uint64)[order]
    name = _concatenated([_or_zeros(part.name, len(part)) for part in parts], np.uint64)[order]
    from symd.dwarf import nvidia_calls  # noqa: PLC0415 - only for NVIDIA's images

    calls, names = nvidia_calls.resolved(lines, context, name, strings, headers)
    return replace(lines, calls=calls, names=names)


def _sequences(parts: Sequence[ProgramGroup]) -> tuple[Positions, U32, Positions | slice]:
    """For each sequence the row number after it and its table, in the order of the tables; and the order of the rows."""
    if len(parts) == 1:
        (part,) = parts
        return part.ends, np.array(part.numbers, np.uint32)[part.program], slice(None)
    length = _concatenated([part.ends - first_rows(part.ends) for part in parts], np.int64)
    table = _concatenated([np.array(part.numbers, np.uint32)[part.program] for part in parts], np.uint32)
    if (table[1:] >= table[:-1]).all():
        return np.cumsum(length), table, slice(None)
    order = np.argsort(table, kind="stable")
    rows = np.argsort(np.repeat(table, length), kind="stable")
    return np.cumsum(length[order]), table[order], rows


def _or_zeros(column: U64 | None, count: int) -> U64:
    return np.zeros(count, np.uint64) if column is None else column


def _concatenated(columns: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns) if columns else np.zeros(0, dtype)
