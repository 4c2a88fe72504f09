"""Each distinct location that answers pointed to, once, whatever table it stood in: what millions of rows need of strings and frames."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers, Locations, Reason
from symd.model.columns import I64, U8, U32
from symd.model.device import DeviceAnswers
from symd.model.locations import of_reasons
from symd.profiles.sample_tables import location_ids
from symd.profiles.sample_tables.interned_texts import InternedTexts

_REASONS = of_reasons()


class FrameColumns(NamedTuple):
    """Frames, those of one location after another's, each location's innermost first. Texts are numbers, 0 for none; so are lines and
    columns."""

    function: U32
    linkage_name: U32
    file: U32
    line: U32
    column: U32
    inlined: U32


class EntryColumns(NamedTuple):
    """Entries of a registry: the number of the location, its reason (0 for entry 0 alone), module and kernel as numbers of texts, and how
    many frames it has."""

    location: I64
    reason: U8
    module: U32
    kernel: U32
    depth: U32


class RegistryColumns(NamedTuple):
    """All entries of a registry. The frames of entry i are those from ``frame_ends[i] - entries.depth[i]`` up to ``frame_ends[i]``."""

    entries: EntryColumns
    frames: FrameColumns
    frame_ends: I64
    texts: Sequence[str]


class LocationRegistry:
    """Entry 0 stands for rows that ask nothing. Entries stay; one takes some 150 bytes, and 25 a frame. Not safe to use from several
    threads at once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {0: 0}
        self._texts = InternedTexts()
        nothing = np.zeros(1, np.uint32)
        first = EntryColumns(nothing.astype(np.int64), nothing.astype(np.uint8), nothing, nothing, nothing)
        self._entry_pieces = [first]
        self._frame_pieces: list[FrameColumns] = []
        self._tables: dict[tuple[str, int], tuple[weakref.ref[Locations], U32]] = {}
        self._columns: RegistryColumns | None = None

    def __len__(self) -> int:
        return len(self._numbers)

    def of_reason(self, reason: Reason) -> int:
        """The entry of rows about which nothing else is known."""
        (entry,) = self._entries(_REASONS, np.array([reason], np.uint32), [None], np.zeros(1, np.int64)).tolist()
        return int(entry)

    def of_answers(self, module: str, answers: Answers) -> U32:
        """The entry of each answer about a module."""
        table = answers.locations
        known = self._known(module, table)
        found = known[answers.location]
        if found.all():
            return found
        used = np.zeros(len(table), np.bool_)
        used[answers.location] = True
        used &= known == 0
        numbers = np.flatnonzero(used).astype(np.uint32)
        known[numbers] = self._entries(table, numbers, [module], np.zeros(len(numbers), np.int64))
        return known[answers.location]

    def of_device_answers(self, found: DeviceAnswers) -> U32:
        """The entry of each answer about a context."""
        modules = [None, *found.modules]
        pairs = found.answers.location.astype(np.int64) * len(modules) + found.module
        distinct, back = np.unique(pairs, return_inverse=True)
        numbers, of_each = np.divmod(distinct, len(modules))
        return self._entries(found.answers.locations, numbers.astype(np.uint32), modules, of_each)[back]

    def columns(self) -> RegistryColumns:
        """All entries; the same value until there is a new one."""
        if self._columns is None or len(self._columns.entries.location) != len(self):
            entries = EntryColumns(*map(np.concatenate, zip(*self._entry_pieces, strict=True)))
            frames = FrameColumns(*map(np.concatenate, zip(_room_for_frames(0), *self._frame_pieces, strict=True)))
            self._entry_pieces, self._frame_pieces = [entries], [frames]
            ends = np.cumsum(entries.depth, dtype=np.int64)
            self._columns = RegistryColumns(entries, frames, ends, self._texts.texts)
        return self._columns

    def _known(self, module: str, table: Locations) -> U32:
        """For each location of the table its entry, 0 where it is not known yet; kept for tables that further answers point into."""
        if not table.shared:
            return np.zeros(len(table), np.uint32)
        key = module, id(table)
        kept = self._tables.get(key)
        if kept is not None and kept[0]() is table:
            return kept[1]
        known = np.zeros(len(table), np.uint32)
        self._tables[key] = weakref.ref(table, lambda _: self._tables.pop(key, None)), known
        return known

    def _entries(self, table: Locations, numbers: U32, modules: Sequence[str | None], of_each: I64) -> U32:
        """The entries of some locations of a table, each with its module; what is new is taken up."""
        module_texts = np.array([self._texts.number(module or "") for module in modules], np.uint32)
        module_hashes = np.array([location_ids.module_hash(module) for module in modules], np.uint64)
        levels = self._levels(table, numbers)
        kernel = self._texts.numbers(table.strings, table.kernel[numbers])
        state = location_ids.begun(module_hashes[of_each], table.reason[numbers], self._texts.hashes[kernel])
        for rows, frames in levels:
            hashes = [self._texts.hashes[each] for each in (frames.function, frames.linkage_name, frames.file)]
            state[rows] = location_ids.with_frames(state[rows], hashes, frames.line, frames.column, frames.inlined)
        ids = location_ids.ended(state)
        known = self._numbers
        found = np.array([known.get(each, 0) for each in ids.tolist()], np.uint32)
        missing = np.flatnonzero(found == 0)
        if len(missing):
            first = np.zeros(len(ids), np.bool_)
            first[missing[np.unique(ids[missing], return_index=True)[1]]] = True
            depth = np.zeros(len(ids), np.uint32)
            for rows, _ in levels:
                depth[rows] += np.uint32(1)
            self._add(EntryColumns(ids, table.reason[numbers], module_texts[of_each], kernel, depth), levels, first)
            found[missing] = [known[each] for each in ids[missing].tolist()]
        return found

    def _levels(self, table: Locations, numbers: U32) -> list[tuple[I64, FrameColumns]]:
        """The frames of locations level by level, innermost first: which of ``numbers`` have one there, and these."""
        rows = np.flatnonzero((table.function[numbers] != 0) | (table.file[numbers] != 0))
        at = numbers[rows]
        levels = []
        while len(rows):
            function, linkage_name, file = (
                self._texts.numbers(table.strings, column[at])
                for column in (table.function, table.linkage_name, table.file)
            )
            inlined = table.inlined[at].astype(np.uint32)
            levels.append((rows, FrameColumns(function, linkage_name, file, table.line[at], table.column[at], inlined)))
            outer = table.parent[at]
            rows, at = rows[outer != 0], outer[outer != 0]
        return levels

    def _add(self, entries: EntryColumns, levels: Sequence[tuple[I64, FrameColumns]], new: NDArray[np.bool_]) -> None:
        """Take up those entries that are ``new``."""
        kept = EntryColumns(
            entries.location[new], entries.reason[new], entries.module[new], entries.kernel[new], entries.depth[new]
        )
        begin = len(self)
        self._numbers.update(zip(kept.location.tolist(), range(begin, begin + len(kept.location)), strict=True))
        self._entry_pieces.append(kept)
        first = np.zeros(len(new), np.int64)
        first[new] = np.cumsum(kept.depth, dtype=np.int64) - kept.depth
        whole = _room_for_frames(int(kept.depth.sum()))
        for level, (rows, frames) in enumerate(levels):
            chosen = new[rows]
            slots = first[rows[chosen]] + level
            for column, values in zip(whole, frames, strict=True):
                column[slots] = values[chosen]
        self._frame_pieces.append(whole)


def _room_for_frames(count: int) -> FrameColumns:
    return FrameColumns(*(np.zeros(count, np.uint32) for _ in FrameColumns._fields))
