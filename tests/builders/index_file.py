"""Index files with other bytes and checksums that fit: what a process that builds indexes could leave, and no disk.

Source of the layout: docs/index-format.md, read anew here."""

from __future__ import annotations

import struct
import zlib

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
