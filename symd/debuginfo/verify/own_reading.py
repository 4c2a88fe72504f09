"""The same debug sections as symd's decoder reads them, in the records that the two readers are compared by."""

from __future__ import annotations

from collections.abc import Iterator

from symd.debuginfo.dwarf import LineColumns, ScopeColumns
from symd.debuginfo.dwarf.constants import Tag
from symd.debuginfo.variables.declared import Declared, declared, type_chain
from symd.debuginfo.variables.dies import Die, DieReader
from symd.debuginfo.variables.list_reader import ListReader
from symd.debuginfo.variables.location_lists import ListEntryBudget
from symd.debuginfo.verify.records import Line, LocationEntry, Scope, Variable
from symd.model.debug_info import NO_PARENT, RowFlag

MOST_ENTRIES = 1 << 26
"""Entries of all location lists of an object."""
_NOT_IS_STMT = 0xFF & ~int(RowFlag.IS_STMT)
_END_SEQUENCE, _IMPLIED = int(RowFlag.END_SEQUENCE), int(RowFlag.IMPLIED)
_TAGS = {tag: name.removeprefix("DW_TAG_") for name, tag in vars(Tag).items() if name.startswith("DW_TAG_")}


def line_tables(lines: LineColumns) -> dict[int, list[Line]]:
    """The rows that stand in every table that has any, by the table's offset in ``.debug_line``."""
    found: dict[int, list[Line]] = {}
    columns = (lines.table_of_row, lines.address, lines.file, lines.line, lines.column, lines.flags)
    for table, address, file, line, column, flags in zip(*(one.tolist() for one in columns), strict=True):
        if flags & _IMPLIED:
            continue
        kept = flags & _NOT_IS_STMT if flags & _END_SEQUENCE else flags
        row = Line(address, lines.files[file] or None, line, column, kept)
        found.setdefault(lines.tables[table], []).append(row)
    return found


def scopes(lines: LineColumns, columns: ScopeColumns) -> list[Scope]:
    """Every scope with its ranges."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(len(columns))]
    held = (columns.range_scope, columns.range_start, columns.range_end)
    for number, start, end in zip(*(one.tolist() for one in held), strict=True):
        ranges[number].append((start, end))
    return [
        Scope(
            None if columns.parent[number] == NO_PARENT else int(columns.parent[number]),
            columns.names[columns.name[number]],
            columns.names[columns.linkage_name[number]],
            bool(columns.inlined[number]),
            lines.files[columns.call_file[number]] or None,
            int(columns.call_line[number]),
            int(columns.call_column[number]),
            tuple(ranges[number]),
        )
        for number in range(len(columns))
    ]


def variables(dies: DieReader) -> Iterator[Variable]:
    """Every variable and parameter of every unit. Raises Malformed and LimitExceeded where a tree or a list cannot be
    followed."""
    for one in declared(dies, ListReader(dies, ListEntryBudget(MOST_ENTRIES))):
        yield Variable(
            one.die.at,
            _tag(one.die),
            dies.name(one.die),
            one.around.at,
            tuple(_type(dies, each) for each in type_chain(dies, one.die)),
            tuple(_locations(one)),
        )


def _tag(die: Die) -> str:
    return _TAGS.get(die.tag) or hex(die.tag)


def _type(dies: DieReader, die: Die) -> str:
    name = dies.own_name(die)
    return f"{_tag(die)} {name}" if name else _tag(die)


def _locations(one: Declared) -> Iterator[LocationEntry]:
    if one.expression is not None:
        yield LocationEntry(None, None, one.expression)
    for entry in one.entries:
        start, end = (None, None) if entry.default else (entry.start, entry.end)
        yield LocationEntry(start, end, entry.expression)
