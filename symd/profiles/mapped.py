"""From a mapping of a profile, which says what part of which file was loaded where, to addresses in a code object."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from symd.config import Limits
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import PT_LOAD
from symd.model.answers import Reason
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver, machine_objects


@dataclass(frozen=True, slots=True)
class MappedRange:
    """A range of a program's memory into which a file is mapped: ``[start, limit)`` holds the file's bytes from
    ``offset`` on; limit 0 means that the size is not known."""

    start: int
    limit: int
    offset: int

    def holds(self, address: int) -> bool:
        return self.start <= address and (not self.limit or address < self.limit)


class RangeLookup:
    """Finds the range that holds an address. Ranges without a limit take no part."""

    def __init__(self, ranges: Sequence[MappedRange]) -> None:
        bounded = [(number, one) for number, one in enumerate(ranges) if one.limit > one.start]
        ends = [(one.start, 1, number) for number, one in bounded] + [
            (one.limit, -1, number) for number, one in bounded
        ]
        self._cuts: list[int] = []
        self._holding: list[int | None] = []
        count = total = 0
        for at, sign, number in sorted(ends):
            count, total = count + sign, total + sign * number
            self._cuts.append(at)
            self._holding.append(total if count == 1 else None)

    def only(self, address: int) -> int | None:
        """The number of the one range that holds the address; None when none or several do."""
        slot = bisect_right(self._cuts, address) - 1
        return self._holding[slot] if slot >= 0 else None


@dataclass(frozen=True, slots=True)
class PlacedMapping:
    """A mapping that lies in ``target``: its address ``a`` is ``a + bias`` there."""

    target: LookupTarget
    bias: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file that has addresses: the ``size`` bytes from ``offset`` on are those of ``target`` from address
    ``value`` on."""

    offset: int
    size: int
    target: LookupTarget
    value: int


@dataclass(frozen=True, slots=True)
class FileOffsetMap:
    """How a code object's file offsets become addresses; ``whole`` is what a mapping of the object from its first byte
    on means where no range holds that byte (None: nothing)."""

    ranges: tuple[FileRange, ...]
    whole: LookupTarget | None


class MappingPlacer:
    """Places mappings in modules; each code object is read once."""

    def __init__(self, resolver: Resolver, limits: Limits) -> None:
        self._resolver = resolver
        self._limits = limits
        self._known: dict[IdentifiedModule, FileOffsetMap | Reason] = {}

    def place(self, mapped: MappedRange, found: IdentifiedModule) -> PlacedMapping | Reason:
        """Where a mapping lies in a module.

        In a linked object the segment that holds the file offset says how file offsets become addresses (System V ABI,
        "Program Loading"). In an unlinked one, where every kernel is at 0, the file offset falls into one text section,
        and addresses count from there; a mapping of such an object from its first byte on is taken as the object
        itself. A module of several objects is asked by address, and may answer AMBIGUOUS.
        """
        if found not in self._known:
            self._known[found] = self._read(found)
        offsets = self._known[found]
        if isinstance(offsets, Reason):
            return offsets
        for held in offsets.ranges:
            if 0 <= mapped.offset - held.offset < held.size:
                return PlacedMapping(held.target, mapped.offset - mapped.start + held.value - held.offset)
        if offsets.whole is not None and not mapped.offset:
            return PlacedMapping(offsets.whole, -mapped.start)
        return Reason.OUTSIDE_TEXT

    def _read(self, found: IdentifiedModule) -> FileOffsetMap | Reason:
        """The map of the code object that is meant; of a module of several, all addresses."""
        objects = machine_objects(self._resolver.summary(found.digest))
        paths = [item.path for item in objects if found.path in (None, item.path)]
        if len(paths) != 1:
            return FileOffsetMap((), LookupTarget(found.digest))
        whole = LookupTarget(found.digest, path=paths[0])
        data = self._resolver.symbolizer.object_data(found.digest, paths[0])
        try:
            return self._of_image(data, whole) if data.startswith(elf.MAGIC) else FileOffsetMap((), whole)
        except SymdError:
            return Reason.MALFORMED

    def _of_image(self, data: bytes, whole: LookupTarget) -> FileOffsetMap:
        image = elf.parse(data, Budget(self._limits, len(data)), whole.path or "the code object")
        loads = [segment for segment in image.segments if segment.type == PT_LOAD]
        if loads and containers.unpack(data, self._limits).objects[0].linked:
            return FileOffsetMap(tuple(FileRange(one.offset, one.file_size, whole, one.address) for one in loads), None)
        texts = [
            FileRange(
                header.offset, section.size, LookupTarget(whole.digest, section=section.index, path=whole.path), 0
            )
            for section, header in zip(image.sections, elf.section_headers(data, image.header), strict=True)
            if section.executable
        ]
        return FileOffsetMap(tuple(texts), whole)
