"""The ranges and frames of a module's portions with the numbers that they have in its index, and the pages of its ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symd.index.distinct import grouped
from symd.index.format import Column, narrow
from symd.index.kept import Arena, Kept
from symd.index.locations import base_lines
from symd.index.packing import PAGE_SHIFT, packed_pages, signed_type
from symd.index.portions import Extent, Portion
from symd.model.columns import I64, U32

FRAME_COLUMNS = ("frame_owner", "frame_kernel", "frame_file", "frame_line")


def final_owner(owner: Column, portion: Portion, scopes: int) -> I64:
    """Owners of a portion by their numbers in the module, which has so many scopes: nobody, scopes, symbols."""
    owner = owner.astype(np.int64)
    of_symbol = owner > portion.extent.scopes
    moved = owner + np.where(of_symbol, scopes - portion.extent.scopes + portion.before.symbols, portion.before.scopes)
    return np.where(owner > 0, moved, 0)


class ModuleFrames(NamedTuple):
    """The frames of all portions. In a module's index nobody's come first, then those of scopes, then those of symbols.
    ``number`` has the module's number of each of a portion's frames, ``base`` its ``frame_line``; ``pieces`` are the
    columns, in pieces."""

    number: Sequence[Kept]
    base: Sequence[Kept]
    pieces: Mapping[str, Sequence[Kept]]


def module_frames(portions: Sequence[Portion], total: Extent, string: U32, arena: Arena) -> ModuleFrames:
    """``string`` has the number in the module of each string."""
    nobody = _Nobody(portions, string)
    of_scopes = [_bounds(each) for each in portions]
    scopes = sum(stop - first for first, stop, _ in of_scopes)
    next_scope, next_symbol = nobody.count, nobody.count + scopes
    number, base, in_scopes, in_symbols = [], [], [], []
    for each, own, (first, stop, end) in zip(portions, nobody.number, of_scopes, strict=True):
        columns = _columns(each, total.scopes, string)
        order = np.lexsort(
            (columns["frame_file"][first:], columns["frame_kernel"][first:], columns["frame_owner"][first:])
        )
        numbers = np.empty(end, np.int64)
        numbers[:first] = own
        following = np.append(np.arange(stop - first) + next_scope, np.arange(end - stop) + next_symbol)
        numbers[first + order] = following
        number.append(Kept(numbers, arena))
        base.append(Kept(np.append(nobody.line[own], columns["frame_line"][first:]), arena))
        ordered = {name: column[first:][order] for name, column in columns.items()}
        in_scopes.append({name: Kept(column[: stop - first], arena) for name, column in ordered.items()})
        in_symbols.append({name: Kept(column[stop - first :], arena) for name, column in ordered.items()})
        next_scope, next_symbol = next_scope + stop - first, next_symbol + end - stop
    pieces = {
        name: [
            Kept(nobody.columns[name], arena),
            *(each[name] for each in in_scopes),
            *(each[name] for each in in_symbols),
        ]
        for name in FRAME_COLUMNS
    }
    return ModuleFrames(number, base, pieces)


def _bounds(portion: Portion) -> tuple[int, int, int]:
    """Where the frames of scopes begin and end, and those of symbols end; they are in the order of their owners."""
    owner = portion.frames["frame_owner"].values()
    first, stop = np.searchsorted(owner, [1, portion.extent.scopes + 1]).tolist()
    return first, stop, len(owner)


def _columns(portion: Portion, scopes: int, string: U32) -> dict[str, Column]:
    columns = {name: portion.frames[name].values() for name in FRAME_COLUMNS}
    columns["frame_owner"] = final_owner(columns["frame_owner"], portion, scopes)
    columns["frame_kernel"] = string[columns["frame_kernel"]]
    columns["frame_file"] = string[columns["frame_file"]]
    return columns


class _Nobody:
    """The frames of nobody's code, which portions have in common: ``number`` of each of a portion's, and their columns."""

    def __init__(self, portions: Sequence[Portion], string: U32) -> None:
        counts = [len(each.lowest) for each in portions]
        kernel, file = (
            string[
                np.concatenate(
                    [each.frames[name].values()[:count] for each, count in zip(portions, counts, strict=True)]
                )
            ]
            for name in ("frame_kernel", "frame_file")
        )
        groups = grouped(kernel, file)
        self.line: U32 = base_lines(np.concatenate([each.lowest for each in portions]), groups)
        self.count = len(groups.first)
        self.number = np.split(groups.number, np.cumsum(counts)[:-1])
        self.columns: dict[str, Column] = {
            "frame_owner": np.zeros(self.count, np.uint8),
            "frame_kernel": kernel[groups.sample],
            "frame_file": file[groups.sample],
            "frame_line": self.line,
        }


class _NumberedRanges(NamedTuple):
    """A portion's ranges: the module's number of the frame that holds for each of ``length`` ranges, and for each range the
    line above the frame's, the column and the reason."""

    frame: Kept
    length: Kept
    above: Kept
    column: Kept
    reason: Kept


