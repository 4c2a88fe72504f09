"""The portions of a module with the numbers that code objects, sections, owners, frames and ranges have in its index:
those of a portion count from the end of the ones before it. Strings have their numbers already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symd.index.compressed_columns import CompressedColumn, Differences, Keeper
from symd.index.format import Column, narrow
from symd.index.portions import KeptRanges, Portion, PortionExtent
from symd.index.schema import SCHEMA, FunctionTable, RowTable


def merged(portions: Sequence[Portion], keeper: Keeper) -> Iterator[Portion]:
    """The portions of a module of several, with the numbers that hold for the whole module. Owner 0, nobody, is the
    first portion's alone."""
    before = PortionExtent()
    for each in portions:
        columns = {name: _shifted(name, kept.values(), before) for name, kept in each.columns.items()}
        if before.objects:
            columns |= {name: column[1:] for name, column in columns.items() if SCHEMA[name].entries == "owner"}
        yield each._replace(
            columns={name: keeper.keep(narrow(column)) for name, column in columns.items()},
            ranges=_ranges(each.ranges, before, keeper),
            functions=_functions(each.functions, before, keeper),
            rows=_rows(each.rows, before),
        )
        before = before.and_then(each.extent)


def _shifted(name: str, column: Column, before: PortionExtent) -> Column:
    """A column of the index file."""
    first = {"section_base": before.text, "written_range": before.ranges}.get(name, 0)
    return column.astype(np.uint64) + np.uint64(first) if first else _of(SCHEMA[name].number_of, column, before)


def _of(what: str, column: Column, before: PortionExtent) -> Column:
    """Numbers of these, named as ``Spec.number_of`` names them."""
    counts = {"code object": before.objects, "text section": before.sections, "frame": before.frames}
    if what == "owner":
        return np.where(column > 0, column.astype(np.uint64) + np.uint64(before.owners), np.uint64(0))
    return column.astype(np.uint64) + np.uint64(counts[what]) if counts.get(what) else column


def _ranges(ranges: KeptRanges, before: PortionExtent, keeper: Keeper) -> KeptRanges:
    start, text = ranges.start, np.uint64(before.text)
    return ranges._replace(
        start=CompressedColumn(np.dtype(np.uint64), start.entries, lambda: start.values().astype(np.uint64) + text),
        frame=keeper.keep(_of("frame", ranges.frame.values(), before)),
    )


def _rows(kept: Sequence[Differences], before: PortionExtent) -> list[Differences]:
    rows = dict(zip(RowTable._fields, kept, strict=True))
    return [*{**rows, "section": rows["section"].moved(before.sections)}.values()]


def _functions(kept: Sequence[Differences], before: PortionExtent, keeper: Keeper) -> list[Differences]:
    table = FunctionTable(*(column.values() for column in kept))
    section = table.section.astype(np.int64)
    table = table._replace(
        object=_of("code object", table.object, before),
        owner=_of("owner", table.owner, before),
        symbol=_of("owner", table.symbol, before),
        section=np.where(section > 0, section + before.sections, 0),
    )
    return [Differences(column, keeper) for column in table]
