"""What an index file does not spell out because it follows from what it does: the location of each range, the frames of
each location, the line rows. Worked out for the ranges that are asked for, or for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from symd.errors import DataLoss
from symd.index.distinct import Numbers
from symd.index.format import Column, narrow
from symd.index.packing import FUNCTION_COLUMNS, ROW_COLUMNS, Ranges, unpack_table
from symd.index.starts import Starts
from symd.model import Reason

RESERVED = max(Reason) + 1
"""Locations 1 to 11 carry a reason alone, under its own number; behind them stands one for each call that was inlined,
then one for each range."""
LOCATION_COLUMNS = (
    "reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent", "owner",
)  # fmt: skip
_UNDEBUGGED = (Reason.NO_DEBUG_INFO, Reason.MALFORMED)


class Packed:
    """Ranges, frames and owners of an index file."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.ranges = Ranges(columns)
        self.frame_owner, self.frame_kernel, self.frame_file = (
            columns[f"frame_{name}"] for name in ("owner", "kernel", "file")
        )
        self.name, self.linkage_name, self.inlined, self.parent, self.file, self.line, self.column = (
            columns[f"owner_{name}"] for name in ("name", "linkage_name", "inlined", "parent", "file", "line", "column")
        )
        self.calls = np.flatnonzero((self.inlined != 0) & (self.parent != 0))
        """The owners that are inlined calls; each has a location of its own, where it was called from."""
        self.first_leaf = RESERVED + len(self.calls)

    def function_of(self, frame: int, reason: int) -> int:
        """The name of the function of a frame. Code of nobody without debug data has its kernel's."""
        owner = self.frame_owner.item(frame)
        if not owner and reason in _UNDEBUGGED:
            return int(self.frame_kernel.item(frame))
        return int(self.name.item(owner))

    def locations(self, ranges: Numbers, calls: Numbers) -> dict[str, Column]:
        """LOCATION_COLUMNS: the reserved locations, one for each of ``calls`` (owners, in order; with everything that
        encloses them), one for each of ``ranges``."""
        call_number = np.zeros(len(self.name), np.uint32)
        call_number[calls] = RESERVED + np.arange(len(calls), dtype=np.uint32)
        around = self.parent[calls]
        frame = self.ranges.frame(ranges)
        owner = self.frame_owner[frame]
        reason, kernel = self.ranges.reason(ranges), self.frame_kernel[frame]
        function = self.name[owner]
        undebugged = (owner == 0) & np.isin(reason, _UNDEBUGGED)
        if np.any(undebugged):
            function = np.where(undebugged, kernel, function)
        leaf_line = self.ranges.line(ranges, frame)
        exact = np.full(len(calls), Reason.EXACT, np.uint8)
        parts = {
            "reason": (exact, reason),
            "kernel": (np.zeros(len(calls), np.uint8), kernel),
            "function": (self.name[around], function),
            "linkage_name": (self.linkage_name[around], self.linkage_name[owner]),
            "file": (self.file[calls], self.frame_file[frame]),
            "line": (self.line[calls], leaf_line),
            "column": (self.column[calls], self.ranges.column(ranges)),
            "inlined": (self.inlined[around], self.inlined[owner]),
            "parent": (call_number[around], call_number[owner]),
            "owner": (around, owner),
        }
        reserved = np.zeros(RESERVED, np.uint8)
        result = {name: np.concatenate([reserved, *columns]) for name, columns in parts.items()}
        result["reason"][:RESERVED] = np.arange(RESERVED)
        return result

    def calls_around(self, ranges: Numbers) -> Numbers:
        """The inlined calls that enclose the code of ``ranges``, in the order of owners."""
        used = np.zeros(len(self.name), np.bool_)
        is_call = np.zeros(len(self.name), np.bool_)
        is_call[self.calls] = True
        owner = self.frame_owner[self.ranges.frame(ranges)]
        while len(owner):
            owner = owner[is_call[owner] & ~used[owner]]
            used[owner] = True
            owner = self.parent[owner]
        return np.flatnonzero(used)


class Unpacked(Mapping[str, Column]):
    """The stored columns, and by their names the ones that follow: range_start, range_location, location_*, row_* and function_*,
    each worked out when it is first asked for and then kept."""

    def __init__(self, stored: Mapping[str, Column], starts: Starts, packed: Packed) -> None:
        self._columns = dict(stored)
        self._starts = starts
        self._packed = packed

    def __getitem__(self, name: str) -> Column:
        found = self._columns.get(name)
        if found is None:
            self._work_out(name)
            found = self._columns[name]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _work_out(self, name: str) -> None:
        if name == "range_start":
            made = {name: self._starts.all()}
        elif name == "range_location":
            made = {name: np.arange(len(self._packed.ranges), dtype=np.uint32) + np.uint32(self._packed.first_leaf)}
        elif name.startswith("location_"):
            every = self._packed.locations(np.arange(len(self._packed.ranges)), self._packed.calls)
            made = {f"location_{key}": column for key, column in every.items()}
        elif name.startswith("row_"):
            made = self._rows()
        elif name.startswith("function_"):
            made = unpack_table(
                self._columns["function_data"], self._columns["function_count"].item(0), FUNCTION_COLUMNS
            )
        else:
            return
        self._columns.update(made)

    def _rows(self) -> dict[str, Column]:
        counts = self._columns["object_rows"].tolist()
        tables = [self.object_rows(number) for number in range(len(counts))]
        empty = np.zeros(0, np.uint8)
        rows = {f"row_{name}": np.concatenate([empty, *(table[name] for table in tables)]) for name in ROW_COLUMNS}
        return {"row_object": narrow(np.repeat(np.arange(len(counts), dtype=np.uint64), counts)), **rows}

    def object_rows(self, number: int) -> dict[str, Column]:
        """The line rows of one code object, as ROW_COLUMNS. Raises DataLoss."""
        count, size = self._columns["object_rows"].item(number), self._columns["object_row_bytes"].item(number)
        first = int(self._columns["object_row_bytes"][:number].sum())
        data = self._columns["row_data"][first : first + size]
        if len(data) != size:
            raise DataLoss("ends inside its line rows", where="index file")
        return unpack_table(data, count, ROW_COLUMNS) if count else dict.fromkeys(ROW_COLUMNS, np.zeros(0, np.uint8))
