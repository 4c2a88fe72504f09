"""The line table as it was decoded, with the kernel and the function in whose text each row lies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineTable


def lines(index: Index, path: str | None = None) -> Iterator[LineTable]:
    """A table for each code object that has rows, in module order; only the one at ``path`` when it is given.
    SPIR-V inside a container has its table only when it is named."""
    if path is not None and path not in index.objects:
        raise ObjectNotFound(f"there is no code object {path!r}", hint="symd info FILE lists them")
    owners = index.columns["row_object"]
    places = index.columns["place_object"][index.chosen_places(path)]
    for number in np.unique(places).tolist():
        first, last = np.searchsorted(owners, [number, number + 1]).tolist()
        if last > first:
            yield _table(index, number, slice(first, last))


def _table(index: Index, number: int, rows: slice) -> LineTable:
    columns = {
        name: index.columns[f"row_{name}"][rows] for name in ("place", "offset", "file", "line", "column", "flags")
    }
    location = _locations(index, columns)
    root = _roots(index)
    return LineTable(
        path=index.objects[number],
        target=index.targets[number],
        text_section=columns["place"].astype(np.uint32),
        offset=columns["offset"].astype(np.uint64),
        kernel=index.columns["location_kernel"][location].astype(np.uint32),
        function=index.columns["location_function"][root[location]].astype(np.uint32),
        file=columns["file"].astype(np.uint32),
        line=columns["line"].astype(np.uint32),
        column=columns["column"].astype(np.uint32),
        flags=columns["flags"].astype(np.uint8),
        text_sections=index.places,
        strings=index.strings,
    )


def _locations(index: Index, columns: dict[str, Column]) -> Column:
    """An end_sequence row stands behind the text that it closes: it belongs to the byte before it.
    A section without bytes has no location at all."""
    offset = columns["offset"].astype(np.uint64)
    closing = (columns["flags"] & RowFlag.END_SEQUENCE) != 0
    size = index.columns["place_size"].astype(np.uint64)[columns["place"]]
    inside = np.minimum(offset - (closing & (offset > 0)), np.maximum(size, np.uint64(1)) - np.uint64(1))
    return np.where(size > 0, index.locate(columns["place"], inside), np.uint32(0))


def _roots(index: Index) -> Column:
    """For every location its outermost frame's location: the function that the code belongs to."""
    parent = index.columns["location_parent"].astype(np.int64)
    root = np.arange(len(parent))
    while np.any(parent[root]):
        root = np.where(parent[root] != 0, parent[root], root)
    return root
