"""The index file: named columns, one after the other, which are used where they are mapped, without parsing.

    bytes 0..7    magic "SYMDIDX" and NUL
    u32           VERSION
    u32           number of columns
    u32           CRC-32 of the column table and of the checksums at the end, as zlib computes it
    u32           0
    per column    64 bytes: name (36, NUL-padded), dtype (4, as NumPy writes it, NUL-padded), u64 offset, u64 entries,
                  u64 stored: entries that are in the file, which is 1 where all are equal (of what there is more than
                  one of, some column differs: there are never more entries than the file has bytes)
    then          each column's bytes, little-endian, aligned to its entries
    at the end    u32 a block: the CRC-32 of each 4096 bytes after the column table

``schema`` names every column. VERSION is part of the key under which the store keeps an index; a change of a column's
meaning or of the decoding in front of it raises it. Checksums are made here, and all of them compared when an index is
opened; ``symd.core.index_lookup`` compares those of the blocks that one answer is read from.

Source: docs/index-format.md.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import zstandard
from numpy.typing import NDArray

from symd.core.index_lookup import CHECKSUM, CHECKSUM_BLOCK, COLUMN, COLUMN_NAME, HEADER, MAGIC, Damaged, columns_end
from symd.errors import DataLoss
from symd.index import MAX_COLUMN_BYTES, VERSION

_DTYPES: dict[bytes, np.dtype[Any]] = {
    kind.encode().ljust(4, b"\0"): np.dtype(kind) for kind in ("|u1", "<u2", "<u4", "<u8")
}
_UNSIGNED = tuple(((1 << 8 * dtype.itemsize) - 1, dtype) for dtype in _DTYPES.values())
"""Types, the narrowest first, and the largest number of each."""
_LEVEL = 1
"""Zstandard's: more takes several times as long for a few per cent."""
_AT_ONCE = 1 << 22
"""Bytes that are compressed in one step. More, which are compressed as they come, make a frame that differs a
little."""

Column = NDArray[Any]


def narrow(values: Column) -> Column:
    """``values``, which are non-negative integers, in the narrowest unsigned type that holds them."""
    top = int(np.maximum.reduce(values)) if len(values) else 0
    return values.astype(next(dtype for largest, dtype in _UNSIGNED if top <= largest), copy=False)


def table_size(columns: int) -> int:
    """Bytes in front of the first of so many columns."""
    return HEADER.size + COLUMN.size * columns


def front(table: Sequence[bytes], blocks: bytes) -> tuple[bytes, bytes]:
    """What is in front of the columns: the header, and the table of these entries. ``blocks`` are the checksums
    behind the columns."""
    joined = b"".join(table)
    return HEADER.pack(MAGIC, VERSION, len(table), head_checksum(joined, blocks), 0), joined


def described_column(name: str, dtype: np.dtype[Any], offset: int, entries: int, stored: int) -> bytes:
    """A column's entry in the table."""
    return COLUMN.pack(name.encode(), dtype.str.encode(), offset, entries, stored)


def decode(buffer: memoryview | bytes) -> Stored:
    """The columns of an index file. Raises DataLoss where it is not whole."""
    if len(buffer) < HEADER.size:
        raise DataLoss("is too short", where="index file")
    magic, version, count, checksum, rest = HEADER.unpack_from(buffer)
    if magic != MAGIC or version != VERSION or rest:
        raise DataLoss(f"is not an index of version {VERSION}", where="index file")
    if table_size(count) > len(buffer):
        raise DataLoss("ends inside its column table", where="index file")
    first = table_size(count)
    table = bytes(buffer[HEADER.size : first])
    try:
        return Stored(sound_columns(memoryview(buffer), table, first, checksum), table)
    except Damaged as error:
        raise DataLoss(str(error), where="index file") from None


