"""The index file of a large module, of whose code objects some are in memory at a time: the same bytes that ``builder.build``
makes of all of them side by side.

What a portion of the code objects says is kept compressed (``portions``). When all are there strings, symbols and frames get
their final numbers, and the file is written column after column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO

import numpy as np

from symd.index.builder import in_order_of_names
from symd.index.column_file import ColumnFile
from symd.index.format import Column, Compressor, encoded_strings, narrow
from symd.index.interner import PortionStrings
from symd.index.kept import Arena, Kept, KeptDifferences, packed_table
from symd.index.module_tables import DecodedObject, module_tables
from symd.index.portion_ranges import FRAME_COLUMNS, ModulePages, final_owner, module_frames
from symd.index.portions import Extent, Portion, portion
from symd.index.schema import SCHEMA, FunctionTable, RowTable
from symd.index.starts import encode_starts
from symd.index.summary import is_too_much, pack_around, shortened
from symd.model.columns import U64
from symd.model.debug_info import DebugInfo
from symd.model.summaries import ModuleSummary, ObjectSummary

PORTION = 1 << 18
"""So many line rows, scopes and symbols, or a few more, are worked on at a time."""
_OBJECT_ENTRIES = 256
"""As many of these an object counts for at least."""
_STRINGS = 1 << 14
"""Strings that are written at a time."""


def _named(beginning: str) -> tuple[str, ...]:
    return tuple(name for name in SCHEMA if name.startswith(beginning))


_OF_OBJECTS, _OF_SECTIONS, _OF_OWNERS, _WRITTEN = map(_named, ("object_", "section_", "owner_", "written_"))
_OF_KERNELS = ("kernel_object", "kernel_name", "kernel_section", "kernel_offset", "kernel_size")


class PiecewiseIndex:
    """Takes the code objects of a module in order, and then writes its index."""

    def __init__(self) -> None:
        self._strings, self._arena = PortionStrings(), Arena()
        self._portions: list[Portion] = []
        self._before = Extent()
        self._waiting: list[tuple[DecodedObject, ObjectSummary]] = []
        self._entries = 0

    def add(self, item: DecodedObject, summary: ObjectSummary) -> None:
        """One more code object."""
        self._waiting.append((item, summary))
        self._entries += _entries(item)

    def settle(self) -> None:
        """Work on what waits, if it is much; whoever added it keeps nothing of it meanwhile."""
        if self._entries >= PORTION:
            self._take()

    def _take(self) -> None:
        """Make a portion of what waits."""
        objects, summaries = [item for item, _ in self._waiting], [summary for _, summary in self._waiting]
        self._waiting, self._entries = [], 0
        self._strings.begin_portion()
        module = module_tables(objects, self._strings)
        objects = [item._replace(debug=None) for item in objects]  # the tables have what is needed of it
        made = portion(objects, module, summaries, self._strings, self._before, self._arena)
        self._before = self._before.and_then(made.extent)
        self._portions.append(made)

    def write(self, file: BinaryIO, summary: ModuleSummary, largest: int) -> int:
        """The whole index, into an empty file that may be read, too; its size. ``summary`` is the module's without its
        objects. Raises LimitExceeded where the index would take more than ``largest`` bytes."""
        if self._waiting or not self._portions:
            self._take()
        written = ColumnFile(file, largest)
        _Merged(self._portions, self._before, self._strings, self._arena).write(written, summary)
        return written.close()


def _entries(item: DecodedObject) -> int:
    found = _OBJECT_ENTRIES + len(item.code.functions) + len(item.code.kernels)
    if isinstance(item.debug, DebugInfo):
        found += len(item.debug.rows) + len(item.debug.scopes) + len(item.debug.scopes.range_scope)
    return found


class _Opened:
    """Kept columns, opened one after the other whenever somebody goes through them."""

    def __init__(self, kept: Sequence[KeptDifferences]) -> None:
        self._kept = kept

    def __iter__(self) -> Iterator[U64]:
        return (each.values() for each in self._kept)


class _Merged:
    """The portions of a module, with the numbers that strings, owners and frames have in the end."""

    def __init__(self, portions: Sequence[Portion], total: Extent, strings: PortionStrings, arena: Arena) -> None:
        self._portions, self._total, self._arena = portions, total, arena
        self._string = strings.final()
        texts = strings.values
        self._texts = [texts[number] for number in np.argsort(self._string).tolist()]
        self._frames = module_frames(portions, total, self._string, arena)
        self._ranges = ModulePages(portions, self._frames, arena)

    def write(self, file: ColumnFile, summary: ModuleSummary) -> None:
        """All columns, in the order of ``builder.columns``."""
        for name in (*_OF_OBJECTS, *_OF_SECTIONS):
            file.write(name, self._joined(name))
        self._write_kernels(file)
        for name, column in zip(("file_object", "file_name"), self._files(), strict=True):
            file.write(name, narrow(column))
        for name in _WRITTEN:
            file.write(name, self._written(name))
        for name in FRAME_COLUMNS:
            file.write(name, _end_to_end(self._frames.pieces[name]))
        for name in _OF_OWNERS:
            file.write(name, self._owners(name))
        for name, column in encode_starts(_Opened([each.ranges.start for each in self._portions])).items():
            file.write(name, column)
        self._write_pages(file)
        self._write_tables(file)
        self._write_strings(file)
        file.write("module_sha256", np.frombuffer(bytes.fromhex(summary.sha256), np.uint8))
        self._write_summary(file, summary)

    def _joined(self, name: str) -> Column:
        """A column whose pieces follow each other."""
        return self._final(name, _end_to_end([each.columns[name] for each in self._portions]))

    def _final(self, name: str, column: Column) -> Column:
        """With the final numbers of strings."""
        return narrow(self._string[column]) if SCHEMA[name].number_of == "string" else column

    def _write_kernels(self, file: ColumnFile) -> None:
        for name in _OF_KERNELS:
            file.write(name, self._joined(name))
        file.write("kernel_by_name", narrow(in_order_of_names(self._joined("kernel_name"), self._texts)))

    def _files(self) -> tuple[Column, Column]:
        """The (object, string number) pairs in order."""
        pairs = self._joined("file_object").astype(np.int64) << 32 | self._joined("file_name").astype(np.int64)
        pairs.sort()
        return pairs >> 32, pairs & 0xFFFFFFFF

    def _written(self, name: str) -> Column:
        found = [each.ranges.written[name] for each in self._portions]
        if name == "written_range":
            found = [own + each.before.ranges for own, each in zip(found, self._portions, strict=True)]
        if name == "written_frame":
            found = [number.values()[own] for own, number in zip(found, self._frames.number, strict=True)]
        return narrow(np.concatenate(found))

    def _owners(self, name: str) -> Column:
        """Nobody's entry, those of all scopes, those of all symbols."""
        scopes, symbols = zip(*(each.owners[name] for each in self._portions), strict=True)
        return self._final(name, _end_to_end([Kept(np.zeros(1, np.uint8), self._arena), *scopes, *symbols]))

    def _write_pages(self, file: ColumnFile) -> None:
        frames, pages = zip(*self._ranges.pages(), strict=True) if self._total.ranges else ((), ())
        file.write("range_count", narrow(np.array([self._total.ranges], np.uint64)))
        file.write("page_width", self._ranges.widths)
        file.write("page_frame", narrow(np.array(frames, np.uint64)))
        file.write("page_end", narrow(np.cumsum([len(page) for page in pages], dtype=np.uint64)))
        file.write_bytes("page_data", pages)

    def _write_tables(self, file: ColumnFile) -> None:
        functions = [self._functions(each) for each in self._portions]
        count = sum(each[0].count for each in functions)
        file.write("function_count", narrow(np.array([count])))
        file.write_bytes("function_data", _compressed(*packed_table(list(zip(*functions, strict=True)))))
        rows = [self._rows(name) for name in RowTable._fields]
        file.write_bytes("row_data", _compressed(*packed_table(rows)))

    def _rows(self, name: str) -> Iterable[KeptDifferences]:
        if name == "file":
            return (KeptDifferences(self._string[each.row_file.values()], self._arena) for each in self._portions)
        return (each.rows[name] for each in self._portions)

    def _functions(self, each: Portion) -> list[KeptDifferences]:
        """What only stands inlined, without an owner, is ordered by its names, object by object."""
        table = FunctionTable(*(column.values() for column in each.functions))
        table = table._replace(
            name=self._string[table.name],
            linkage_name=self._string[table.linkage_name],
            owner=final_owner(table.owner, each, self._total.scopes),
            symbol=final_owner(table.symbol, each, self._total.scopes),
        )
        lone = np.flatnonzero(table.owner == 0)
        order = np.arange(len(table.owner))
        order[lone] = lone[np.lexsort((table.linkage_name[lone], table.name[lone], table.object[lone]))]
        return [KeptDifferences(column[order], self._arena) for column in table]

    def _write_strings(self, file: ColumnFile) -> None:
        sizes = [encoded_strings(part)[0] for part in self._string_parts()]
        file.write("string_ends", narrow(np.cumsum(np.concatenate(sizes))))
        file.write_bytes("string_data", (encoded_strings(part)[1] for part in self._string_parts()))

    def _string_parts(self) -> Iterator[Sequence[str]]:
        return (self._texts[first : first + _STRINGS] for first in range(0, len(self._texts), _STRINGS))

    def _write_summary(self, file: ColumnFile, summary: ModuleSummary) -> None:
        objects = [each for portion in self._portions for each in portion.summaries]
        head, tail = pack_around(summary, len(objects))
        described: Iterable[bytes | Column] = (each.values() for each in objects)
        size = sum(each.count for each in objects)
        if is_too_much(size, sum(portion.listed for portion in self._portions)):
            found = shortened(each.values().data for each in objects)
            described, size = found, sum(map(len, found))
        file.write_bytes("summary", _compressed(len(head) + size + len(tail), chain([head], described, [tail])))


def _end_to_end(kept: Sequence[Kept]) -> Column:
    return narrow(np.concatenate([each.values() for each in kept]))


def _compressed(size: int, parts: Iterable[bytes | Column]) -> Iterator[bytes]:
    return Compressor().pieces(size, parts)
