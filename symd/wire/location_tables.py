"""Tables of locations as messages: a whole one, or just those of its entries that answers point to."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from symd.model import U32, Locations
from symd.v1 import location_pb2
from symd.wire.columns import pack, unpack
from symd.wire.text import utf8s


class Numbering(dict[int, int]):
    """Gives numbers in the order of asking; the old ones are the keys, in that order."""

    def __missing__(self, old: int) -> int:
        new = self[old] = len(self)
        return new


def to_table(locations: Locations) -> location_pb2.LocationTable:
    """All of it, with its own numbers."""
    return location_pb2.LocationTable(
        count=len(locations),
        reason=pack(locations.reason),
        kernel=pack(locations.kernel),
        function=pack(locations.function),
        linkage_name=pack(locations.linkage_name),
        file=pack(locations.file),
        line=pack(locations.line),
        column=pack(locations.column),
        inlined=pack(locations.inlined),
        parent=pack(locations.parent),
        strings=utf8s(locations.strings),
    )


def from_table(message: location_pb2.LocationTable) -> Locations:
    """The locations. Raises ``Malformed``."""
    count = message.count
    return Locations(
        reason=unpack(message.reason, count, np.uint8),
        kernel=unpack(message.kernel, count, np.uint32),
        function=unpack(message.function, count, np.uint32),
        linkage_name=unpack(message.linkage_name, count, np.uint32),
        file=unpack(message.file, count, np.uint32),
        line=unpack(message.line, count, np.uint32),
        column=unpack(message.column, count, np.uint32),
        inlined=unpack(message.inlined, count, np.uint8),
        parent=unpack(message.parent, count, np.uint32),
        strings=message.strings,
    )


def to_part(locations: Locations, kept: NDArray[np.intp], parent: U32) -> location_pb2.LocationTable:
    """The kept entries, whose parents are numbered anew already, with the strings they number."""
    texts = [column[kept] for column in (locations.kernel, locations.function, locations.linkage_name, locations.file)]
    used = np.zeros(len(locations.strings), np.bool_)
    used[0] = True
    for column in texts:
        used[column] = True
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(used), np.uint32)
    renumbered[numbers] = np.arange(len(numbers), dtype=np.uint32)
    kernel, function, linkage_name, file = (pack(renumbered[column]) for column in texts)
    return location_pb2.LocationTable(
        count=len(kept),
        reason=pack(locations.reason[kept]),
        kernel=kernel,
        function=function,
        linkage_name=linkage_name,
        file=file,
        line=pack(locations.line[kept]),
        column=pack(locations.column[kept]),
        inlined=pack(locations.inlined[kept]),
        parent=pack(parent),
        strings=utf8s(locations.strings[number] for number in numbers.tolist()),
    )


def to_small_part(locations: Locations, kept: Numbering) -> location_pb2.LocationTable:
    """The same for a handful, in plain Python."""
    strings = Numbering({0: 0})
    return location_pb2.LocationTable(
        count=len(kept),
        reason=bytes([locations.reason.item(at) for at in kept]),
        kernel=pack_few(strings[locations.kernel.item(at)] for at in kept),
        function=pack_few(strings[locations.function.item(at)] for at in kept),
        linkage_name=pack_few(strings[locations.linkage_name.item(at)] for at in kept),
        file=pack_few(strings[locations.file.item(at)] for at in kept),
        line=pack_few(locations.line.item(at) for at in kept),
        column=pack_few(locations.column.item(at) for at in kept),
        inlined=bytes([locations.inlined.item(at) for at in kept]),
        parent=pack_few(kept[locations.parent.item(at)] for at in kept),
        strings=utf8s(locations.strings[number] for number in strings),
    )


def pack_few(numbers: Iterable[int], code: str = "I") -> bytes:
    """A column of 4 bytes a number (or as ``code`` of the struct module says); empty when all are 0."""
    listed = list(numbers)
    return struct.pack(f"<{len(listed)}{code}", *listed) if any(listed) else b""