class Stored:
    """The columns of an index file by name, as read-only views of it that are made when they are asked for: many an
    index is opened for one question, which needs few of them. Raises DataLoss for a column that is not in the file, has
    no known type or lies outside the file."""

    def __init__(self, buffer: memoryview, table: bytes) -> None:
        """``buffer`` is the file up to where its columns end."""
        self._buffer, self._table = buffer, table

    def __getitem__(self, name: str) -> Column:
        dtype, offset, entries, stored = self._described(name)
        column: Column = np.frombuffer(self._buffer, dtype, stored, offset)
        if stored != entries:
            column = np.broadcast_to(column, entries)
        column.flags.writeable = False
        return column

    def keys(self) -> Iterable[str]:
        return self.described().keys()

    def largest(self, name: str) -> int:
        """The largest number of a column that has entries."""
        dtype, offset, _, stored = self._described(name)
        found: int = np.maximum.reduce(np.frombuffer(self._buffer, dtype, stored, offset)).item()
        return found

    def numbers(self, name: str) -> memoryview[int]:
        """A column for who asks for one number at a time."""
        dtype, offset, entries, stored = self._described(name)
        if stored != entries:
            return self[name].data
        code: Any = dtype.char
        return self._buffer[offset : offset + stored * dtype.itemsize].cast(code)

    def _described(self, name: str) -> tuple[np.dtype[Any], int, int, int]:
        """(type, file offset, entries, those of them that are stored)."""
        at = self._table.find(name.encode().ljust(COLUMN_NAME, b"\0"))
        if at < 0 or at % COLUMN.size:
            raise DataLoss(f"lacks column {name!r}", where="index file")
        _, kind, offset, entries, stored = COLUMN.unpack_from(self._table, at)
        return self._sound(name, kind, offset, entries, stored), offset, entries, stored

    def _sound(self, name: str, kind: bytes, offset: int, entries: int, stored: int) -> np.dtype[Any]:
        """The type of a column that is described so."""
        dtype = _DTYPES.get(kind)
        if dtype is None or (stored != entries and (stored != 1 or entries > len(self._buffer))):
            raise DataLoss(f"gives column {name!r} an unknown type or an impossible size", where="index file")
        if offset + stored * dtype.itemsize > len(self._buffer) or offset % dtype.itemsize:
            raise DataLoss(f"ends inside column {name!r}", where="index file")
        return dtype

    def described(self) -> dict[str, tuple[int, int]]:
        """(bytes of an entry, entries) of every column, by name. Raises DataLoss as a look at each would, and for one
        that is there twice."""
        found = {}
        for raw, *described in COLUMN.iter_unpack(self._table):
            name = raw.rstrip(b"\0").decode("ascii", "replace")
            found[name] = self._sound(name, *described).itemsize, described[2]
        if len(found) * COLUMN.size != len(self._table):
            raise DataLoss("has a column twice", where="index file")
        return found


