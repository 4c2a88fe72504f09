"""Index files written column after column, from code objects and their debug information. Each portion of the code
objects is indexed by itself and kept (``portions``, ``packing``). Most modules are one portion; of a large
one, which has many, the columns of each wait compressed until all are there. Then code objects, sections, owners,
frames and ranges get the numbers that they have in the module: those of a portion count from the end of the ones before
it. Strings have theirs already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain
from typing import BinaryIO

import numpy as np

from symd.core.index_lookup import CHECKSUM_BLOCK
from symd.errors import LimitExceeded
from symd.index import MAX_COLUMN_BYTES
from symd.index.format import (
    Column,
    Compressor,
    block_checksums,
    described_column,
    encoded_strings,
    front,
    narrow,
    table_size,
)
from symd.index.module_tables import DecodedObject, module_tables
from symd.index.packing import CompressedColumn, Differences, Keeper, encode_starts, packed_table
from symd.index.portions import KeptRanges, Portion, PortionExtent, portion, range_columns
from symd.index.schema import SCHEMA, FunctionTable, RowTable
from symd.index.summary import is_too_much, pack_around, shortened
from symd.model.columns import U64, Interner
from symd.model.debug_info import DebugInfo
from symd.model.summaries import ModuleSummary, ObjectSummary

_BLOCKS_AT_ONCE = 256
"""Blocks that are read at a time for their checksums."""


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
        """Write what is in front of the columns; how many bytes the file has."""
        self._file.truncate(self._at)
        self._file.seek(table_size(len(self._table)))
        checksums = b"".join(map(block_checksums, iter(lambda: self._file.read(_BLOCKS_AT_ONCE * CHECKSUM_BLOCK), b"")))
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


__all__ = ("DecodedObject", "IndexBuilder", "build", "build_unless_suspect")

PORTION = 1 << 18
"""Line rows, scopes and symbols that are worked on at a time: as many, or a few more."""
_OBJECT_ENTRIES = 256
"""Line rows, scopes and symbols that a code object counts for at least."""
_STRINGS = 1 << 14
"""Strings that are written at a time."""


def build(objects: Sequence[DecodedObject], summary: ModuleSummary) -> bytes:
    """The index file of a module."""
    return _taken(objects, summary).made(summary)


def build_unless_suspect(objects: Sequence[DecodedObject], summary: ModuleSummary) -> bytes | None:
    """The index file of a part of a module's debug data; None where the part seems to contradict itself, which only
    the whole decides."""
    index = _taken(objects, summary)
    return None if index.is_suspect else index.made(summary)


def _taken(objects: Sequence[DecodedObject], summary: ModuleSummary) -> IndexBuilder:
    index = IndexBuilder(Keeper())
    index.add(objects, summary.objects)
    index.take()
    return index


class IndexBuilder:
    """Takes the code objects of a module in order, and then writes its index."""

    def __init__(self, keeper: Keeper) -> None:
        self._strings, self._keeper = Interner(), keeper
        self._portions: list[Portion] = []
        self._objects: list[DecodedObject] = []
        self._summaries: list[ObjectSummary] = []
        self._entries = 0

    def add(self, objects: Sequence[DecodedObject], summaries: Sequence[ObjectSummary]) -> None:
        """Further code objects."""
        self._objects += objects
        self._summaries += summaries

    def settle(self) -> None:
        """Make a portion of what waits, if it is much with the object that was added last; whoever added it keeps
        nothing of it meanwhile."""
        self._entries += _entries(self._objects[-1])
        if self._entries >= PORTION:
            self.take()

    def take(self) -> None:
        """Make a portion of what waits."""
        objects, summaries = self._objects, self._summaries
        self._objects, self._summaries, self._entries = [], [], 0
        module = module_tables(objects, self._strings)
        objects = [DecodedObject(item.code, None) for item in objects]  # the tables have what is needed of it
        self._portions.append(portion(objects, module, summaries, self._strings, self._keeper))

    @property
    def is_suspect(self) -> bool:
        """Whether debug data seems to contradict itself."""
        return any(each.suspected for each in self._portions)

    def made(self, summary: ModuleSummary) -> bytes:
        """The whole index, as bytes. Nothing is asked of the objects of ``summary``."""
        file = BytesIO()
        self.write(file, summary, MAX_COLUMN_BYTES)
        return file.getvalue()

    def write(self, file: BinaryIO, summary: ModuleSummary, largest: int) -> int:
        """The whole index, into an empty file that may be read, too; its size. Nothing is asked of the objects of
        ``summary``. Raises LimitExceeded where the index would take more than ``largest`` bytes."""
        if self._objects or not self._portions:
            self.take()
        portions, texts = self._portions, self._strings.values
        if len(portions) > 1:
            portions = [*_merged(portions, self._keeper)]
        written = ColumnFile(file, largest)
        _Writer(portions, texts, self._keeper, written).write(summary)
        return written.close()


def _entries(item: DecodedObject) -> int:
    found = _OBJECT_ENTRIES + len(item.code.functions) + len(item.code.kernels)
    if isinstance(item.debug, DebugInfo):
        found += len(item.debug.rows) + len(item.debug.scopes) + len(item.debug.scopes.range_scope)
    return found


class _Opened:
    """Kept columns, opened one after the other whenever somebody goes through them."""

    def __init__(self, kept: Sequence[CompressedColumn]) -> None:
        self._kept = kept

    def __iter__(self) -> Iterator[U64]:
        return (each.values() for each in self._kept)


class _Writer:
    """Writes the portions of a module and its strings."""

    def __init__(self, portions: Sequence[Portion], texts: Sequence[str], keeper: Keeper, file: ColumnFile) -> None:
        self._portions, self._texts, self._keeper, self._file = portions, texts, keeper, file
        self._compress = Compressor()

    def write(self, summary: ModuleSummary) -> None:
        """All columns."""
        self._write_joined("object", "section", "kernel")
        self._write_kernels_by_name()
        self._write_joined("file", "written", "frame", "owner")
        for name, column in encode_starts(_Opened([each.ranges.start for each in self._portions])).items():
            self._file.write(name, column)
        self._write_pages()
        count = sum(each.functions[0].steps.entries for each in self._portions)
        self._file.write("function_count", narrow(np.array([count])))
        self._write_table("function_data", [each.functions for each in self._portions])
        self._write_table("row_data", [each.rows for each in self._portions])
        self._write_strings()
        self._file.write("module_sha256", np.frombuffer(bytes.fromhex(summary.sha256), np.uint8))
        self._write_summary(summary)

    def _write_joined(self, *kinds: str) -> None:
        for name in self._portions[0].columns:
            if name.partition("_")[0] in kinds:
                self._write(name, [each.columns[name] for each in self._portions])

    def _write(self, name: str, pieces: Sequence[CompressedColumn]) -> None:
        self._file.write(name, _end_to_end(pieces))

    def _write_kernels_by_name(self) -> None:
        """Kernels' numbers in the order of their names, so that one is found without reading all."""
        number = _end_to_end([each.columns["kernel_name"] for each in self._portions])
        names = [self._texts[each] for each in number.tolist()]
        order = np.array(sorted(range(len(names)), key=names.__getitem__), np.uint32)
        self._file.write("kernel_by_name", narrow(order))

    def _write_pages(self) -> None:
        columns, pages = range_columns([each.ranges for each in self._portions], self._keeper, self._compress)
        for name, column in columns.items():
            self._file.write(name, column)
        self._file.write_bytes("page_data", pages)

    def _write_table(self, name: str, tables: Sequence[Sequence[Differences]]) -> None:
        self._file.write_bytes(name, self._compress.pieces(*packed_table([*zip(*tables, strict=True)])))

    def _write_strings(self) -> None:
        sizes, kept = [], []
        for first in range(0, len(self._texts), _STRINGS):
            size, data = encoded_strings(self._texts[first : first + _STRINGS])
            sizes.append(size)
            kept.append(self._keeper.keep(np.frombuffer(data, np.uint8)))
        self._file.write("string_ends", narrow(np.cumsum(np.concatenate(sizes))))
        self._file.write_bytes("string_data", (each.values().tobytes() for each in kept))

    def _write_summary(self, summary: ModuleSummary) -> None:
        objects = [each for portion in self._portions for each in portion.summaries]
        head, tail = pack_around(summary, len(objects))
        described: Iterable[bytes | Column] = (each.values() for each in objects)
        size = sum(each.entries for each in objects)
        if is_too_much(size, sum(portion.listed for portion in self._portions)):
            found = shortened(each.values().data for each in objects)
            described, size = found, sum(map(len, found))
        parts = chain([head], described, [tail])
        self._file.write_bytes("summary", self._compress.pieces(len(head) + size + len(tail), parts))


