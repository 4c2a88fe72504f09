"""The algebra of location tables: what some answers need of one, and several as one.

In every table entry 0 is "nothing known", a parent of 0 means that there is none, and string 0 is "absent"; both
functions keep that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Locations, Reason
from symd.model.columns import U32

Flags = NDArray[np.bool_]


def subset(table: Locations, numbers: U32) -> tuple[Locations, U32]:
    """(entry 0, the locations ``numbers`` and all that enclose them, in the order of ``table`` and with no other strings
    than theirs; for each entry of ``table`` its number there, 0 for those that are left out).

    ``numbers`` may repeat and need no order: it can be the ``location`` column of a batch, and the second result taken
    at it is that column for the first."""
    used = _used(table, numbers)
    kept = np.flatnonzero(used)
    renumbered = _numbers_among(used)
    texts = [column[kept] for column in (table.kernel, table.function, table.linkage_name, table.file)]
    strings, (kernel, function, linkage_name, file) = _strings_of(table.strings, texts)
    part = Locations(
        reason=table.reason[kept],
        kernel=kernel,
        function=function,
        linkage_name=linkage_name,
        file=file,
        line=table.line[kept],
        column=table.column[kept],
        inlined=table.inlined[kept],
        parent=renumbered[table.parent[kept]],
        strings=strings,
        start_line=None if table.start_line is None else table.start_line[kept],
    )
    return part, renumbered


def used_strings(table: Locations, numbers: U32) -> U32:
    """The numbers of the strings that ``subset`` has."""
    kept = np.flatnonzero(_used(table, numbers))
    used = np.zeros(len(table.strings), np.bool_)
    for column in (table.kernel, table.function, table.linkage_name, table.file):
        used[column[kept]] = True
    return np.flatnonzero(used).astype(np.uint32)


def _used(table: Locations, numbers: U32) -> Flags:
    """Of each entry of ``table`` whether it is one that ``subset`` has."""
    used = np.zeros(len(table), np.bool_)
    used[0] = True
    used[numbers] = True
    outer = table.parent[used]
    while len(outer):
        outer = outer[~used[outer]]
        used[outer] = True
        outer = table.parent[outer]
    return used


def concat(tables: Sequence[Locations]) -> tuple[Locations, list[int]]:
    """(the tables one after another, each string once; for each table the number that its entry 0 has there).

    A location that several tables have is there several times, and so is "nothing known"."""
    offsets = [0, *accumulate(map(len, tables))]
    strings: dict[str, int] = {"": 0}
    parts = [
        (table, np.uint32(offset), _interned(strings, table.strings))
        for table, offset in zip(tables, offsets, strict=False)
    ]
    whole = Locations(
        reason=np.concatenate([table.reason for table in tables]),
        kernel=np.concatenate([text[table.kernel] for table, _, text in parts]),
        function=np.concatenate([text[table.function] for table, _, text in parts]),
        linkage_name=np.concatenate([text[table.linkage_name] for table, _, text in parts]),
        file=np.concatenate([text[table.file] for table, _, text in parts]),
        line=np.concatenate([table.line for table in tables]),
        column=np.concatenate([table.column for table in tables]),
        inlined=np.concatenate([table.inlined for table in tables]),
        parent=np.concatenate([_shifted(table.parent, offset) for table, offset, _ in parts]),
        strings=list(strings),
        start_line=np.concatenate([table.start_lines for table in tables]),
    )
    return whole, offsets[:-1]


def of_reasons() -> Locations:
    """A table whose entries carry a reason alone, each under its own number."""
    count = max(Reason) + 1
    nothing, flags = np.zeros(count, np.uint32), np.zeros(count, np.uint8)
    return Locations(
        np.arange(count, dtype=np.uint8), nothing, nothing, nothing, nothing, nothing, nothing, flags, nothing, [""]
    )


def _strings_of(strings: Sequence[str], columns: Sequence[U32]) -> tuple[list[str], list[U32]]:
    """(string 0 and those that ``columns`` number, the columns renumbered)."""
    used = np.zeros(len(strings), np.bool_)
    used[0] = True
    for column in columns:
        used[column] = True
    renumbered = _numbers_among(used)
    return [strings[number] for number in np.flatnonzero(used).tolist()], [renumbered[column] for column in columns]


def _numbers_among(used: Flags) -> U32:
    """For each entry that is used its number among these, 0 for the others."""
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(used), np.uint32)
    renumbered[numbers] = np.arange(len(numbers), dtype=np.uint32)
    return renumbered


def _interned(known: dict[str, int], strings: Sequence[str]) -> U32:
    """The numbers of ``strings`` among those that are ``known``; new ones become known."""
    return np.array([known.setdefault(text, len(known)) for text in strings], np.uint32)


def _shifted(parent: U32, by: np.uint32) -> U32:
    """Parents in a table that now begins at ``by``; 0 stays "none"."""
    return np.where(parent, parent + by, np.uint32(0)).astype(np.uint32, copy=False)
