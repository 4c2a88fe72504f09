"""The checksums of an index file (CRC-32, as zlib computes it): one of all that says where columns are, and one of each piece of the columns. Here all are
made, and compared; ``symd.core.index_lookup`` compares those of the pieces that one answer is read from.

Source of the layout: docs/index-format.md."""

from __future__ import annotations

from zlib import crc32

from symd.core.index_lookup import CHECKSUM, PIECE, Damaged, columns_end


def piece_checksums(columns: memoryview | bytes) -> bytes:
    """One after the other, as they stand behind the columns, little-endian."""
    return b"".join(
        [crc32(columns[at : at + PIECE]).to_bytes(CHECKSUM, "little") for at in range(0, len(columns), PIECE)]
    )


def head_checksum(table: bytes, pieces: bytes) -> int:
    """The CRC-32 in the header of an index file: that of the column table and of the checksums of all pieces."""
    return crc32(pieces, crc32(table))


def sound_columns(file: memoryview, table: bytes, first: int, checksum: int) -> memoryview:
    """The file up to where its columns end, all of it compared. They begin behind the ``table``, at ``first``; ``checksum`` is the header's. Raises
    ``Damaged``."""
    stop = columns_end(len(file), first)
    pieces = bytes(file[stop:])
    is_whole = stop >= first and head_checksum(table, pieces) == checksum
    if not is_whole or piece_checksums(file[first:stop]) != pieces:
        raise Damaged("has bytes that are not what they were")
    return file[:stop]
