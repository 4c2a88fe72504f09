"""The distinct locations of many answers, each once whatever table it came from: the strings and frames for millions of
rows, and samples and their weights summed by location, and by source line.

The number of a location is a hash of its contents, so that all processes, machines and runs give it the same one."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded
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


Weights = I64 | NDArray[np.float64]
_MAX_SUM = float(1 << 62)


class LineTally(NamedTuple):
    """Lines of functions; texts as numbers of the registry's. Where there is no line, ``line`` and ``file`` are 0 and
    ``reason`` says why; elsewhere ``reason`` is 0."""

    function: U32
    file: U32
    line: U32
    reason: U8


class HotLines(NamedTuple):
    """Lines with what falls on them: ``samples`` that have the line innermost, ``total_samples`` that have it in any
    frame, and their weights."""

    lines: LineTally
    samples: I64
    weight: Weights
    total_samples: I64
    total_weight: Weights


class SampleTally:
    """Sums of samples and weights for each entry of a registry."""

    def __init__(self, registry: LocationRegistry) -> None:
        self._registry = registry
        self._samples = np.zeros(0, np.int64)
        self._weight: Weights = np.zeros(0, np.int64)
        self._magnitude = 0.0

    def add(self, entries: U32, weights: Weights | None) -> None:
        """Count rows; without weights each weighs 1. Raises LimitExceeded where whole weights add up to more than 64
        bits hold."""
        counts = np.bincount(entries, minlength=len(self._registry))
        self._samples = _grown(self._samples, len(counts)).astype(np.int64, copy=False) + counts
        weight: Weights = _grown(self._weight, len(counts))
        if weights is None:
            weight = weight + counts
        elif weights.dtype.kind == "f":
            weight = weight + np.bincount(entries, weights, len(counts))
        else:
            np.add.at(weight, entries.astype(np.intp), weights)
        self._magnitude += len(entries) if weights is None else float(np.abs(weights.astype(np.float64)).sum())
        if weight.dtype.kind != "f" and self._magnitude > _MAX_SUM:
            raise LimitExceeded(
                "the weights add up to more than 64 bits hold", where="weight", hint="give the weights as float64"
            )
        self._weight = weight

    @property
    def reasons(self) -> dict[Reason, int]:
        """How many samples have which reason, most first; without those that name no place."""
        reasons = self._registry.columns().entries.reason[: len(self._samples)]
        counts = np.bincount(reasons, self._samples, minlength=1).astype(np.int64)
        found = {Reason(number): int(counts[number]) for number in np.flatnonzero(counts).tolist() if number}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def samples(self) -> int:
        """The number of all rows."""
        return int(self._samples.sum())

    @property
    def weight(self) -> int | float:
        """The sum of all weights."""
        return self._weight.sum().item() if len(self._weight) else 0

    @property
    def placeless(self) -> int:
        """The number of rows that name no place."""
        return int(self._samples[0]) if len(self._samples) else 0

    def hot_lines(self) -> HotLines:
        """The lines of all samples, those of the greatest weight first. A line that one sample has in several frames
        counts once in its totals."""
        columns = self._registry.columns()
        used = np.flatnonzero(self._samples)
        frames, owner, innermost = _frames_of(columns, used)
        lines, line = _distinct_lines(columns, frames, columns.entries.reason[used][owner])
        samples, weight = self._samples[used], self._weight[used]
        own = _sums(line[innermost], len(lines.line), samples, weight)
        pairs = np.unique(line * len(used) + owner)
        once, whose = np.divmod(pairs, max(len(used), 1))
        total = _sums(once, len(lines.line), samples[whose], weight[whose])
        order = np.lexsort((-total[1], -own[1]))
        ordered = LineTally(lines.function[order], lines.file[order], lines.line[order], lines.reason[order])
        return HotLines(ordered, own[0][order], own[1][order], total[0][order], total[1][order])


def _frames_of(columns: RegistryColumns, entries: I64) -> tuple[I64, I64, I64]:
    """(the frames of entries, -1 for one without any; for each the number of its entry among ``entries``; where the
    innermost of each entry stands)."""
    depth = columns.entries.depth[entries].astype(np.int64)
    count = np.maximum(depth, 1)
    owner = np.repeat(np.arange(len(entries)), count)
    innermost = np.cumsum(count) - count
    frames = columns.frame_ends[entries][owner] - depth[owner] + np.arange(len(owner)) - innermost[owner]
    return np.where(depth[owner] > 0, frames, -1), owner, innermost


def _distinct_lines(columns: RegistryColumns, frames: I64, reason: U8) -> tuple[LineTally, I64]:
    """(the distinct lines of frames; the number of each frame's line among these)."""
    nothing = np.zeros(1, np.uint32)  # what frame -1 has
    function, linkage_name, file, line = (np.concatenate([column, nothing])[frames] for column in columns.frames[:4])
    name = np.where(function != 0, function, linkage_name)
    known = (file != 0) & (line != 0)
    file, line = np.where(known, file, 0), np.where(known, line, 0)
    names = name.astype(np.int64) * len(columns.texts) + file
    _, functions = np.unique(names, return_inverse=True)
    key = functions << 32 | np.where(known, line, reason).astype(np.int64)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    why = np.where(known, 0, reason).astype(np.uint8)
    return LineTally(name[first], file[first], line[first], why[first]), number


def _sums(numbers: I64, count: int, samples: I64, weight: Weights) -> tuple[I64, Weights]:
    """The samples and the weights of each of ``count`` numbers."""
    sample_sums = np.zeros(count, np.int64)
    weight_sums: Weights = np.zeros(count, weight.dtype)  # type: ignore[assignment] # one of the two
    np.add.at(sample_sums, numbers, samples)
    np.add.at(weight_sums, numbers, weight)
    return sample_sums, weight_sums


def _grown(column: Weights, size: int) -> Weights:
    grown: Weights = np.concatenate([column, np.zeros(size - len(column), column.dtype)])
    return grown
