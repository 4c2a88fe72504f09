"""Index files of columns that a test chooses, by what writes those of modules; and files with other bytes and checksums that fit: what a process that
builds indexes could leave, and no disk.

Source of the layout: docs/index-format.md, read anew here."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np

from symd.index import MAX_COLUMN_BYTES
from symd.index.builder import ColumnFile
from symd.index.format import Column, Compressor, encoded_strings, narrow
from symd.index.locations import ModuleRanges
from symd.index.packing import Differences, Keeper, packed_table
from symd.index.portions import kept_ranges, range_columns

_HEADER = struct.Struct("<8sIIII")
_COLUMN_BYTES = 64
_PIECE = 4096
_AT = slice(16, 20)
"""Bytes of the header that are the checksum of what says where columns are."""


def with_fitting_checksums(file: bytes | bytearray) -> bytes:
    """The file with the checksums of what it holds, where it is long enough to have any."""
    if len(file) < _HEADER.size:
        return bytes(file)
    first = min(_HEADER.size + _HEADER.unpack_from(file)[2] * _COLUMN_BYTES, len(file))
    pieces = -(-(len(file) - first) // (_PIECE + 4))
    columns = bytes(file[first : len(file) - 4 * pieces])
    sums = [zlib.crc32(columns[at : at + _PIECE]) for at in range(0, _PIECE * pieces, _PIECE)]
    table, behind = bytes(file[_HEADER.size : first]), struct.pack(f"<{pieces}I", *sums)
    whole = bytearray(file[: _HEADER.size] + table + columns + behind)
    whole[_AT] = struct.pack("<I", zlib.crc32(table + behind))
    return bytes(whole)


def encode(columns: Mapping[str, Column]) -> bytes:
    """Columns as an index file."""
    file = BytesIO()
    written = ColumnFile(file, MAX_COLUMN_BYTES, len(columns))
    for name, column in columns.items():
        written.write(name, column)
    written.close()
    return file.getvalue()


def compress(data: bytes) -> Column:
    """Bytes as a compressed column."""
    return np.frombuffer(Compressor()(data), np.uint8)


def pack_ranges(found: ModuleRanges) -> dict[str, Column]:
    """The columns range_count and page_*."""
    columns, pages = range_columns([kept_ranges(found, Keeper())], Keeper(), Compressor())
    return {**columns, "page_data": np.frombuffer(b"".join(pages), np.uint8)}


def pack_table(columns: Sequence[Column]) -> Column:
    """The column of a packed table."""
    packed = packed_table([[Differences(column, Keeper())] for column in columns])
    return np.frombuffer(b"".join(Compressor().pieces(*packed)), np.uint8)


def encode_strings(strings: Sequence[str]) -> tuple[Column, Column]:
    """The columns string_ends and string_data."""
    sizes, data = encoded_strings(strings)
    return narrow(np.cumsum(sizes)), np.frombuffer(data, np.uint8)
