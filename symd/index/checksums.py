"""The checksums of an index file (CRC-32, as zlib computes it): one of all that says where columns are, and one of each piece of the columns. An answer
that takes a few numbers compares the checksums of the pieces in which they lie, and touches nothing of the rest.

Source of the layout: docs/index-format.md. Imports what takes no time: the command that answers one address begins with it."""

from __future__ import annotations

from zlib import crc32

PIECE = 1 << 12
"""Bytes of columns that share a checksum, counted from where the first column may begin; the last piece has what is left. As many as a page
of memory: smaller pieces are more checksums to compare first, larger ones more bytes for each number."""
_CHECKSUM = 4
"""Bytes of one."""


class Damaged(ValueError):
    """Bytes are not what they were when their checksum was made."""


def piece_checksums(columns: memoryview | bytes) -> bytes:
    """One after the other, as they stand behind the columns, little-endian."""
    return b"".join(
        [crc32(columns[at : at + PIECE]).to_bytes(_CHECKSUM, "little") for at in range(0, len(columns), PIECE)]
    )


def head_checksum(table: bytes, pieces: bytes) -> int:
    """That of the column table and of the checksums of all pieces, which the header has."""
    return crc32(pieces, crc32(table))


class ColumnBytes:
    """The columns of an index file, of which each piece is compared with its checksum before it is given out."""

    __slots__ = ("_file", "_first", "_sound", "_sums", "stop")

    def __init__(self, file: memoryview, table: bytes, first: int, checksum: int) -> None:
        """The columns begin behind the ``table``, at ``first``; ``checksum`` is the header's. Raises ``Damaged`` where that does not fit."""
        pieces = -(-(len(file) - first) // (PIECE + _CHECKSUM))
        self.stop = len(file) - pieces * _CHECKSUM
        """Where the columns end."""
        self._file, self._first, self._sums = file, first, bytes(file[self.stop :])
        if self.stop < first or head_checksum(table, self._sums) != checksum:
            raise Damaged
        self._sound: set[int] = set()

    def part(self, start: int, stop: int) -> memoryview:
        """Bytes of columns, by their places in the file. Raises ``Damaged`` where they are not what they were, or no part of the columns."""
        if not self._first <= start <= stop <= self.stop:
            raise Damaged
        for piece in range((start - self._first) // PIECE, -((self._first - stop) // PIECE)):
            if piece not in self._sound:
                self._check(piece)
        return self._file[start:stop]

    def whole(self) -> memoryview:
        """The file up to where the columns end, all of it compared. Raises ``Damaged``."""
        if piece_checksums(self._file[self._first : self.stop]) != self._sums:
            raise Damaged
        return self._file[: self.stop]

    def _check(self, piece: int) -> None:
        at = self._first + piece * PIECE
        found = crc32(self._file[at : min(at + PIECE, self.stop)]).to_bytes(_CHECKSUM, "little")
        if found != self._sums[piece * _CHECKSUM : (piece + 1) * _CHECKSUM]:
            raise Damaged
        self._sound.add(piece)
