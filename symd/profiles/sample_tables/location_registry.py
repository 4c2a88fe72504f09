"""The distinct locations of many answers, each once whatever table it came from: the strings and frames for millions of
rows.

The number of a location is a hash of its contents, so that all processes, machines and runs give it the same one.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.index.format import Strings
from symd.model.answers import Answers, Locations, Reason, of_reasons
from symd.model.columns import I64, U8, U32, U64
from symd.model.contexts import DeviceAnswers

_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
"""The multipliers of MurmurHash3's last step, which spreads each bit over all."""
_SHIFT = np.uint64(33)


def module_hash(digest: str | None) -> int:
    """What a module adds to the numbers of its locations; 0 for none."""
    return 0 if digest is None else int(digest[:16], 16)


def begun(modules: U64, reasons: NDArray[np.integer], kernels: U64) -> U64:
    """The numbers of locations while they are made: of the hash of their module, their reason, the hash of their
    kernel's name."""
    return _mixed(_mixed(modules, reasons.astype(np.uint64)), kernels)


def with_frames(state: U64, names: Sequence[U64], line: U32, column: U32, inlined: U32) -> U64:
    """The numbers of locations that are being made, with one frame more of each, from the innermost outwards;
    ``names`` are hashes of the frame's function, linkage name and file."""
    for name in names:
        state = _mixed(state, name)
    position = line.astype(np.uint64) << np.uint64(32) | column.astype(np.uint64)
    return _mixed(_mixed(state, position), inlined.astype(np.uint64) + np.uint64(2))


def ended(state: U64) -> I64:
    """The numbers: never 0, never negative.

    64 bits are mixed and 63 kept: of ten million different locations two have one number with a probability of 5 in a
    million. Modules are told apart by their SHA-256, so that whoever makes a module to that end mixes up answers about
    this module alone."""
    ids = (state >> np.uint64(1)).astype(np.int64)
    return np.where(ids == 0, 1, ids)


def _mixed(state: U64, value: U64) -> U64:
    state = (state ^ value) * _FIRST
    state ^= state >> _SHIFT
    state = (state + value) * _SECOND
    mixed: U64 = state ^ (state >> _SHIFT)
    return mixed


_ROOM = 1024


class InternedTexts:
    """Texts by number; number 0 is "", which stands for none. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._hashes = np.zeros(_ROOM, np.uint64)
        self._tables: dict[int, tuple[weakref.ref[Sequence[str]], U32]] = {}

    @property
    def hashes(self) -> U64:
        """The hash of each text; 0 for "" alone."""
        return self._hashes[: len(self.texts)]

    def number(self, text: str) -> int:
        """The number of one text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            if found == len(self._hashes):
                self._hashes = np.concatenate([self._hashes, np.zeros(found, np.uint64)])
            self._hashes[found] = _hash(text)
        return found

    def numbers(self, strings: Sequence[str], wanted: U32) -> U32:
        """The number of each of the strings that ``wanted`` counts, in which string 0 is none. What is found out about
        the strings of an index, which many tables share, is remembered as long as they are there."""
        known = self._known(strings)
        found = known[wanted]
        missing = np.unique(wanted[(found == 0) & (wanted != 0)])
        if len(missing):
            known[missing] = [self.number(strings[number]) for number in missing.tolist()]
            found = known[wanted]
        return found

    def _known(self, strings: Sequence[str]) -> U32:
        """For each of the strings its number, 0 where it is not known yet."""
        key = id(strings)
        kept = self._tables.get(key)
        if kept is not None and kept[0]() is strings:
            return kept[1]
        known = np.zeros(len(strings), np.uint32)
        if isinstance(strings, Strings):
            self._tables[key] = weakref.ref(strings, lambda _: self._tables.pop(key, None)), known
        return known


def _hash(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


_REASONS = of_reasons()


class FrameColumns(NamedTuple):
    """Frames, those of one location after another's, each location's innermost first. Texts are numbers, 0 for none; so
    are lines and columns."""

    function: U32
    linkage_name: U32
    file: U32
    line: U32
    column: U32
    inlined: U32


class EntryColumns(NamedTuple):
    """Entries of a registry: the number of the location, its reason (0 for entry 0 alone), module and kernel as numbers
    of texts, and how many frames it has."""

    location: I64
    reason: U8
    module: U32
    kernel: U32
    depth: U32


class RegistryColumns(NamedTuple):
    """All entries of a registry. The frames of entry i are those from ``frame_ends[i] - entries.depth[i]`` up to
    ``frame_ends[i]``."""

    entries: EntryColumns
    frames: FrameColumns
    frame_ends: I64
    texts: Sequence[str]


class LocationRegistry:
    """Entry 0 stands for rows that ask nothing. Entries stay; one takes some 150 bytes, and 25 a frame. Not safe to use
    from several threads at once."""

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
        """For each location of the table its entry, 0 where it is not known yet; kept for tables that further answers
        point into."""
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
        module_hashes = np.array([module_hash(module) for module in modules], np.uint64)
        levels = self._levels(table, numbers)
        kernel = self._texts.numbers(table.strings, table.kernel[numbers])
        state = begun(module_hashes[of_each], table.reason[numbers], self._texts.hashes[kernel])
        for rows, frames in levels:
            hashes = [self._texts.hashes[each] for each in (frames.function, frames.linkage_name, frames.file)]
            state[rows] = with_frames(state[rows], hashes, frames.line, frames.column, frames.inlined)
        ids = ended(state)
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
