"""The line rows of an object while they are decoded, part by part: each part's columns are copied to their place at
once, into memory that is taken once as a rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.bulk_read import Positions, spread
from symd.dwarf.columns import first_rows
from symd.dwarf.line_program import ProgramRows
from symd.model.columns import U32, U64

_DTYPES = {"address": np.uint64, "file": np.uint32, "line": np.uint32, "column": np.uint32, "flags": np.uint8}
_ROOM_FACTOR = 1.03
"""How much more room is taken than the groups so far let expect: a group has about as many rows a byte as those before.
"""


class ProgramGroup(NamedTuple):
    """Some programs whose ``rows`` are in the table. ``numbers`` are the programs' numbers in the object; the others
    are as ``ProgramRows`` has them."""

    numbers: list[int]
    rows: slice
    ends: Positions
    program: U32
    context: U64 | None
    name: U64 | None
    malformed: dict[int, tuple[int, str]]
    open: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def program_of_rows(self) -> U32:
        """The number of each row's program in this part."""
        return spread(self.program, first_rows(self.ends), len(self))


class RowTable:
    """``columns`` have room for more than the ``count`` rows that are there."""

    def __init__(self) -> None:
        self.count = 0
        self.columns: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in _DTYPES.items()}

    def add(self, rows: ProgramRows, numbers: list[int], share: float) -> ProgramGroup:
        """Append a part, with which the table has this ``share`` of everything it will have."""
        span = slice(self.count, self.count + len(rows.address))
        if not span.start and share == 1:
            self.columns = {name: getattr(rows, name) for name in self.columns}
        else:
            self._make_room(span.stop, share)
            for name, column in self.columns.items():
                column[span] = getattr(rows, name)
        self.count = span.stop
        return ProgramGroup(numbers, span, rows.ends, rows.program, rows.context, rows.name, rows.malformed, rows.open)

    def column(self, name: str) -> NDArray[Any]:
        return self.columns[name][: self.count]

    def _make_room(self, count: int, share: float) -> None:
        if count <= len(self.columns["address"]):
            return
        room = int(count / share * _ROOM_FACTOR) + 1
        for name, column in self.columns.items():
            self.columns[name] = np.empty(room, column.dtype)
            self.columns[name][: self.count] = column[: self.count]
