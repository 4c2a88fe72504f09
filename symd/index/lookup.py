"""An index as it is asked: where a query points to, and which location holds there. Nothing here parses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from symd.errors import DataLoss
from symd.index.format import Column, Strings, decode, decompress
from symd.index.point_lookup import KEPT, KEPT_BYTES, Leaves
from symd.index.summary import unpack
from symd.index.unpacked import RESERVED, Unpacked
from symd.model.addresses import SectionOffset
from symd.model.answers import Candidate, Locations, TextSection
from symd.model.columns import U32, U64
from symd.model.summaries import ModuleSummary

_UNPACKED = 35
"""Bytes that a range takes once all locations and the table of starts were wanted."""
_OPEN = 1 << 14
"""Bytes of the objects that an open index consists of."""
_FEW = 4
"""A batch with an address for so many ranges is worth unpacking all locations."""


class Spot(NamedTuple):
    """The first byte of a kernel: ``place``, the offset in it, the position in the linear space, and how many bytes
    there are to the end of the place."""

    place: TextSection
    offset: int
    position: int
    room: int


class KernelEntry(NamedTuple):
    """A kernel in the index: ``place`` is its text section, ``offset`` counts from that section's start."""

    name: str
    place: int
    offset: int
    size: int


class Index:
    """Columns of one module, mapped or in memory. Immutable, and safe to use from several threads.

    ``columns`` holds the columns of the file and those that are worked out from them (``unpacked``) by name;
    ``leaves`` is what holds at one position of the linear space. What single questions need is in slots, where it
    takes one look less.
    """

    __slots__ = ("__dict__", "_kernel_spots", "leaves")

    def __init__(self, buffer: memoryview | bytes) -> None:
        self.size = len(buffer)
        stored = decode(buffer)
        self.columns = Unpacked(stored)
        self._kernel_spots: dict[str, Spot] = {}
        try:
            self.leaves = Leaves(stored, self.columns)
            self._range_count = stored["range_count"].item(0)
        except (KeyError, IndexError) as error:
            raise DataLoss(f"lacks column {error}", where="index file") from None

    def check(self) -> None:
        """Look now at what else the first questions find: whether all columns are in the file, and starts and ranges are
        equally many. Raises DataLoss. Numbers in columns may still contradict each other."""
        self.columns.check()

    @cached_property
    def strings(self) -> Strings:
        return Strings(self.columns["string_ends"], self.columns["string_data"])

    @cached_property
    def summary(self) -> ModuleSummary:
        return unpack(decompress(self.columns["summary"]))

    @property
    def weight(self) -> int:
        """Bytes that this index takes while it is open: its file, mapped, what large batches have it unpack, and the
        answers that it keeps."""
        ranges: int = self._range_count
        return _OPEN + self.size + ranges * _UNPACKED + min(ranges, KEPT) * KEPT_BYTES

    @cached_property
    def objects(self) -> list[str]:
        """Nesting paths, by object number."""
        return [self.strings[number] for number in self.columns.numbers("object_path").tolist()]

    @cached_property
    def targets(self) -> list[str | None]:
        """Targets, by object number."""
        return [self.strings[number] or None for number in self.columns["object_target"].tolist()]

    @cached_property
    def places(self) -> list[TextSection]:
        """The text sections, by place number."""
        columns = (self.columns.numbers(f"place_{name}").tolist() for name in ("object", "section", "index", "address"))
        return [
            TextSection(self.objects[owner], self.strings[name] or None, index, address)
            for owner, name, index, address in zip(*columns, strict=True)
        ]

    @cached_property
    def kernels(self) -> dict[str, list[KernelEntry]]:
        """Kernels by name; one name can stand in several code objects."""
        columns = (self.columns[f"kernel_{name}"].tolist() for name in ("name", "place", "offset", "size"))
        found: dict[str, list[KernelEntry]] = {}
        for name, place, offset, size in zip(*columns, strict=True):
            text = self.strings[name]
            found.setdefault(text, []).append(KernelEntry(text, place, offset, size))
        return found

    def kernels_named(self, name: str) -> Sequence[KernelEntry]:
        """The kernels of that name, found by it."""
        known = self._kernels_asked.get(name, ())
        if not known and (known := self._find_kernels(name)):
            self._kernels_asked[name] = known
        return known

    @cached_property
    def _kernels_asked(self) -> dict[str, tuple[KernelEntry, ...]]:
        """Never more than there are kernels: a name that nobody has is not kept."""
        return {}

    def _find_kernels(self, name: str) -> tuple[KernelEntry, ...]:
        column = self.columns.numbers
        order, names = column("kernel_by_name"), column("kernel_name")
        first = bisect_left(order, name, key=lambda number: self.strings[names[number]])
        found = []
        for number in order[first:]:
            if self.strings[names[number]] != name:
                break
            place, offset, size = (column(f"kernel_{what}")[number] for what in ("place", "offset", "size"))
            found.append(KernelEntry(name, place, offset, size))
        return tuple(found)

    def kernel_spot(self, name: str, path: str | None) -> Spot | None:
        """Where the kernel of that name begins; None unless it is exactly one. There are never more known than there
        are kernels."""
        known = self._kernel_spots.get(name) if path is None else None
        if known is not None:
            return known
        entries = [entry for entry in self.kernels_named(name) if self.is_chosen(entry.place, path)]
        if len(entries) != 1:
            return None
        place, offset = entries[0].place, entries[0].offset
        found = Spot(self.places[place], offset, self.bases[place] + offset, self.place_size(place) - offset)
        if path is None:
            self._kernel_spots[name] = found
        return found

    @cached_property
    def bases(self) -> memoryview:
        """Where in the linear space each place begins."""
        return self._bases.data

    @cached_property
    def locations(self) -> Locations:
        """All locations, unpacked. Numbers that ``locate`` gives are numbers in here."""
        columns = self.columns
        names = ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")
        found: dict[str, Any] = {name: columns[f"location_{name}"] for name in names}
        return Locations(**found, strings=self.strings, shared=True)

    def locate(self, place: Column, offset: Column) -> U32:
        """The location at each (place number, section offset). The offsets must lie inside their sections."""
        return (self._ranges(place, offset) + self.columns.packed.first_leaf).astype(np.uint32)

    def located(self, place: Column, offset: Column) -> tuple[U32, Locations]:
        """The same with the locations that are meant: few have a table of their own, many share that of all."""
        ranges = self._ranges(place, offset)
        if len(ranges) * _FEW > len(self.columns.ranges):
            return np.add(ranges, self.columns.packed.first_leaf, dtype=np.uint32, casting="unsafe"), self.locations
        used, back = np.unique(ranges, return_inverse=True)
        calls = self.columns.packed.calls_around(used)
        table: dict[str, Any] = self.columns.packed.locations(used, calls)
        del table["owner"]
        return (back + (RESERVED + len(calls))).astype(np.uint32), Locations(**table, strings=self.strings)

    def _ranges(self, place: Column, offset: Column) -> Column:
        if len(self._bases) == 1:
            return self.columns.starts.find(offset)
        return self.columns.starts.find(self._bases[place] + offset)

    @cached_property
    def _bases(self) -> U64:
        return self.columns["place_base"].astype(np.uint64)

    def place_size(self, place: int) -> int:
        return int(self.columns["place_size"].item(place))

    def chosen_places(self, path: str | None) -> Column:
        """The place numbers that a query may mean: those of the object at ``path``, or of all objects. SPIR-V inside a
        container is what the machine code was made from: it is meant only when it is named."""
        owner = self.columns["place_object"]
        if path is not None:
            return np.flatnonzero(owner == self._object_numbers[path])
        return np.flatnonzero(self.columns["object_secondary"][owner] == 0)

    def is_chosen(self, place: int, path: str | None) -> bool:
        """Whether ``place`` is one of ``chosen_places``."""
        owner = self.columns["place_object"].item(place)
        if path is not None:
            return bool(owner == self._object_numbers[path])
        return not self.columns["object_secondary"].item(owner)

    def has_object(self, path: str) -> bool:
        return path in self._object_numbers

    @cached_property
    def _object_numbers(self) -> dict[str, int]:
        return {path: number for number, path in reversed(list(enumerate(self.objects)))}

    def address_map(self, path: str | None) -> AddressMap:
        """Object addresses to places, among ``chosen_places``. Kept for each path."""
        maps = self._address_maps
        if path not in maps:
            maps[path] = AddressMap.over(self, self.chosen_places(path))
        return maps[path]

    @cached_property
    def _address_maps(self) -> dict[str | None, AddressMap]:
        return {}

    def candidate(self, place: int, offset: int) -> Candidate:
        """A place as a candidate of an ambiguous query."""
        where = self.places[place]
        _, kernel, _ = self.leaves.at(self.bases[place] + offset)
        return Candidate(where.path, where.section, where.section_index, SectionOffset(offset), kernel)