class Compressor:
    """Makes Zstandard frames that say how large their content is."""

    def __init__(self) -> None:
        self._zstandard = zstandard.ZstdCompressor(level=_LEVEL)

    def __call__(self, *parts: Column | bytes) -> bytes:
        """The parts one after the other, as one frame."""
        return self._zstandard.compress(b"".join([part if isinstance(part, bytes) else part.data for part in parts]))

    def pieces(self, size: int, parts: Iterable[Column | bytes]) -> Iterator[bytes]:
        """One Zstandard frame of ``parts``, which take ``size`` bytes together, as pieces. Neither large parts nor
        their frame need be in memory as a whole; the frame is the same however the parts are cut."""
        if size <= _AT_ONCE:
            yield self(*parts)
            return
        frame = self._zstandard.compressobj(size=size)
        for part in parts:
            yield frame.compress(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
        yield frame.flush()


_ZSTD_HEADER = 18
"""Bytes that the header of a zstd frame has at most."""


def decompress(column: Column, largest: int = MAX_COLUMN_BYTES) -> bytes:
    """The bytes of a compressed column, at most ``largest``. Raises DataLoss."""
    data = column.tobytes()
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= largest:
            raise DataLoss("has a compressed column of no believable size", where="index file")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DataLoss(f"has a compressed column that does not open: {error}", where="index file") from error


def decompressed_size(column: Column) -> int:
    """The bytes that a compressed column says it expands to; 0 where ``decompress`` would not believe it."""
    try:
        size: int = zstandard.frame_content_size(column[:_ZSTD_HEADER].tobytes())
    except zstandard.ZstdError:
        return 0
    return size if 0 <= size <= MAX_COLUMN_BYTES else 0


class Strings(Sequence[str]):
    """Interned strings over two columns, decoded when asked for. Entry 0 is ""."""

    def __init__(self, ends: Column, data: Column) -> None:
        self._ends = ends
        self._data = memoryview(np.ascontiguousarray(data).data)
        self._numbers = ends.data  # whose entries are Python's numbers, in less time

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        numbers = self._numbers
        return str(self._data[numbers[at - 1] if at > 0 else 0 : numbers[at]], "utf-8", "replace")

    def by_number(self, numbers: Iterable[int]) -> dict[int, str]:
        """The strings of these numbers, each decoded once: many things may have one, and it may be as long as whoever
        made the module liked."""
        return {number: self[number] for number in set(numbers)}

    def holding(self, text: str) -> Column:
        """The numbers of the strings that ``text`` is a part of, ascending."""
        wanted = text.encode("utf-8", "replace")
        if not wanted:
            return np.arange(len(self))
        search, ends = re.compile(re.escape(wanted)).search, self._ends.data
        numbers, at = [], 0
        while match := search(self._data, at):
            number = bisect_right(ends, match.start())
            at = ends[number]  # further matches that begin in this string tell nothing new
            if match.end() <= at:
                numbers.append(number)
        return np.array(numbers, np.int64)

    def equal_to(self, texts: Collection[str]) -> dict[str, list[int]]:
        """For those of ``texts`` that are here, their numbers, ascending: one at most, where each is interned once."""
        wanted = [text.encode("utf-8", "replace") for text in texts]
        sizes = np.diff(self._ends, prepend=self._ends.dtype.type(0))
        alike = np.flatnonzero(np.isin(sizes, [len(each) for each in wanted]))
        size, end, data = sizes[alike], self._ends[alike].astype(np.int64), np.frombuffer(self._data, np.uint8)
        filled = np.flatnonzero(size)
        first, last = (np.array([each[at] for each in wanted if each], np.uint8) for at in (0, -1))
        ends = np.isin(data[end[filled] - size[filled]], first) & np.isin(data[end[filled] - 1], last)
        known, found = frozenset(texts), dict[str, list[int]]()
        for number in np.delete(alike, filled[~ends]).tolist():
            text = self[number]
            if text in known:
                found.setdefault(text, []).append(number)
        return found

    def sizes(self, numbers: Column) -> int:
        """Bytes of the strings of these numbers together."""
        ends = np.concatenate([np.zeros(1, np.int64), self._ends.astype(np.int64)])
        chosen = numbers.astype(np.int64)
        return int((ends[chosen + 1] - ends[chosen]).sum())

    @property
    def text_bytes(self) -> int:
        """Bytes of all strings together."""
        return len(self._data)


def encoded_strings(strings: Sequence[str]) -> tuple[Column, bytes]:
    """(their sizes in bytes, their bytes end to end)."""
    data = "".join(strings).encode("utf-8", "replace")
    sizes = np.fromiter(map(len, strings), np.uint64, len(strings))
    if int(sizes.sum()) != len(data):
        sizes = np.array([len(text.encode("utf-8", "replace")) for text in strings], np.uint64)
    return sizes, data


def block_checksums(columns: memoryview | bytes) -> bytes:
    """One after the other, as they are behind the columns, little-endian."""
    return b"".join(
        [
            crc32(columns[at : at + CHECKSUM_BLOCK]).to_bytes(CHECKSUM, "little")
            for at in range(0, len(columns), CHECKSUM_BLOCK)
        ]
    )


def head_checksum(table: bytes, blocks: bytes) -> int:
    """The CRC-32 in the header of an index file: that of the column table and of the checksums of all blocks."""
    return crc32(blocks, crc32(table))


def sound_columns(file: memoryview, table: bytes, first: int, checksum: int) -> memoryview:
    """The file up to where its columns end, all of it compared. They begin behind the ``table``, at ``first``;
    ``checksum`` is the header's. Raises ``Damaged``."""
    stop = columns_end(len(file), first)
    blocks = bytes(file[stop:])
    is_whole = stop >= first and head_checksum(table, blocks) == checksum
    if not is_whole or block_checksums(file[first:stop]) != blocks:
        raise Damaged("has a checksum mismatch")
    return file[:stop]
