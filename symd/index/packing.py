"""Ranges and line rows as an index file stores them: small numbers within blocks, rows as differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symd.errors import DataLoss
from symd.index import functions
from symd.index.distinct import Numbers, combined, numbered, runs
from symd.index.format import Column, compress, decompress, narrow
from symd.index.starts import encode_starts
from symd.model import U64

BLOCK = 8
"""A block has 1 << BLOCK ranges, so that a number among the frames of a block fits a byte."""
FUNCTION_COLUMNS = tuple(f"function_{name}" for name in functions.COLUMNS)
ROW_COLUMNS = ("place", "offset", "file", "line", "column", "flags")
_WIDTHS = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}


def pack_ranges(
    start: U64, frame: Numbers, line: Numbers, column: Column, reason: Column, frame_count: int
) -> dict[str, Column]:
    """Columns start_*, range_*, position_*, block_* and frame_line."""
    base = _base_lines(frame, line, frame_count)
    beyond = np.where(line > 0, line - base[frame], 0)
    position, at = numbered(combined(beyond, column, reason))
    sample = np.zeros(len(position), np.int64)
    sample[at] = np.arange(len(at))
    slot, block, frames = _blocks(frame)
    return {
        **encode_starts(start),
        "range_slot": slot,
        "range_position": narrow(at),
        "position_line": narrow(beyond[sample]),
        "position_column": narrow(column[sample]),
        "position_reason": narrow(reason[sample]),
        "block_first": narrow(block),
        "block_frame": narrow(frames),
        "frame_line": narrow(base),
    }


def _base_lines(frame: Numbers, line: Numbers, count: int) -> Numbers:
    """One less than the lowest line of each frame: what its ranges' lines are counted from. Line 0, no line, is 0
    anywhere."""
    at = np.flatnonzero(line)
    begins = runs(frame[at])
    base = np.full(count, np.iinfo(np.int64).max)
    if len(begins):
        np.minimum.at(base, frame[at[begins]], np.minimum.reduceat(line[at], begins))
    base[base == np.iinfo(np.int64).max] = 1
    return base - 1


def _blocks(frame: Numbers) -> tuple[Column, Numbers, Numbers]:
    """(each range's number in its block's list of frames, where each list begins, the lists)."""
    block = np.arange(len(frame)) >> BLOCK
    begins = runs(block, frame)
    distinct, number = numbered(combined(block[begins], frame[begins]))
    sample = np.zeros(len(distinct), np.int64)
    sample[number] = begins
    first = np.searchsorted(block[sample], np.arange(int(block[-1]) + 1 if len(block) else 0))
    slot = number - first[block[begins]]
    return np.repeat(slot, np.diff(begins, append=len(frame))).astype(np.uint8), first, frame[sample]


def pack_table(columns: Sequence[Column]) -> bytes:
    """Equally long columns that nobody searches: differences from row to row, one column after the other, each as the
    width of its entries (one byte) and the entries; then all compressed."""
    planes = []
    for column in columns:
        differences = np.diff(column.astype(np.int64), prepend=np.int64(0))
        low, high = int(differences.min(initial=0)), int(differences.max(initial=0))
        dtype = next(t for t in _WIDTHS.values() if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
        planes += [bytes([dtype.itemsize]), differences.astype(dtype).tobytes()]
    return compress(b"".join(planes)).tobytes()


def unpack_table(packed: Column, count: int, names: Sequence[str]) -> dict[str, Column]:
    """The columns that ``pack_table`` was given, of ``count`` entries each, by name. Raises DataLoss."""
    data, at, columns = decompress(packed), 0, {}
    for name in names:
        width = data[at] if at < len(data) else 0
        if width not in _WIDTHS or at + 1 + width * count > len(data):
            raise DataLoss("has a table that ends early", where="index file")
        differences = np.frombuffer(data, _WIDTHS[width], count, at + 1)
        columns[name] = narrow(np.cumsum(differences, dtype=np.int64).view(np.uint64))
        at += 1 + width * count
    return columns


class Ranges:
    """The packed columns as they are asked: the frame, the line and the column of ranges."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.slot, self.position = columns["range_slot"], columns["range_position"]
        self._first, self._frame = columns["block_first"], columns["block_frame"]
        self._line, self._column = columns["position_line"], columns["position_column"]
        self._reason, self._base = columns["position_reason"], columns["frame_line"]
        if len(self.slot) != len(self.position) or len(self._first) != -(-len(self.slot) >> BLOCK):
            raise DataLoss("has ranges that contradict each other", where="index file")

    def __len__(self) -> int:
        return len(self.slot)

    def frame(self, ranges: Column) -> Column:
        number: Column = self._frame[self._first[ranges >> BLOCK].astype(np.int64) + self.slot[ranges]]
        return number

    def line(self, ranges: Column, frame: Column) -> Column:
        beyond = self._line[self.position[ranges]]
        return np.where(beyond, self._base[frame].astype(np.uint32) + beyond, 0).astype(np.uint32, copy=False)

    def column(self, ranges: Column) -> Column:
        return self._column[self.position[ranges]]

    def reason(self, ranges: Column) -> Column:
        return self._reason[self.position[ranges]]

    def one_frame(self, number: int) -> int:
        return int(self._frame.item(self._first.item(number >> BLOCK) + self.slot.item(number)))

    def one(self, number: int) -> tuple[int, int, int, int]:
        """(frame, line, column, reason) of one range."""
        frame, position = self.one_frame(number), self.position.item(number)
        beyond = self._line.item(position)
        line = self._base.item(frame) + beyond if beyond else 0
        return frame, line, self._column.item(position), self._reason.item(position)