class AddressMap:
    """The address space cut wherever a text section begins or ends: sorted ``cuts``; behind each cut so many places
    (``count``) hold, and where it is one, ``place`` is its number."""

    __slots__ = ("_one", "address", "count", "cuts", "place")

    def __init__(self, cuts: U64, count: Column, place: Column, address: U64) -> None:
        self.cuts, self.count, self.place, self.address = cuts, count, place, address
        self._one = cuts.data, count.data, place.data, address.data

    @classmethod
    def over(cls, index: Index, places: Sequence[int] | Column) -> AddressMap:
        """Between two cuts the places held are a running sum; the sum of their numbers is the number of the only one."""
        numbers = np.asarray(places, np.int64)
        address = index.columns["place_address"].astype(np.uint64)
        if len(numbers) == 1 and (size := index.place_size(numbers[0])):
            return cls(address[numbers] + np.array([0, size], np.uint64), np.array([1, 0]), numbers.repeat(2), address)
        starts = address[numbers]
        ends = starts + index.columns["place_size"].astype(np.uint64)[numbers]
        cuts, slot = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        sign = np.repeat(np.array([1, -1]), len(numbers))
        count = np.zeros(len(cuts), np.int64)
        total = np.zeros(len(cuts), np.int64)
        np.add.at(count, slot, sign)
        np.add.at(total, slot, sign * np.tile(numbers, 2))
        return cls(cuts, np.cumsum(count), np.cumsum(total), address)

    def resolve(self, addresses: U64) -> tuple[Column, Column, U64]:
        """(how many places hold the address, the place where it is one, the offset in it)."""
        if not len(self.cuts):
            nothing = np.zeros(len(addresses), np.int32)
            return nothing, nothing, np.zeros(len(addresses), np.uint64)
        if len(self.cuts) == 2 and self.count[0] == 1:
            offset = addresses - self.cuts[0]
            held = offset < self.cuts[1] - self.cuts[0]
            return held.view(np.uint8), np.full(1, self.place[0], np.int32), offset
        slot = np.searchsorted(self.cuts, addresses, side="right") - 1
        count = np.where(slot >= 0, self.count[slot], 0)
        place = np.where(count == 1, self.place[slot], 0)
        return count, place, np.where(count == 1, addresses - self.address[place], np.uint64(0))

    def one(self, address: int) -> tuple[int, int] | None:
        """(place, offset) of an address that exactly one place holds."""
        cuts, count, places, starts = self._one
        slot = bisect_right(cuts, address) - 1
        if slot < 0 or count[slot] != 1:
            return None
        place = places[slot]
        return place, address - starts[place]
