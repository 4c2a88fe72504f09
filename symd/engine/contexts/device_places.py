"""At which device addresses did a load put a place of its module? The way back from what ``symd.engine.contexts.device`` answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from symd.engine.contexts.address_forms import extended, reduced
from symd.index import Index
from symd.model.addresses import ByAddress, ByKernel, BySection, DeviceAddress
from symd.model.columns import U64
from symd.model.contexts import Segment
from symd.model.identities import ObjectPath

Interval = tuple[int, int, int]
"""(first place, bytes, device address of the first)."""


class DevicePlaces:
    """The segments of one load of the module that ``index`` describes, in a context whose addresses have ``width`` bits, by what they
    hold."""

    def __init__(self, index: Index, segments: Sequence[Segment], width: int) -> None:
        self._width = width
        self._numbers = {(where.path, where.section_index): number for number, where in enumerate(index.sections)}
        by_section: dict[int, list[Interval]] = defaultdict(list)
        by_address: dict[ObjectPath | None, list[Interval]] = defaultdict(list)
        starts = _Starts(index)
        for segment in segments:
            if isinstance(segment.start, ByAddress):
                by_address[segment.path].append((segment.start.address, segment.size, segment.address))
            for number, first in starts.of(segment):
                by_section[number].append((first, segment.size, segment.address))
        self._by_section = {number: _columns(found) for number, found in by_section.items()}
        self._by_address = {path: _columns(found) for path, found in by_address.items()}

    def of(self, path: ObjectPath, section: int, offset: int, address: int) -> tuple[DeviceAddress, ...]:
        """The device addresses of the place at section offset ``offset`` and object address ``address``, lowest first; none where the
        load does not say."""
        number = self._numbers.get((path, section), -1)
        found = set(_found(self._by_section.get(number), offset))
        for named in (path, None):
            found.update(_found(self._by_address.get(named), address))
        low, _ = reduced(np.array(sorted(found), np.uint64), self._width)
        return tuple(map(DeviceAddress, extended(low, self._width).tolist()))


class _Starts:
    """Finds what a segment that is named by kernel or section begins with: (number of a text section, section offset)."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._named: dict[str | int, list[int]] = defaultdict(list)
        for number, where in enumerate(index.sections):
            for name in (where.section, where.section_index):
                if name is not None:
                    self._named[name].append(number)

    def of(self, segment: Segment) -> Iterator[tuple[int, int]]:
        match segment.start:
            case ByKernel(kernel, offset):
                entries = [entry for entry in self._index.kernels_named(kernel) if entry.size]
                found = [(entry.section, entry.offset + offset) for entry in entries]
            case BySection(section, offset):
                found = [(number, offset) for number in self._named.get(section, ())]
            case _:
                return
        for number, first in found:
            if segment.path in (None, self._index.sections[number].path):
                yield number, first


def _columns(intervals: Sequence[Interval]) -> tuple[U64, U64, U64]:
    first, size, address = (np.array(column, np.uint64) for column in zip(*intervals, strict=True))
    return first, size, address


def _found(columns: tuple[U64, U64, U64] | None, place: int) -> list[int]:
    if columns is None:
        return []
    first, size, address = columns
    distance = np.uint64(place) - first  # modulo 2^64: what lies before a segment is farther than it is long
    inside = distance < size
    addresses: list[int] = (address[inside] + distance[inside]).tolist()
    return addresses