class ModulePages:
    """The ranges of all portions, to be written as pages: ``widths`` is the column ``page_width``."""

    def __init__(self, portions: Sequence[Portion], frames: ModuleFrames, arena: Arena) -> None:
        self._ranges: list[_NumberedRanges] = []
        low, high, above, column, last = 0, 0, 0, 0, 0
        for each, number, base in zip(portions, frames.number, frames.base, strict=True):
            ranges = each.ranges
            own, length = ranges.frame.values(), ranges.length.values()
            frame, line = number.values()[own].astype(np.int64), ranges.line.values()
            over = _above(line, base.values()[own], length)
            kept = Kept(frame, arena), ranges.length, Kept(over, arena), ranges.column, ranges.reason
            self._ranges.append(_NumberedRanges(*kept))
            steps = _steps(np.repeat(frame, length), last, each.before.ranges)
            low, high = min(low, int(steps.min(initial=0))), max(high, int(steps.max(initial=0)))
            above, column = max(above, int(over.max(initial=0))), max(column, ranges.column.highest)
            last = int(frame[-1]) if len(frame) else last
        self._types = signed_type(low, high), narrow(np.array([above])).dtype, narrow(np.array([column])).dtype
        self.widths = np.array([dtype.itemsize for dtype in self._types], np.uint8)

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Each page with its first frame."""
        waiting = _no_ranges()
        for each in self._ranges:
            waiting = tuple(np.concatenate(pair) for pair in zip(waiting, self._opened(each), strict=True))
            whole = len(waiting[0]) >> PAGE_SHIFT << PAGE_SHIFT
            yield from self._written([column[:whole] for column in waiting])
            waiting = tuple(column[whole:] for column in waiting)
        yield from self._written(waiting)

    def _opened(self, ranges: _NumberedRanges) -> tuple[Column, ...]:
        """Frame, line above, column and reason of each range."""
        _, above, column = self._types
        return (
            np.repeat(ranges.frame.values().astype(np.int64), ranges.length.values()),
            ranges.above.values().astype(above),
            ranges.column.values().astype(column),
            ranges.reason.values().astype(np.uint8),
        )

    def _written(self, ranges: Sequence[Column]) -> Iterator[tuple[int, bytes]]:
        frame, above, column, reason = ranges
        begins = np.ones(len(frame), np.bool_)
        begins[1:] = frame[1:] != frame[:-1]
        begins[:: 1 << PAGE_SHIFT] = True
        steps = _steps(frame, 0, 0)
        run = np.flatnonzero(begins)
        pages = packed_pages(run, steps[run].astype(self._types[0]), (above, column, reason))
        return zip(frame[:: 1 << PAGE_SHIFT].tolist(), pages, strict=True)


def _no_ranges() -> tuple[Column, ...]:
    return (np.zeros(0, np.int64), *[np.zeros(0, np.uint8)] * 3)


def _above(line: Column, base: Column, length: Column) -> Column:
    """Lines less those of their frames; 0 stays 0."""
    return np.where(line > 0, line - np.repeat(base, length).astype(np.int64), 0)


def _steps(frame: I64, last: int, number: int) -> I64:
    """How far each range's frame is from that of the one before, where that is in the same page; ``last`` is the frame
    before the first of these ranges, which has that ``number``."""
    steps = np.diff(frame, prepend=np.int64(last))
    steps[-number % (1 << PAGE_SHIFT) :: 1 << PAGE_SHIFT] = 0
    return steps
