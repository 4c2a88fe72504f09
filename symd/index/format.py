"""The index file: named columns, one after the other, that are used where they are mapped, without parsing.

    bytes 0..7    magic "SYMDIDX" and NUL
    u32           VERSION
    u32           number of columns
    per column    64 bytes: name (40, NUL-padded), dtype (8, as NumPy writes it, NUL-padded), u64 offset, u64 length
    then          each column's bytes, little-endian, aligned to 8

docs/index-format.md describes every column. VERSION is part of the key under which the store keeps an index; a change
of a column's meaning or of the decoding in front of it raises it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import DataLoss

VERSION = 1
"""History: 1, the first."""

MAGIC = b"SYMDIDX\0"
_HEADER = struct.Struct("<8sII")
_COLUMN = struct.Struct("<40s8sQQ")

Column = NDArray[Any]
Columns = Mapping[str, Column]


def narrow(values: Column) -> Column:
    """The same non-negative integers in the narrowest unsigned type that holds them."""
    top = int(values.max()) if len(values) else 0
    for dtype in (np.uint8, np.uint16, np.uint32):
        if top <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.uint64)


def encode(columns: Columns) -> bytes:
    """Columns (one-dimensional, unsigned integers) as an index file."""
    at = _HEADER.size + _COLUMN.size * len(columns)
    table, chunks = [], []
    for name, column in columns.items():
        data = np.ascontiguousarray(column).tobytes()
        pad = -at % 8
        chunks += [bytes(pad), data]
        table.append(_COLUMN.pack(name.encode(), column.dtype.str.encode(), at + pad, len(data)))
        at += pad + len(data)
    return b"".join([_HEADER.pack(MAGIC, VERSION, len(columns)), *table, *chunks])


def decode(buffer: memoryview | bytes) -> dict[str, Column]:
    """The columns of an index file as read-only views of ``buffer``. Raises DataLoss where it is not whole."""
    if len(buffer) < _HEADER.size:
        raise DataLoss("is too short", where="index file")
    magic, version, count = _HEADER.unpack_from(buffer)
    if magic != MAGIC or version != VERSION:
        raise DataLoss(f"is not an index of version {VERSION}", where="index file")
    if _HEADER.size + count * _COLUMN.size > len(buffer):
        raise DataLoss("ends inside its column table", where="index file")
    return dict(_column(buffer, _HEADER.size + number * _COLUMN.size) for number in range(count))


def _column(buffer: memoryview | bytes, at: int) -> tuple[str, Column]:
    name, dtype, offset, length = _COLUMN.unpack_from(buffer, at)
    if offset + length > len(buffer):
        raise DataLoss("ends inside a column", where="index file")
    kind = np.dtype(dtype.rstrip(b"\0").decode())
    column: Column = np.frombuffer(buffer, kind, length // kind.itemsize, offset)
    column.flags.writeable = False
    return name.rstrip(b"\0").decode(), column


class Strings(Sequence[str]):
    """Interned strings over two columns, decoded when asked for. Entry 0 is ""."""

    def __init__(self, ends: Column, data: Column) -> None:
        self._ends = ends
        self._data = data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        start = int(self._ends[at - 1]) if at > 0 else 0
        return bytes(self._data[start : int(self._ends[at])]).decode("utf-8", "replace")


def encode_strings(strings: Sequence[str]) -> tuple[Column, Column]:
    """(ends, bytes) columns of ``strings``."""
    encoded = [text.encode("utf-8", "replace") for text in strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.uint64)
    return narrow(ends), np.frombuffer(b"".join(encoded), np.uint8)
