"""An index as questions use it: where a query points to, and which location holds there. Nothing here parses."""

from __future__ import annotations

from _thread import allocate_lock
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from symd.core.index_lookup import KEPT_ANSWERS, KEPT_PAGES, Damaged, IndexLookup
from symd.errors import DataLoss
from symd.index import VERSION
from symd.index.derived import RESERVED, DerivedColumns
from symd.index.format import Column, Strings, decode, decompress, decompressed_size
from symd.index.schema import Columns, FunctionTable, LocationTable, RowTable
from symd.index.summary import unpack
from symd.model.addresses import ByAddress, ByKernel, Query, SectionOffset
from symd.model.answers import Answer, Candidate, Frame, Locations, Reason, TextSection
from symd.model.columns import U8, U32, U64
from symd.model.identities import Digest, ObjectPath
from symd.model.reasons import KNOWN
from symd.model.summaries import ModuleSummary

_RANGE_BYTES = 35
"""Bytes that a range takes once all locations and the table of starts were wanted."""
_SUMMARY_OBJECTS = 3
"""Bytes that a byte of a packed description takes as objects, about."""
_LARGE_SUMMARY = 1 << 20
_UNPACKING = allocate_lock()
"""One large description is unpacked at a time: meanwhile it takes twice its bytes."""
_OPEN_RANGE_BYTES = 12
"""Bytes of a range in a page that single questions have opened, about."""
_ANSWER_BYTES = 1000
"""About what a kept answer takes at most."""
_OBJECT_BYTES = 1 << 14
"""Bytes of the objects that an open index consists of."""
_RANGES_AN_ADDRESS = 4
"""A batch with an address for so many ranges is worth working out all locations."""
KEPT_MAPS = 256
"""Address maps of single code objects that an open index keeps; a module may have a hundred thousand objects."""
FEW_SECTIONS = 16
"""Up to this many text sections are gone through one by one for an address; for more there is an address map."""
_REASONS = tuple([Reason(number) if number in KNOWN else None for number in range(max(KNOWN) + 1)])
LOCATED_AT_ONCE = 1 << 16
"""Addresses of a batch that are worked on at a time: what is made on the way takes several times their memory."""


class KernelEntry(NamedTuple):
    """A kernel in the index: ``section`` is the number of its text section, ``offset`` counts from that section's
    start."""

    name: str
    section: int
    offset: int
    size: int


class Start(NamedTuple):
    """Where a function begins: the number of a text section, the offset in it, and the bytes from there to the
    section's end; none of a function of size 0, which is one that owns no byte."""

    section: int
    offset: int
    bytes_left: int


def parts_of(count: int) -> Iterator[slice]:
    """Slices that cut ``count`` entries into parts of at most ``LOCATED_AT_ONCE``; one empty slice where there are
    none."""
    return (slice(start, min(start + LOCATED_AT_ONCE, count)) for start in range(0, max(count, 1), LOCATED_AT_ONCE))


