"""Tables of samples as profilers keep them (Apache Arrow, Parquet): a place a row in, frames or hot lines out.

Here are the places that the rows name, as columns. ``answering`` finds for each row an entry of the
``location_registry``, which has each distinct location once; ``tables`` is the way from and to tables of Arrow,
``sample_files`` and ``parquet_files`` from file to file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import I64, U64

Rows = I64 | slice
"""Which rows of a table: their numbers, ascending; ``slice(None)`` for all of them."""
ALL_ROWS = slice(None)
_MAX_COMBINATIONS = 1 << 22
"""The most combinations of texts that are renumbered by a table of all of them."""
_RADIX = 1 << 16
"""NumPy sorts so many different numbers by their digits, in a tenth of the time."""


class TextColumn(NamedTuple):
    """A text a row: ``codes`` number ``texts``; -1 where there is none."""

    codes: I64
    texts: Sequence[str]

    @property
    def present(self) -> NDArray[np.bool_]:
        return self.codes >= 0


class NumberColumn(NamedTuple):
    """A number of 64 bits a row, which means something where it is ``present``."""

    values: U64
    present: NDArray[np.bool_]


class TargetTexts(NamedTuple):
    """What rows name besides a number; None where they name nothing."""

    module: str | None
    path: str | None
    kernel: str | None


@dataclass(frozen=True, slots=True)
class Places:
    """Columns of ``count`` rows; None where the table has no such column. ``times`` are nanoseconds."""

    count: int
    context: TextColumn | None = None
    device_address: NumberColumn | None = None
    times: I64 | None = None
    module: TextColumn | None = None
    path: TextColumn | None = None
    kernel: TextColumn | None = None
    offset: NumberColumn | None = None
    address: NumberColumn | None = None

    def kinds(self) -> tuple[Rows, Rows, Rows]:
        """(the rows with a device address, those with a kernel and an offset, those with an object address): each row
        belongs to the first of these kinds whose columns it has, or to none."""
        left = np.ones(self.count, np.bool_)
        kinds = (self.context, self.device_address), (self.kernel, self.offset), (self.address,)
        device, kernel, address = (_take(left, columns) for columns in kinds)
        return device, kernel, address

    def by_context(self, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """The rows of each context."""
        for (context,), part in _grouped((self.context,), rows, self.count):
            yield context or "", part

    def by_target(self, rows: Rows, *, in_kernel: bool) -> Iterator[tuple[TargetTexts, Rows]]:
        """The rows of each module, code object and, where the numbers count from one, kernel."""
        columns = self.module, self.path, self.kernel if in_kernel else None
        for texts, part in _grouped(columns, rows, self.count):
            yield TargetTexts(*texts), part


def _take(left: NDArray[np.bool_], columns: Sequence[TextColumn | NumberColumn | None]) -> Rows:
    """The rows among ``left`` that have all the columns; they are taken out of ``left``."""
    held = left.copy()
    for column in columns:
        if column is None:
            return np.zeros(0, np.int64)
        held &= column.present
    left &= ~held
    return ALL_ROWS if held.all() else np.flatnonzero(held)


def _grouped(
    columns: Sequence[TextColumn | None], rows: Rows, count: int
) -> Iterator[tuple[tuple[str | None, ...], Rows]]:
    """Each combination of texts that is in ``rows`` of the columns, with the rows where it does."""
    size = count if isinstance(rows, slice) else len(rows)
    if not size:
        return
    combined, base = np.zeros(size, np.int64), 1
    for column in columns:
        if column is not None:
            combined += (column.codes[rows] + 1) * base
            base *= len(column.texts) + 1
    for number, part in _with_each(combined, base):
        yield tuple(_texts_of(columns, number)), part if isinstance(rows, slice) else rows[part]


def _texts_of(columns: Sequence[TextColumn | None], combined: int) -> Iterator[str | None]:
    """The texts that a combination of codes stands for."""
    for column in columns:
        code = 0
        if column is not None:
            combined, code = divmod(combined, len(column.texts) + 1)
        yield column.texts[code - 1] if column is not None and code else None


def _with_each(numbers: I64, bound: int) -> Iterator[tuple[int, Rows]]:
    """Each of the numbers, which are below ``bound``, with the positions where it stands."""
    if bound <= _MAX_COMBINATIONS:
        used = np.zeros(bound, np.bool_)
        used[numbers] = True
        distinct = np.flatnonzero(used)
        renumbered = np.zeros(bound, np.int64)
        renumbered[distinct] = np.arange(len(distinct))
        numbers = renumbered[numbers]
    else:
        distinct, numbers = np.unique(numbers, return_inverse=True)
    if len(distinct) == 1:
        yield int(distinct[0]), ALL_ROWS
        return
    order = np.argsort(numbers.astype(np.uint16) if len(distinct) <= _RADIX else numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(distinct)))
    yield from zip(distinct.tolist(), np.split(order, ends[:-1]), strict=True)
