"""An index file written column after column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from symd.core.index_lookup import PIECE
from symd.errors import LimitExceeded
from symd.index.checksums import piece_checksums
from symd.index.format import Column, described_column, front, table_size
from symd.index.schema import SCHEMA

_PIECES_AT_ONCE = 256
"""Pieces that are read at a time for their checksums."""


class ColumnFile:
    """An index file that is written column after column. ``file`` is empty and may be read, too. Raises
    LimitExceeded where it would take more than ``largest`` bytes."""

    def __init__(self, file: BinaryIO, largest: int, columns: int = len(SCHEMA)) -> None:
        """``columns`` is how many there will be."""
        self._file, self._largest = file, largest
        self._table: list[bytes] = []
        self._at = table_size(columns)
        self._file.seek(self._at)

    def write(self, name: str, column: Column) -> None:
        """One more column, of unsigned integers."""
        equal = len(column) > 1 and bool((column == column[0]).all())
        stored = np.ascontiguousarray(column[:1] if equal else column)
        pad = -self._at % column.itemsize
        if pad:
            self._append(bytes(pad), pad)
        self._table.append(described_column(name, column.dtype, self._at, len(column), len(stored)))
        self._append(stored.data, stored.nbytes)

    def write_bytes(self, name: str, pieces: Iterable[bytes]) -> None:
        """One more column of bytes, which come piece by piece."""
        begin, equal, first = self._at, True, b""
        for piece in pieces:
            first = first or piece[:1]
            equal = equal and piece == first * len(piece)
            self._append(piece, len(piece))
        count = self._at - begin
        stored = 1 if equal and count > 1 else count
        self._table.append(described_column(name, np.dtype(np.uint8), begin, count, stored))
        self._at = begin + stored
        self._file.seek(self._at)

    def close(self) -> int:
        """Write what stands in front of the columns; how many bytes the file has."""
        self._file.truncate(self._at)
        self._file.seek(table_size(len(self._table)))
        checksums = b"".join(map(piece_checksums, iter(lambda: self._file.read(_PIECES_AT_ONCE * PIECE), b"")))
        self._append(checksums, len(checksums))
        self._file.seek(0)
        for part in front(self._table, checksums):
            self._file.write(part)
        return self._at

    def _append(self, data: bytes | memoryview, size: int) -> None:
        self._at += size
        if self._at > self._largest:
            check_size(self._at, self._largest)
        self._file.write(data)


def check_size(size: int, largest: int) -> None:
    """Raises LimitExceeded for a file of ``size`` bytes or more, of which ``largest`` are allowed."""
    if size > largest:
        metadata = {"limit": "index_size", "value": str(largest)}
        raise LimitExceeded(f"it takes {size} bytes or more", hint="raise the limit index_size", metadata=metadata)
