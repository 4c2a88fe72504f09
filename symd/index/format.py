"""The index file: named columns, one after the other, that are used where they are mapped, without parsing.

    bytes 0..7    magic "SYMDIDX" and NUL
    u32           VERSION
    u32           number of columns
    u32           CRC-32 of everything behind the header, as zlib computes it
    u32           0
    per column    64 bytes: name (36, NUL-padded), dtype (4, as NumPy writes it, NUL-padded), u64 offset, u64 entries,
                  u64 stored: entries that are in the file, which is 1 where all are equal
    then          each column's bytes, little-endian, aligned to its entries

docs/index-format.md describes every column. VERSION is part of the key under which the store keeps an index; a change
of a column's meaning or of the decoding in front of it raises it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from symd.errors import DataLoss

VERSION = 3
"""History: 1, the first; 2, location_owner and the tables of functions and files; 3, packed: starts as a bitmap, frames
numbered within blocks of ranges, equal entries stored once, rows and summary compressed."""

MAGIC = b"SYMDIDX\0"
_HEADER = struct.Struct("<8sIIII")
_COLUMN = struct.Struct("<36s4sQQQ")
_KINDS = frozenset(("|u1", "<u2", "<u4", "<u8"))
_LARGEST = 1 << 33
"""Bytes that a compressed column may claim to hold; more is damage."""

Column = NDArray[Any]
Columns = Mapping[str, Column]


def narrow(values: Column) -> Column:
    """The same non-negative integers in the narrowest unsigned type that holds them."""
    top = int(values.max()) if len(values) else 0
    for dtype in (np.uint8, np.uint16, np.uint32):
        if top <= np.iinfo(dtype).max:
            return values.astype(dtype, copy=False)
    return values.astype(np.uint64, copy=False)


def encode(columns: Columns) -> bytes:
    """Columns (one-dimensional, unsigned integers) as an index file."""
    at = _HEADER.size + _COLUMN.size * len(columns)
    table, chunks = [], []
    for name, column in columns.items():
        equal = len(column) > 1 and bool((column == column[0]).all())
        stored = column[:1] if equal else column
        data = np.ascontiguousarray(stored).tobytes()
        pad = -at % column.itemsize
        chunks += [bytes(pad), data]
        table.append(_COLUMN.pack(name.encode(), column.dtype.str.encode(), at + pad, len(column), len(stored)))
        at += pad + len(data)
    body = b"".join([*table, *chunks])
    return _HEADER.pack(MAGIC, VERSION, len(columns), zlib.crc32(body), 0) + body


def decode(buffer: memoryview | bytes) -> dict[str, Column]:
    """The columns of an index file as read-only views of ``buffer``. Raises DataLoss where it is not whole."""
    if len(buffer) < _HEADER.size:
        raise DataLoss("is too short", where="index file")
    magic, version, count, checksum, _ = _HEADER.unpack_from(buffer)
    if magic != MAGIC or version != VERSION:
        raise DataLoss(f"is not an index of version {VERSION}", where="index file")
    if _HEADER.size + count * _COLUMN.size > len(buffer):
        raise DataLoss("ends inside its column table", where="index file")
    if zlib.crc32(memoryview(buffer)[_HEADER.size :]) != checksum:
        raise DataLoss("has bytes that are not what they were", where="index file")
    return dict(_column(buffer, _HEADER.size + number * _COLUMN.size) for number in range(count))


def _column(buffer: memoryview | bytes, at: int) -> tuple[str, Column]:
    raw_name, raw_kind, offset, entries, stored = _COLUMN.unpack_from(buffer, at)
    name, kind = raw_name.rstrip(b"\0").decode("ascii", "replace"), raw_kind.rstrip(b"\0").decode("ascii", "replace")
    if kind not in _KINDS or (stored != entries and (stored != 1 or entries >= _LARGEST)):
        raise DataLoss(f"describes column {name!r} in no known way", where="index file")
    dtype = np.dtype(kind)
    if offset + stored * dtype.itemsize > len(buffer):
        raise DataLoss("ends inside a column", where="index file")
    column: Column = np.frombuffer(buffer, dtype, stored, offset)
    if stored != entries:
        column = np.broadcast_to(column, entries)
    column.flags.writeable = False
    return name, column


def compress(data: bytes) -> Column:
    """Bytes as a compressed column (Zstandard, with the size inside)."""
    return np.frombuffer(zstandard.ZstdCompressor(level=1).compress(data), np.uint8)


def decompress(column: Column) -> bytes:
    """The bytes of a compressed column. Raises DataLoss."""
    data = column.tobytes()
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= _LARGEST:
            raise DataLoss("has a compressed column of no believable size", where="index file")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DataLoss(f"has a compressed column that does not open: {error}", where="index file") from error


class Strings(Sequence[str]):
    """Interned strings over two columns, decoded when asked for. Entry 0 is ""."""

    def __init__(self, ends: Column, data: Column) -> None:
        self._ends = ends
        self._data = memoryview(np.ascontiguousarray(data).data)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        start = self._ends.item(at - 1) if at > 0 else 0
        return str(self._data[start : self._ends.item(at)], "utf-8", "replace")


def encode_strings(strings: Sequence[str]) -> tuple[Column, Column]:
    """(ends, bytes) columns of ``strings``."""
    encoded = [text.encode("utf-8", "replace") for text in strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.uint64)
    return narrow(ends), np.frombuffer(b"".join(encoded), np.uint8)
