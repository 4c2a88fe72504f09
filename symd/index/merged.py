"""The portions of a module with the numbers that strings, owners, frames and whatever else is counted have in its
index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symd.index.compressed_columns import CompressedColumn, Differences, Keeper
from symd.index.distinct import grouped
from symd.index.format import Column, narrow
from symd.index.locations import NO_LINE, base_lines
from symd.index.portions import KeptRanges, Portion, PortionExtent
from symd.index.schema import SCHEMA, FunctionTable, RowTable
from symd.model.columns import I64, U32


def merged(portions: Sequence[Portion], string: U32, keeper: Keeper) -> Iterator[Portion]:
    """The portions of a module of several, with the numbers that hold for the whole module. ``string`` has the
    number in the module of each string. Frames of nobody come first, then those of scopes, then those of symbols;
    owners are in the same order."""
    scopes = sum(each.extent.scopes for each in portions)
    bounds = [_bounds(each) for each in portions]
    nobody = _NoOwner(portions, [first for first, _, _ in bounds], string)
    next_scope = len(nobody.line)
    next_symbol = next_scope + sum(stop - first for first, stop, _ in bounds)
    before = PortionExtent()
    for each, own, (first, stop, end) in zip(portions, nobody.number, bounds, strict=True):
        of_frames = np.arange(next_scope, next_scope + stop - first), np.arange(next_symbol, next_symbol + end - stop)
        numbers = _Numbers(each.extent, before, scopes, string)
        frames = {name: numbers.final(name, each.layers[name][0].values()) for name in nobody.columns}
        order = np.lexsort([frames[name][first:] for name in ("frame_file", "frame_kernel", "frame_owner")])
        numbers.frame = np.append(own, np.empty(end - first, np.int64))
        numbers.frame[first + order] = np.concatenate(of_frames)
        layers = {}
        for name, column in frames.items():
            of_nobody = np.zeros(0, np.uint8) if before.objects else nobody.columns[name]
            layers[name] = of_nobody, *np.split(column[first:][order], [stop - first])
        for name, (kept,) in each.layers.items():
            if name in frames:
                continue
            column = numbers.final(name, kept.values())
            cuts = np.split(column, [1, 1 + each.extent.scopes])
            layers[name] = cuts[0][: 0 if before.objects else 1], *cuts[1:]
        lift = np.append(
            each.layers["frame_line"][0].values()[:first] - nobody.line[own], np.zeros(end - first, np.uint32)
        )
        yield each._replace(
            columns=_columns(each, numbers, keeper),
            layers={name: [keeper.keep(narrow(part)) for part in parts] for name, parts in layers.items()},
            ranges=_ranges(each.ranges, numbers, lift, keeper),
            functions=_functions(each, numbers, keeper),
            rows=_rows(each, numbers, keeper),
        )
        before = before.and_then(each.extent)
        next_scope, next_symbol = next_scope + stop - first, next_symbol + end - stop


def _bounds(portion: Portion) -> tuple[int, int, int]:
    """Where the frames of scopes begin and end, and those of symbols end; they are in the order of their owners."""
    owner = portion.layers["frame_owner"][0].values()
    first, stop = np.searchsorted(owner, [1, portion.extent.scopes + 1]).tolist()
    return first, stop, len(owner)


class _NoOwner:
    """The frames of nobody's code, which portions have in common, of so many each: ``number`` of each of a portion's,
    and their columns."""

    def __init__(self, portions: Sequence[Portion], counts: Sequence[int], string: U32) -> None:
        pairs = [*zip(portions, counts, strict=True)]
        kernel, file = (
            string[np.concatenate([each.layers[name][0].values()[:count] for each, count in pairs])]
            for name in ("frame_kernel", "frame_file")
        )
        groups = grouped(kernel, file)
        self.line: U32 = base_lines(np.concatenate([_lowest(each)[:count] for each, count in pairs]), groups)
        self.number = np.split(groups.number, np.cumsum(counts)[:-1])
        self.columns: dict[str, Column] = {
            "frame_owner": np.zeros(len(self.line), np.uint8),
            "frame_kernel": kernel[groups.sample],
            "frame_file": file[groups.sample],
            "frame_line": self.line,
        }


def _lowest(portion: Portion) -> U32:
    """``frame_line``; NO_LINE where a frame has none."""
    ranges, columns = portion.ranges, portion.columns
    base = portion.layers["frame_line"][0].values().astype(np.uint32)
    frame, run = ranges.frame.values(), ranges.run.values()
    has_line = np.zeros(len(base), np.bool_)
    has_line[columns["written_frame"].values()[columns["written_line"].values() > 0]] = True
    if len(run):
        has_line[frame[np.maximum.reduceat(ranges.above.values(), run) > 0]] = True
    return np.where(has_line, base, np.uint32(NO_LINE))


class _Numbers:
    """What the numbers of a portion are in its module, which has so many ``scopes``; ``frame`` those of its frames."""

    frame: I64

    def __init__(self, own: PortionExtent, before: PortionExtent, scopes: int, string: U32) -> None:
        self._own, self._string, self._scopes = own, string, scopes
        self.before = before

    def final(self, name: str, column: Column) -> Column:
        """A column of the index file."""
        first = {"section_base": self.before.text, "written_range": self.before.ranges}.get(name, 0)
        return column.astype(np.uint64) + np.uint64(first) if first else self.of(SCHEMA[name].number_of, column)

    def of(self, what: str, column: Column) -> Column:
        """Numbers of these, named as ``Spec.number_of`` names them."""
        if what == "string":
            return self._string[column]
        if what == "frame":
            return self.frame[column]
        if what == "owner":
            return self._owner(column)
        first = {"code object": self.before.objects, "text section": self.before.sections}.get(what, 0)
        return column.astype(np.uint64) + np.uint64(first) if first else column

    def _owner(self, owner: Column) -> I64:
        """Nobody, scopes, symbols."""
        owner = owner.astype(np.int64)
        symbols = self._scopes - self._own.scopes + self.before.symbols
        moved = owner + np.where(owner > self._own.scopes, symbols, self.before.scopes)
        return np.where(owner > 0, moved, 0)


def _columns(portion: Portion, numbers: _Numbers, keeper: Keeper) -> dict[str, CompressedColumn]:
    found = {name: numbers.final(name, kept.values()) for name, kept in portion.columns.items()}
    order = np.lexsort((found["file_name"], found["file_object"]))
    found["file_name"] = found["file_name"][order]
    return {name: keeper.keep(narrow(column)) for name, column in found.items()}


def _ranges(ranges: KeptRanges, numbers: _Numbers, lift: U32, keeper: Keeper) -> KeptRanges:
    """``lift`` is how far each frame's lines are above what they were."""
    text, start = np.uint64(numbers.before.text), ranges.start
    frame, above = ranges.frame.values(), ranges.above
    if lift.any():
        lines = above.values().astype(np.uint32)
        lines += np.repeat(lift[frame], np.diff(ranges.run.values(), append=above.entries)) * (lines > 0)
        above = keeper.keep(narrow(lines))
    return ranges._replace(
        start=CompressedColumn(np.dtype(np.uint64), start.entries, lambda: start.values().astype(np.uint64) + text),
        frame=keeper.keep(narrow(numbers.frame[frame])),
        above=above,
    )


def _rows(portion: Portion, numbers: _Numbers, keeper: Keeper) -> list[Differences]:
    rows = dict(zip(RowTable._fields, portion.rows, strict=True))
    rows["section"] = rows["section"].moved(numbers.before.sections)
    rows["file"] = Differences(numbers.of("string", rows["file"].values()), keeper)
    return [*rows.values()]


def _functions(portion: Portion, numbers: _Numbers, keeper: Keeper) -> list[Differences]:
    """What only stands inlined, without an owner, is ordered by its names, object by object."""
    table = FunctionTable(*(column.values() for column in portion.functions))
    section = table.section.astype(np.int64)
    table = table._replace(
        object=numbers.of("code object", table.object),
        name=numbers.of("string", table.name),
        linkage_name=numbers.of("string", table.linkage_name),
        owner=numbers.of("owner", table.owner),
        symbol=numbers.of("owner", table.symbol),
        section=np.where(section > 0, section + numbers.before.sections, 0),
    )
    lone = np.flatnonzero(table.owner == 0)
    order = np.arange(len(table.owner))
    order[lone] = lone[np.lexsort((table.linkage_name[lone], table.name[lone], table.object[lone]))]
    return [Differences(column[order], keeper) for column in table]
