"""The line table as it was decoded, with the kernel and the function in whose text each row lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.index.schema import RowTable
from symd.model.answers import TextSection
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineTable


def lines(index: Index, path: str | None = None) -> Iterator[LineTable]:
    """A table for each code object that has rows, in module order; only the one at ``path`` when it is given.
    SPIR-V beside machine code has its table only when it is named."""
    return (each.part(0, len(each)) for each in stored_tables(index, path))


def stored_tables(index: Index, path: str | None = None) -> Iterator[StoredTable]:
    """A table for each code object that has rows, in module order, of which nothing is made yet; only the one at
    ``path`` when it is given. SPIR-V beside machine code has its table only when it is named. Raises ObjectNotFound."""
    if path is not None and path not in index.objects:
        raise ObjectNotFound.at(path, index.objects)
    ends = np.cumsum(index.columns.object_rows, dtype=np.int64).tolist()
    for number in index.told_objects(path):
        first = ends[number - 1] if number else 0
        if ends[number] > first:
            yield StoredTable(index, number, first, ends[number])


class StoredTable:
    """The line table of one code object as an index has it. Decoded, its rows take several times as much: whoever sends them makes some
    at a time."""

    def __init__(self, index: Index, number: int, first: int, end: int) -> None:
        self._index = index
        self._first, self._end = first, end
        self.path = index.objects[number]
        self.target = index.targets[number]
        self.text_sections: Sequence[TextSection] = index.sections
        self.strings: Sequence[str] = index.strings

    def __len__(self) -> int:
        return self._end - self._first

    def part(self, start: int, end: int) -> LineTable:
        """Rows ``start`` to ``end``, or to the last."""
        rows = slice(self._first + start, min(self._first + end, self._end))
        index = self._index
        own = RowTable(*(column[rows] for column in index.rows))
        location = _locations(index, own)
        return LineTable(
            path=self.path,
            target=self.target,
            text_section=own.section.astype(np.uint32),
            offset=own.offset.astype(np.uint64),
            kernel=index.locations.kernel[location].astype(np.uint32),
            function=index.locations.function[_roots(index, location)].astype(np.uint32),
            file=own.file.astype(np.uint32),
            line=own.line.astype(np.uint32),
            column=own.column.astype(np.uint32),
            flags=own.flags.astype(np.uint8),
            text_sections=self.text_sections,
            strings=self.strings,
        )


def _locations(index: Index, rows: RowTable) -> Column:
    """An end_sequence row stands after the text that it closes: it belongs to the byte before it.
    A section without bytes has no location at all."""
    offset = rows.offset.astype(np.uint64)
    closing = (rows.flags & RowFlag.END_SEQUENCE) != 0
    size = index.columns.section_size[rows.section].astype(np.uint64)
    inside = np.minimum(offset - (closing & (offset > 0)), np.maximum(size, np.uint64(1)) - np.uint64(1))
    return np.where(size > 0, index.location_numbers(rows.section, inside), np.uint32(0))


def _roots(index: Index, location: Column) -> Column:
    """The location of each one's outermost frame: the function that the code belongs to."""
    parent = index.locations.parent
    root = location.astype(np.int64)
    above = np.flatnonzero(parent[root])
    while len(above):
        root[above] = parent[root[above]]
        above = above[parent[root[above]] != 0]
    return root