class Index:
    """Columns of one module, mapped or in memory. Immutable, and safe to use from several threads.

    ``columns`` are those of the file, ``derived`` is what follows from them. ``used`` is the turn of an ``IndexCache``
    at which it was last asked for, and changes nothing of what it answers. ``weight`` of one that ``open_checked`` made
    is the bytes that it takes while it is open: its file, mapped, what large batches have it work out and the answers
    that it keeps, both a second time where answers as written are others, and its description once somebody looks at
    it, which in the file is compressed.
    """

    __slots__ = ("__dict__", "_has_few_sections", "_lookup", "used", "weight")

    def __init__(
        self, buffer: memoryview | bytes, *, as_written: bool = False, share_location_table: bool = False
    ) -> None:
        """``share_location_table``: where the table of all locations was worked out for one batch, small ones share it
        too. That is for a process whose answers go nowhere else with their table."""
        self._share_location_table = share_location_table
        self.size = len(buffer)
        self.buffer = buffer
        self.columns = Columns(decode(buffer))
        self.derived = DerivedColumns(self.columns, as_written=as_written)
        self.used = self.weight = 0
        self._digest: Digest | None = None
        try:
            self._lookup = _lookup(memoryview(buffer), is_sound=True, as_written=as_written)
            self._range_count = self.columns.range_count.item(0)
        except Damaged as error:
            raise _data_loss(error) from error
        except IndexError as error:
            raise DataLoss("has a column without entries that must have one", where="index file") from error
        self._has_few_sections = len(self.columns.section_address) <= FEW_SECTIONS

    @classmethod
    def open_checked(cls, buffer: memoryview | bytes, digest: str | None = None) -> Self:
        """An index whose file has every column of the schema, as wide and as long as it must be, numbers of things that
        it has, and as many starts as ranges; and which was made of the module with the SHA-256 ``digest``, where one is
        given. Raises DataLoss. What is packed is checked when it is opened."""
        found = cls(buffer)
        found.columns.check()
        found.derived.check()
        if digest is not None and found.columns.module_sha256.tobytes() != bytes.fromhex(digest):
            raise DataLoss("is the index of another module", where="index file")
        found._digest = None if digest is None else Digest(digest)
        found.weight = found._weight()
        return found

    @classmethod
    def open_checked_with_summary(cls, buffer: memoryview | bytes, digest: str) -> Self:
        """``open_checked`` for a module that is being added: the description, with which that is answered, is read at
        once. Raises DataLoss."""
        found = cls.open_checked(buffer, digest)
        _ = found.summary
        return found

    def view(self, *, as_written: bool) -> Index:
        """The index that answers what rows and scopes say also where they contradict each other if ``as_written``,
        else this one. Both are of the same file."""
        return self._as_written if as_written else self

    @cached_property
    def _as_written(self) -> Index:
        return (
            Index(self.buffer, as_written=True, share_location_table=self._share_location_table)
            if self._differs_as_written
            else self
        )

    @property
    def _differs_as_written(self) -> bool:
        return bool(len(self.columns.written_range)) or self.derived.has_bodies

    @cached_property
    def strings(self) -> Strings:
        return Strings(self.columns.string_ends, self.columns.string_data)

    @cached_property
    def summary(self) -> ModuleSummary:
        """The description of the module. Its digest is the very text by which the module is known: who asks by it is
        found without a look at its letters."""
        is_large = decompressed_size(self.columns.summary) > _LARGE_SUMMARY
        with _UNPACKING if is_large else nullcontext():
            found = unpack(decompress(self.columns.summary))
        return found if self._digest is None else found._replace(sha256=self._digest)

    def _weight(self) -> int:
        ranges: int = self._range_count
        kept = min(ranges, KEPT_ANSWERS) * _ANSWER_BYTES + min(ranges * _OPEN_RANGE_BYTES, KEPT_PAGES)
        described = decompressed_size(self.columns.summary) * _SUMMARY_OBJECTS
        views = 2 if self._differs_as_written else 1
        return self.size + views * (_OBJECT_BYTES + ranges * _RANGE_BYTES + kept) + described

    @cached_property
    def objects(self) -> list[ObjectPath]:
        """Nesting paths, by object number."""
        return [ObjectPath(self.strings[number]) for number in self.columns.numbers(Columns.object_path).tolist()]

    @cached_property
    def targets(self) -> list[str | None]:
        """Targets, by object number."""
        numbers = self.columns.object_target.tolist()
        texts = self.strings.by_number(numbers)
        return [texts[number] or None for number in numbers]

    @cached_property
    def sections(self) -> list[TextSection]:
        """The text sections, by number."""
        numbers = self.columns.numbers
        columns = (
            numbers(Columns.section_object),
            numbers(Columns.section_name),
            numbers(Columns.section_number),
            numbers(Columns.section_address),
        )
        texts = self.strings.by_number(columns[1].tolist())
        return [
            TextSection(self.objects[code_object], texts[name] or None, number, address)
            for code_object, name, number, address in zip(*(column.tolist() for column in columns), strict=True)
        ]

    @property
    def rows(self) -> RowTable:
        """The line rows."""
        return self.derived.rows

    @property
    def functions(self) -> FunctionTable:
        """The functions."""
        return self.derived.functions

    @cached_property
    def kernels(self) -> dict[str, list[KernelEntry]]:
        """Kernels by name; one name can be in several code objects."""
        columns = self.columns
        numbers = columns.kernel_name, columns.kernel_section, columns.kernel_offset, columns.kernel_size
        found: dict[str, list[KernelEntry]] = {}
        texts = self.strings.by_number(columns.kernel_name.tolist())
        for name, section, offset, size in zip(*(column.tolist() for column in numbers), strict=True):
            found.setdefault(texts[name], []).append(KernelEntry(texts[name], section, offset, size))
        return found

    def kernels_named(self, name: str) -> Sequence[KernelEntry]:
        """The kernels of that name, found by it."""
        known = self._kernels_asked.get(name, ())
        if not known and (known := self._find_kernels(name)):
            self._kernels_asked[name] = known
        return known

    def start(self, section: int, offset: int, size: int) -> Start:
        """The beginning of a function of ``size`` bytes."""
        return Start(section, offset, max(self.section_size(section) - offset, 0) if size else 0)

    def kernel_starts(self, name: str, path: str | None) -> list[Start]:
        """Where kernels of that name begin, among ``chosen_sections``."""
        only = self._only_starts.get(name) if path is None else None
        if only is not None:
            return [only]
        entries = [each for each in self.kernels_named(name) if self.is_chosen(each.section, path)]
        starts = list(dict.fromkeys(self.start(each.section, each.offset, each.size) for each in entries))
        if path is None and len(entries) == 1:
            self._only_starts[name] = starts[0]
        return starts

    @cached_property
    def _kernels_asked(self) -> dict[str, tuple[KernelEntry, ...]]:
        """Kernels by the names that were asked for; a name that nobody has is not kept."""
        return {}

    def _find_kernels(self, name: str) -> tuple[KernelEntry, ...]:
        numbers = self.columns.numbers
        order, names = numbers(Columns.kernel_by_name), numbers(Columns.kernel_name)
        section, offset, size = (
            numbers(Columns.kernel_section), numbers(Columns.kernel_offset), numbers(Columns.kernel_size)
        )  # fmt: skip
        first = bisect_left(order, name, key=lambda number: self.strings[names[number]])
        found = []
        for number in order[first:]:
            if self.strings[names[number]] != name:
                break
            found.append(KernelEntry(name, section[number], offset[number], size[number]))
        return tuple(found)

    def answer(self, query: Query, path: str | None = None) -> Answer | None:
        """The answer to one query that means exactly one byte of text, without making a column; None for every
        other."""
        if path is not None and not self.has_object(path):
            return None
        found: Answer | None = None
        try:
            if path is None and self._has_few_sections and isinstance(query, ByAddress):
                found = self._lookup.answer(query.address)
            elif (byte := self._only_byte(query, path)) is not None:
                found = self._lookup.answer_in(*byte)
        except Damaged as error:
            raise _data_loss(error) from error
        return found

    def _only_byte(self, query: Query, path: str | None) -> tuple[int, int] | None:
        """(text section, offset in it) of the only byte of text that a query means; None unless there is exactly
        one."""
        if isinstance(query, ByAddress):
            return self.address_map(path).one(query.address)
        if not isinstance(query, ByKernel):
            return None
        starts = self.kernel_starts(query.kernel, path)
        if len(starts) != 1 or not 0 <= query.offset < starts[0].bytes_left:
            return None
        return starts[0].section, starts[0].offset + query.offset

    @cached_property
    def _only_starts(self) -> dict[str, Start]:
        """Where kernels begin that were asked for and whose names no other has: never more than there are kernels."""
        return {}

    @cached_property
    def section_numbers(self) -> dict[tuple[ObjectPath, int], int]:
        """The number of each text section in ``sections``, by its code object's path and its number in the section
        table there."""
        return {(text.path, text.section_index): number for number, text in enumerate(self.sections)}

    @cached_property
    def bases(self) -> memoryview:
        """The text position at which each section begins."""
        return self._bases.data

    @cached_property
    def locations(self) -> Locations:
        """All locations. Numbers that ``location_numbers`` gives are numbers in here."""
        return self._locations_of(self.derived.locations, shared=True)

    def _locations_of(self, table: LocationTable, *, shared: bool = False) -> Locations:
        return Locations(
            reason=table.reason,
            kernel=table.kernel,
            function=table.function,
            linkage_name=table.linkage_name,
            file=table.file,
            line=table.line,
            column=table.column,
            inlined=table.inlined,
            parent=table.parent,
            strings=self.strings,
            shared=shared,
            start_line=table.start_line,
        )

    def location_numbers(self, section: Column, offset: Column) -> U32:
        """The location at each (text section number, offset in it). The offsets must lie inside their sections."""
        return (self._ranges(section, offset) + self.derived.first_range).astype(np.uint32)

    def locate_batch(self, section: Column, offset: Column, reason: U8 | None = None) -> tuple[U32, Locations]:
        """(the location at each (text section number, offset in it), the table that these are numbers in): a batch that
        is small for the index has a table of its own, large ones share that of all locations. Where ``reason`` is not 0
        the location is the reason's own, whatever section and offset are."""
        derived, found = self.derived, np.empty(len(offset), np.uint32)
        there: NDArray[np.bool_] | None = None
        if reason is not None and reason.any():
            there, found[:] = reason == 0, reason
        count = len(offset) if there is None else int(np.count_nonzero(there))
        known = self._share_location_table and "locations" in vars(self)
        if count and (known or count * _RANGES_AN_ADDRESS > len(derived.ranges)):
            for part in parts_of(len(offset)):
                ranges, where = self._ranges(section[part], offset[part]), True if there is None else there[part]
                first = derived.first_range
                np.add(ranges, first, out=found[part], where=where, dtype=np.uint32, casting="unsafe")
            return found, self.locations
        chosen = slice(None) if there is None else there
        used, back = np.unique(self._ranges(section[chosen], offset[chosen]), return_inverse=True)
        calls = derived.calls_around(used)
        table = self._locations_of(derived.locations_of(used, calls))
        found[chosen] = back + (RESERVED + len(calls))
        return found, table

    def _ranges(self, section: Column, offset: Column) -> Column:
        if len(self._bases) == 1:
            return self.derived.starts.find(offset)
        return self.derived.starts.find(self._bases[section] + offset)

    @cached_property
    def _bases(self) -> U64:
        return self.columns.section_base.astype(np.uint64)

    def section_size(self, section: int) -> int:
        return int(self.columns.section_size.item(section))

    def chosen_sections(self, path: str | None) -> Column:
        """The section numbers that a query may mean: those of the object at ``path``, or of all objects. SPIR-V inside
        a container is what the machine code was made from: an offset in it is meant only when it is named."""
        code_object = self.columns.section_object
        if path is not None:
            return np.flatnonzero(code_object == self._object_numbers[path])
        return np.flatnonzero(self.columns.object_compiler_input[code_object] == 0)

    def is_chosen(self, section: int, path: str | None) -> bool:
        """Whether ``section`` is one of ``chosen_sections``."""
        code_object = self.columns.section_object.item(section)
        if path is not None:
            return bool(code_object == self._object_numbers[path])
        return not self.columns.object_compiler_input.item(code_object)

    def reported_objects(self, path: str | None) -> list[int]:
        """The numbers of the code objects whose names and tables are reported: of the one at ``path``, or of all, but
        of SPIR-V inside a container only if there is no machine code, which is made from it."""
        if path is not None:
            return [self._object_numbers[path]]
        inputs = self.columns.object_compiler_input != 0
        return np.flatnonzero(inputs.all() | ~inputs).tolist()

    def has_object(self, path: str) -> bool:
        return path in self._object_numbers

    @cached_property
    def _object_numbers(self) -> dict[str, int]:
        return {path: number for number, path in reversed(list(enumerate(self.objects)))}

    def address_map(self, path: str | None) -> AddressMap:
        """Object addresses to sections, among ``chosen_sections``. Those of ``KEPT_MAPS`` paths are kept, and that of
        no path."""
        if path is None:
            return self._whole_map
        maps = self._address_maps
        found = maps.get(path)
        if found is None:
            if len(maps) >= KEPT_MAPS:
                maps.clear()
            found = maps[path] = AddressMap.over(self, self.chosen_sections(path))
        return found

    @cached_property
    def _whole_map(self) -> AddressMap:
        return AddressMap.over(self, self.chosen_sections(None))

    @cached_property
    def _address_maps(self) -> dict[str, AddressMap]:
        return {}

    @cached_property
    def section_addresses(self) -> U64:
        """The address of each section: all address maps share it."""
        return self.columns.section_address.astype(np.uint64)

    def candidate(self, section: int, offset: int) -> Candidate:
        """A byte of text as a candidate of an ambiguous query."""
        where = self.sections[section]
        try:
            _, kernel, _ = self._lookup.at(self.bases[section] + offset)
        except Damaged as error:
            raise _data_loss(error) from error
        return Candidate(where.path, where.section, where.section_index, SectionOffset(offset), kernel)


