"""An index as it is asked: where a query points to, and which location holds there. Nothing here parses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from symd.index.format import Column, Strings, decode
from symd.index.summary import from_json
from symd.model import U32, U64, Candidate, Locations, ModuleSummary, Place, SectionOffset


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel in the index: ``place`` is its text section, ``offset`` counts from that section's start."""

    name: str
    place: int
    offset: int
    size: int


class Index:
    """Columns of one module, mapped or in memory. Immutable, and safe to use from several threads."""

    def __init__(self, buffer: memoryview | bytes) -> None:
        self.columns = decode(buffer)
        self.strings = Strings(self.columns["string_ends"], self.columns["string_data"])

    @cached_property
    def summary(self) -> ModuleSummary:
        return from_json(json.loads(bytes(self.columns["summary"])))

    @cached_property
    def objects(self) -> list[str]:
        """Nesting paths, by object number."""
        return [self.strings[number] for number in self.columns["object_path"].tolist()]

    @cached_property
    def targets(self) -> list[str | None]:
        """Targets, by object number."""
        return [self.strings[number] or None for number in self.columns["object_target"].tolist()]

    @cached_property
    def places(self) -> list[Place]:
        """The text sections, by place number."""
        columns = (self.columns[f"place_{name}"].tolist() for name in ("object", "section", "index", "address"))
        return [
            Place(self.objects[owner], self.strings[name] or None, index, address)
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

    @cached_property
    def locations(self) -> Locations:
        columns = self.columns
        names = ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")
        return Locations(**{name: columns[f"location_{name}"] for name in names}, strings=self.strings)

    def locate(self, place: Column, offset: Column) -> U32:
        """The location at each (place number, section offset). The offsets must lie inside their sections."""
        starts = self.columns["range_start"]
        position = (self.columns["place_base"].astype(np.uint64)[place] + offset).astype(starts.dtype)
        slot = np.searchsorted(starts, position, side="right") - 1
        return self.columns["range_location"][slot].astype(np.uint32)

    def chosen_places(self, path: str | None) -> Column:
        """The place numbers that a query may mean: those of the object at ``path``, or of all objects. SPIR-V inside a
        container is what the machine code was made from: it is meant only when it is named."""
        owner = self.columns["place_object"]
        if path is not None:
            return np.flatnonzero(owner == self.objects.index(path))
        return np.flatnonzero(self.columns["object_secondary"][owner] == 0)

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
        location = int(self.locate(np.array([place]), np.array([offset], np.uint64))[0])
        kernel = self.strings[int(self.columns["location_kernel"][location])] or None
        return Candidate(where.object, where.section, where.section_index, SectionOffset(offset), kernel)


@dataclass(frozen=True, slots=True)
class AddressMap:
    """The address space cut wherever a text section begins or ends: sorted ``cuts``; behind each cut so many places
    (``count``) hold, and where it is one, ``place`` is its number."""

    cuts: U64
    count: Column
    place: Column
    address: U64

    @classmethod
    def over(cls, index: Index, places: Sequence[int] | Column) -> AddressMap:
        """Between two cuts the places held are a running sum; the sum of their numbers is the number of the only one."""
        numbers = np.asarray(places, np.int64)
        starts = index.columns["place_address"].astype(np.uint64)[numbers]
        ends = starts + index.columns["place_size"].astype(np.uint64)[numbers]
        cuts, slot = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        sign = np.repeat(np.array([1, -1]), len(numbers))
        count = np.zeros(len(cuts), np.int64)
        total = np.zeros(len(cuts), np.int64)
        np.add.at(count, slot, sign)
        np.add.at(total, slot, sign * np.tile(numbers, 2))
        return cls(cuts, np.cumsum(count), np.cumsum(total), index.columns["place_address"].astype(np.uint64))

    def resolve(self, addresses: U64) -> tuple[Column, Column, U64]:
        """(how many places hold the address, the place where it is one, the offset in it)."""
        if not len(self.cuts):
            nothing = np.zeros(len(addresses), np.int64)
            return nothing, nothing, np.zeros(len(addresses), np.uint64)
        slot = np.searchsorted(self.cuts, addresses, side="right") - 1
        count = np.where(slot >= 0, self.count[slot], 0)
        place = np.where(count == 1, self.place[slot], 0)
        return count, place, np.where(count == 1, addresses - self.address[place], np.uint64(0))
