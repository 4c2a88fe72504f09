"""Tables of locations as messages: a whole one, or just those of its entries that answers point to. They are written
into the message that they belong to, because copying one is as much work as writing it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np

from symd.errors import Malformed
from symd.model.answers import Locations
from symd.model.columns import U32
from symd.rpc.wire.columns import check_below, pack, unpack
from symd.rpc.wire.reasons import from_reasons
from symd.rpc.wire.text import utf8s
from symd.v1 import location_pb2


class Numbering(dict[int, int]):
    """Gives numbers in the order of asking; the old ones are the keys, in that order."""

    def __missing__(self, old: int) -> int:
        new = self[old] = len(self)
        return new


def write_table(message: location_pb2.LocationTable, locations: Locations) -> None:
    """All of it, with its own numbers, into an empty message."""
    names = ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")
    columns = {name: pack(getattr(locations, name)) for name in names}
    columns["start_line"] = pack(locations.start_lines)
    _write(message, len(locations), columns, locations.strings)


def from_table(message: location_pb2.LocationTable) -> Locations:
    """The locations. Raises ``Malformed``, also where a number stands for nothing, and where parents do not end: a walk over frames would
    not."""
    count = message.count
    parent = unpack(message.parent, count, np.uint32)
    if message.parent:
        _check_parents(parent)
    return Locations(
        reason=from_reasons(unpack(message.reason, count, np.uint8)),
        kernel=_texts(message, "kernel"),
        function=_texts(message, "function"),
        linkage_name=_texts(message, "linkage_name"),
        file=_texts(message, "file"),
        line=unpack(message.line, count, np.uint32),
        column=unpack(message.column, count, np.uint32),
        inlined=unpack(message.inlined, count, np.uint8),
        parent=parent,
        strings=message.strings,
        start_line=unpack(message.start_line, count, np.uint32) if message.start_line else None,
    )


def _texts(message: location_pb2.LocationTable, name: str) -> U32:
    """A column of numbers of strings. Raises ``Malformed`` where one has none."""
    numbers = unpack(getattr(message, name), message.count, np.uint32)
    check_below(numbers, len(message.strings), f"string for the {name}")
    return numbers


def _check_parents(parent: U32) -> None:
    """Raises ``Malformed`` where a parent is no entry of the table, or following parents comes back to where it was. Each step goes twice
    as far as the last, so that a table of n entries takes log2(n) of them at most."""
    count = len(parent)
    if int(parent.max()) >= count:
        raise Malformed(f"the parent {parent.max()} of a location is not in its table of {count}")
    if parent[0]:
        raise Malformed(f"location 0, which stands for none, has the parent {parent[0]}")
    ancestor = parent
    for _ in range(count.bit_length()):
        if not ancestor.any():
            return
        ancestor = ancestor[ancestor]
    if ancestor.any():
        raise Malformed(f"the callers of location {np.flatnonzero(ancestor)[0]} have no end")


def write_small_part(message: location_pb2.LocationTable, locations: Locations, kept: Numbering) -> None:
    """The ``kept`` entries of a table into an empty message, in plain Python: for a handful ``subset`` takes longer."""
    strings = Numbering({0: 0})
    columns = {
        "reason": bytes([locations.reason.item(at) for at in kept]),
        "kernel": pack_few(strings[locations.kernel.item(at)] for at in kept),
        "function": pack_few(strings[locations.function.item(at)] for at in kept),
        "linkage_name": pack_few(strings[locations.linkage_name.item(at)] for at in kept),
        "file": pack_few(strings[locations.file.item(at)] for at in kept),
        "line": pack_few(locations.line.item(at) for at in kept),
        "column": pack_few(locations.column.item(at) for at in kept),
        "inlined": bytes([locations.inlined.item(at) for at in kept]),
        "parent": pack_few(kept[locations.parent.item(at)] for at in kept),
        "start_line": pack_few(locations.start_lines.item(at) for at in kept),
    }
    _write(message, len(kept), columns, [locations.strings[number] for number in strings])


def _write(
    message: location_pb2.LocationTable, count: int, columns: Mapping[str, bytes], strings: Iterable[str]
) -> None:
    message.count = count
    for name, column in columns.items():
        setattr(message, name, column)
    message.strings.extend(utf8s(strings))


def pack_few(numbers: Iterable[int], code: str = "I") -> bytes:
    """A column of 4 bytes a number (or as ``code`` of the struct module says); empty when all are 0."""
    listed = list(numbers)
    return struct.pack(f"<{len(listed)}{code}", *listed) if any(listed) else b""