def search_index_file(file: memoryview, digest: str, query: ByAddress) -> Answer | None:
    """What the index answers that has these bytes, which is not opened for it: that takes several times as long. None
    where more than a look at one text section is needed, or the bytes are no index of the module with the SHA-256
    ``digest`` that is sound where the answer is read."""
    try:
        found: Answer | None = _lookup(file, digest=bytes.fromhex(digest)).answer(query.address)
    except Damaged:
        return None
    return found


def _lookup(file: memoryview, **how: Any) -> IndexLookup:
    return IndexLookup(file, VERSION, answer_type=Answer, frame_type=Frame, reasons=_REASONS, **how)


def _data_loss(error: Damaged) -> DataLoss:
    return DataLoss(str(error), where="index file")


class AddressMap:
    """The address space cut wherever a text section begins or ends: sorted ``cuts``; after each cut so many sections
    (``count``) hold, and where it is one, ``section`` is its number."""

    __slots__ = ("_one", "address", "count", "cuts", "section")

    def __init__(self, cuts: U64, count: Column, section: Column, address: U64) -> None:
        self.cuts, self.count, self.section, self.address = cuts, count, section, address
        self._one = cuts.data, count.data, section.data, address.data

    @classmethod
    def over(cls, index: Index, sections: Sequence[int] | Column) -> AddressMap:
        """The map of some sections, by number. Between two cuts the number of sections is a running sum; where it is 1,
        the sum of their numbers is the number of the only one."""
        numbers = np.asarray(sections, np.int64)
        address = index.section_addresses
        if len(numbers) == 1 and (size := index.section_size(numbers[0])):
            return cls(address[numbers] + np.array([0, size], np.uint64), np.array([1, 0]), numbers.repeat(2), address)
        starts = address[numbers]
        ends = starts + index.columns.section_size[numbers].astype(np.uint64)
        cuts, slot = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        sign = np.repeat(np.array([1, -1]), len(numbers))
        count = np.zeros(len(cuts), np.int64)
        total = np.zeros(len(cuts), np.int64)
        np.add.at(count, slot, sign)
        np.add.at(total, slot, sign * np.tile(numbers, 2))
        return cls(cuts, np.cumsum(count), np.cumsum(total), address)

    def resolve(self, addresses: U64) -> tuple[Column, Column, U64]:
        """(how many sections hold the address, the section where it is one, the offset in it)."""
        if not len(self.cuts):
            nothing = np.zeros(len(addresses), np.int32)
            return nothing, nothing, np.zeros(len(addresses), np.uint64)
        if len(self.cuts) == 2 and self.count[0] == 1:
            offset = addresses - self.cuts[0]
            held = offset < self.cuts[1] - self.cuts[0]
            return held.view(np.uint8), np.full(1, self.section[0], np.int32), offset
        slot = np.searchsorted(self.cuts, addresses, side="right") - 1
        count = np.where(slot >= 0, self.count[slot], 0)
        section = np.where(count == 1, self.section[slot], 0)
        return count, section, np.where(count == 1, addresses - self.address[section], np.uint64(0))

    def one(self, address: int) -> tuple[int, int] | None:
        """(section, offset) of an address that exactly one section holds."""
        cuts, count, sections, starts = self._one
        slot = bisect_right(cuts, address) - 1
        if slot < 0 or count[slot] != 1:
            return None
        section = sections[slot]
        return section, address - starts[section]