def _end_to_end(pieces: Sequence[CompressedColumn]) -> Column:
    """Columns as narrow as they are, one after the other."""
    return pieces[0].values() if len(pieces) == 1 else np.concatenate([each.values() for each in pieces])


def _merged(portions: Sequence[Portion], keeper: Keeper) -> Iterator[Portion]:
    """The portions of a module of several, with the numbers that hold for the whole module. Owner 0, nobody, is the
    first portion's alone."""
    before = PortionExtent()
    for each in portions:
        columns = {name: _shifted(name, kept.values(), before) for name, kept in each.columns.items()}
        if before.objects:
            columns |= {name: column[1:] for name, column in columns.items() if SCHEMA[name].entries == "owner"}
        yield each._replace(
            columns={name: keeper.keep(narrow(column)) for name, column in columns.items()},
            ranges=_renumbered_ranges(each.ranges, before, keeper),
            functions=_renumbered_functions(each.functions, before, keeper),
            rows=_renumbered_rows(each.rows, before),
        )
        before = before.and_then(each.extent)


def _shifted(name: str, column: Column, before: PortionExtent) -> Column:
    """A column of the index file."""
    first = {"section_base": before.text, "written_range": before.ranges}.get(name, 0)
    return column.astype(np.uint64) + np.uint64(first) if first else _renumbered(SCHEMA[name].number_of, column, before)


