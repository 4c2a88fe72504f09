"""What an index file does not spell out because it follows from what it does: the location of each range, the frames of
each location, the line rows. Worked out for the ranges that are asked for, or for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from symd.errors import DataLoss
from symd.index.distinct import Numbers
from symd.index.format import Column, Stored, narrow
from symd.index.packing import FUNCTION_COLUMNS, ROW_COLUMNS, Ranges, unpack_table
from symd.index.starts import Starts
from symd.model.answers import Reason

RESERVED = max(Reason) + 1
"""Locations 1 to 11 carry a reason alone, under its own number; behind them stands one for each call that was inlined,
then one for each range."""
LOCATION_COLUMNS = (
    "reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent", "owner",
)  # fmt: skip
_UNDEBUGGED = (Reason.NO_DEBUG_INFO, Reason.MALFORMED)


class Packed:
    """Ranges, frames and owners of an index file."""

    def __init__(self, columns: Mapping[str, Column], ranges: Ranges) -> None:
        self.ranges = ranges
        self.frame_owner, self.frame_kernel, self.frame_file = (
            columns[f"frame_{name}"] for name in ("owner", "kernel", "file")
        )
        self.name, self.linkage_name, self.inlined, self.parent, self.file, self.line, self.column = (
            columns[f"owner_{name}"] for name in ("name", "linkage_name", "inlined", "parent", "file", "line", "column")
        )
        self.calls = np.flatnonzero((self.inlined != 0) & (self.parent != 0))
        """The owners that are inlined calls; each has a location of its own, where it was called from."""
        self.first_leaf = RESERVED + len(self.calls)

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
        leaf_line = self.ranges.line(ranges)
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

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self.numbers = stored.numbers
        self._columns: dict[str, Column] = {}

    @cached_property
    def starts(self) -> Starts:
        return Starts(self._stored)

    @cached_property
    def ranges(self) -> Ranges:
        return Ranges(self._stored)

    @cached_property
    def packed(self) -> Packed:
        return Packed(self._stored, self.ranges)

    def check(self) -> None:
        """Raises DataLoss where a stored column cannot be, or starts and ranges are not equally many."""
        self._stored.check()
        try:
            if self.starts.count != len(self.ranges):
                raise DataLoss("has starts and ranges that contradict each other", where="index file")
        except (KeyError, IndexError) as error:
            raise DataLoss(f"lacks column {error}", where="index file") from None

    def __getitem__(self, name: str) -> Column:
        found = self._columns.get(name)
        if found is None:
            self._work_out(name)
            found = self._columns[name]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._stored), **self._columns})

    def __len__(self) -> int:
        return len(self._stored.keys() | self._columns.keys())

    def _work_out(self, name: str) -> None:
        if name == "range_start":
            made = {name: self.starts.all()}
        elif name == "range_location":
            made = {name: np.arange(len(self.ranges), dtype=np.uint32) + np.uint32(self.packed.first_leaf)}
        elif name.startswith("location_"):
            every = self.packed.locations(np.arange(len(self.ranges)), self.packed.calls)
            made = {f"location_{key}": column for key, column in every.items()}
        elif name.startswith("row_"):
            made = self._rows()
        elif name.startswith("function_"):
            made = unpack_table(self._stored["function_data"], self._stored["function_count"].item(0), FUNCTION_COLUMNS)
        else:
            made = {name: self._stored[name]}
        self._columns.update(made)

    def _rows(self) -> dict[str, Column]:
        counts = self._stored["object_rows"].tolist()
        rows = unpack_table(self._stored["row_data"], sum(counts), ROW_COLUMNS)
        owner = narrow(np.repeat(np.arange(len(counts), dtype=np.uint64), counts))
        return {"row_object": owner, **{f"row_{name}": column for name, column in rows.items()}}