def _renumbered(what: str, column: Column, before: PortionExtent) -> Column:
    """Numbers of these, named as ``Spec.number_of`` names them."""
    counts = {"code object": before.objects, "text section": before.sections, "frame": before.frames}
    if what == "owner":
        return np.where(column > 0, column.astype(np.uint64) + np.uint64(before.owners), np.uint64(0))
    return column.astype(np.uint64) + np.uint64(counts[what]) if counts.get(what) else column


def _renumbered_ranges(ranges: KeptRanges, before: PortionExtent, keeper: Keeper) -> KeptRanges:
    start, text = ranges.start, np.uint64(before.text)
    return ranges._replace(
        start=CompressedColumn(np.dtype(np.uint64), start.entries, lambda: start.values().astype(np.uint64) + text),
        frame=keeper.keep(_renumbered("frame", ranges.frame.values(), before)),
    )


def _renumbered_rows(kept: Sequence[Differences], before: PortionExtent) -> list[Differences]:
    rows = dict(zip(RowTable._fields, kept, strict=True))
    return [*{**rows, "section": rows["section"].moved(before.sections)}.values()]


def _renumbered_functions(kept: Sequence[Differences], before: PortionExtent, keeper: Keeper) -> list[Differences]:
    table = FunctionTable(*(column.values() for column in kept))
    section = table.section.astype(np.int64)
    table = table._replace(
        object=_renumbered("code object", table.object, before),
        owner=_renumbered("owner", table.owner, before),
        symbol=_renumbered("owner", table.symbol, before),
        section=np.where(section > 0, section + before.sections, 0),
    )
    return [Differences(column, keeper) for column in table]
