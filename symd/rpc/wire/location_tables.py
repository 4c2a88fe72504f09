"""Tables of locations as messages: a whole one, or those entries that answers point to. They are written directly into
their message, because copying one is as much work as writing it.

A table may travel once and be named later: its name follows from its contents, so that any daemon may answer a client
that keeps the table under that name.

The places of the answers to a batch are as few as possible (``placed``): what all answers of one origin, or of one text
section, have in common travels once.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed
from symd.model.answers import Answers, Locations
from symd.model.arguments import ColumnQuestion
from symd.model.columns import I64, U32
from symd.rpc.wire.columns import check_below, pack, unpack
from symd.rpc.wire.fields import from_reasons, utf8s
from symd.v1 import location_pb2


class Numbering(dict[int, int]):
    """Gives numbers in the order of asking; the old ones are the keys, in that order."""

    def __missing__(self, old: int) -> int:
        new = self[old] = len(self)
        return new


def write_table(message: location_pb2.LocationTable, locations: Locations) -> None:
    """Write a whole table of locations, with its own numbers, into an empty message."""
    names = ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")
    columns = {name: pack(getattr(locations, name)) for name in names}
    columns["start_line"] = pack(locations.start_lines)
    _write(message, len(locations), columns, locations.strings)


def from_table(message: location_pb2.LocationTable) -> Locations:
    """The locations. Raises ``Malformed``, also where a number stands for nothing, and where parents do not end: a walk
    over frames would not."""
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
    """Raises ``Malformed`` where a parent is no entry of the table, or following parents comes back to where it was.
    Each step goes twice as far as the last, so that a table of n entries takes log2(n) of them at most."""
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


MIN_NAMED_ENTRIES = 1 << 10
"""Entries that a table must have to be worth a name."""
ENTRIES_PER_ADDRESS = 8
"""How many entries a table may have for each address of a batch to be worth sending whole."""
NAME_BYTES = 16
"""Bytes of a table's name: a BLAKE2b digest of the table's message."""
BUDGET_BYTES = 256 << 20
"""Bytes of tables that a client keeps."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A whole table as the bytes of a message, and the same by name alone."""

    name: bytes
    whole: bytes
    name_only: bytes

    @classmethod
    def of(cls, locations: Locations) -> NamedTable:
        message = location_pb2.LocationTable()
        write_table(message, locations)
        content = message.SerializeToString(deterministic=True)
        name = hashlib.blake2b(content, digest_size=NAME_BYTES).digest()
        name_only = location_pb2.LocationTable(id=name).SerializeToString()
        return cls(name, content + name_only, name_only)  # messages one after another are read as their union


class NamedTables:
    """The daemon's names. What is shared, or met a second time, is not the table of one answer; its message is kept as
    long as the table, which is that of an open index. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: WeakKeyDictionary[Locations, NamedTable | None] = WeakKeyDictionary()

    def message(self, locations: Locations, count: int, known: Collection[bytes], sent: set[bytes]) -> bytes | None:
        """How ``count`` answers that point into the table bring it: by name to one who knows it, whole (and from then
        on it is in ``sent``), or as None: only the part that they need, without a name."""
        large = count * ENTRIES_PER_ADDRESS >= len(locations)
        named = self._named(locations, large or bool(known)) if len(locations) >= MIN_NAMED_ENTRIES else None
        if named is None:
            return None
        if named.name in sent or named.name in known:
            return named.name_only
        if not large:
            return None
        sent.add(named.name)
        return named.whole

    def _named(self, locations: Locations, wanted: bool) -> NamedTable | None:
        """The table with its name. It gets one when that is ``wanted``: the batch is large, or the client may have the
        table from elsewhere. Otherwise nobody would send what is written for it."""
        with self._lock:
            is_new = locations not in self._met
            named = self._met.setdefault(locations)
        if named is None and wanted and (locations.shared or not is_new):
            named = NamedTable.of(locations)
            with self._lock:
                self._met[locations] = named
        return named


class TableCache:
    """The client's: for each module the last table that had a name, ``budget`` bytes of them. Safe to use from several
    threads."""

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, tuple[bytes, Locations]] = OrderedDict()

    def of(self, module: str) -> TableReceiver:
        """What one call starts from."""
        with self._lock:
            kept = self._tables.get(module)
            if kept is not None:
                self._tables.move_to_end(module)
        return TableReceiver(self, module, dict((kept,)) if kept is not None else {})

    def keep(self, module: str, name: bytes, locations: Locations) -> None:
        with self._lock:
            self._tables[module] = name, locations
            self._tables.move_to_end(module)
            sizes = {module: _size(table) for module, (_, table) in self._tables.items()}
            while sum(sizes.values()) > self._budget:
                oldest, _ = self._tables.popitem(last=False)
                del sizes[oldest]


@dataclass(frozen=True, slots=True)
class TableReceiver:
    """The named tables of one call: those that the client had and those that came."""

    kept: TableCache
    module: str
    known: dict[bytes, Locations]

    def take(self, message: location_pb2.LocationTable) -> Locations:
        """The table that the message has or names. Raises ``Malformed``."""
        if not message.id:
            return from_table(message)
        known = self.known.get(message.id)
        if known is None:
            if not message.count:
                raise Malformed("an answer points into a table of locations that never came")
            known = self.known[message.id] = from_table(message)
            self.kept.keep(self.module, message.id, known)
        return known


def _size(table: Locations) -> int:
    """Bytes, about: 30 an entry, and what a string object takes beside its text."""
    return 30 * len(table) + sum(60 + len(text) for text in table.strings)


COMPARED_AT_ONCE = 1 << 15
"""Answers that are compared at a time, so that what is made on the way stays in the processor's cache."""
ANSWERS_A_LOCATION = 8
"""Answers to one location from which on its place may travel with it, and not with each of them."""
DENSE = 1 << 22
"""The most numbers of places that are told apart without sorting; more are not tried."""


class Key(Enum):
    """What answers that lie in one place have in common."""

    OWN = auto()
    ORIGIN = auto()
    LOCATION = auto()


class Placement(NamedTuple):
    """Places by number, from 1 on: the number of each one's ``text_section`` among the answers' (0: none) and of its
    ``module``, and the ``base`` that a value minus its section offset is there; None where the two have not one
    difference. ``number`` has the number of the place of each key, and ``key`` says what is one: each answer's own in
    ``of_answer``, its origin, or its location."""

    number: U32
    key: Key
    of_answer: U32 | None
    text_section: Sequence[int]
    module: Sequence[int]
    base: Sequence[int] | None


def placed(answers: Answers, question: ColumnQuestion | None, module: U32 | None, queries: int) -> Placement:
    """The places of answers to ``question``, where that was a column; ``module`` has the number of each one's, where
    there are several. They answer so many ``queries``: those that are the same have one answer."""
    if question is not None and len(answers):
        origins = len(question.origins) or 1
        for numbers, count, key in _groupings(answers, question, module, origins, queries):
            found = _in_groups(answers, question, module, numbers, count)
            if found is not None:
                return Placement(found[0], key, numbers if key is Key.OWN else None, *found[1:])
    return _without_bases(answers, question, module)


def _groupings(
    answers: Answers, question: ColumnQuestion, module: U32 | None, origins: int, queries: int
) -> Iterator[tuple[U32 | None, int, Key]]:
    """Ways to number the answers, so that all of one number may lie in one place: by origin (None: all have one), by
    what they lie in, by both, and by location, where there are many more answers than locations."""
    yield question.origin, origins, Key.ORIGIN
    lies = _lying_in(answers, module)
    count = int(lies.max()) + 1
    if count <= DENSE:
        yield lies, count, Key.OWN
    if question.origin is not None and count * origins <= DENSE:
        yield lies * origins + question.origin, count * origins, Key.OWN
    count = len(answers.locations)
    if count <= DENSE and queries > ANSWERS_A_LOCATION * count:
        yield answers.location, count, Key.LOCATION


def _lying_in(answers: Answers, module: U32 | None) -> U32:
    """A number for the text section that each answer lies in, or where it lies in none for its module."""
    lies = answers.text_section
    if module is None or lies.all():
        return lies
    return np.where(lies, lies, np.uint32(len(answers.text_sections) + 1) + module)


def _some_of_each(key: U32, count: int) -> I64:
    """For each number below ``count`` an answer that has it as its ``key``; -1 where none has."""
    some: I64 = np.full(count, -1, np.int64)
    for part in _parts(len(key)):
        some[key[part]] = np.arange(part.start, part.stop)
    return some


def _parts(count: int) -> Iterator[slice]:
    starts = range(0, count, COMPARED_AT_ONCE)
    return (slice(start, min(start + COMPARED_AT_ONCE, count)) for start in starts)


def _numbered(used: NDArray[np.bool_]) -> U32:
    """Numbers from 1 on for those that are used."""
    return np.where(used, np.cumsum(used), 0).astype(np.uint32)


def _in_groups(
    answers: Answers, question: ColumnQuestion, module: U32 | None, key: U32 | None, count: int
) -> tuple[U32, Sequence[int], Sequence[int], Sequence[int]] | None:
    """The number of each key's place, and the sections, modules and bases of the places, where all answers of one key
    lie in one place. Of each key some answer is taken, and all are compared with it."""
    some: I64 = np.zeros(count, np.int64) if key is None else _some_of_each(key, count)
    used = some >= 0
    section = answers.text_section[some]
    base = np.where(section, question.values[some] - answers.offset[some], np.uint64(0))
    modules = np.zeros(count, np.uint32) if module is None else module[some]
    one_section, one_module = len(set(section[used].tolist())) == 1, module is None or module.strides == (0,)
    for part in _parts(len(answers)):
        number = 0 if key is None else key[part].astype(np.intp)
        lies = answers.text_section[part]
        same = question.values[part] - answers.offset[part] == base[number]
        if not lies.all():
            same |= lies == 0
        same &= lies == (section[number] if not one_section else section[used][0])
        if module is not None and not one_module:
            same &= module[part] == modules[number]
        if not same.all():
            return None
    places: dict[tuple[int, int, int], int] = {}
    triples = zip(section[used].tolist(), modules[used].tolist(), base[used].tolist(), strict=True)
    numbers = np.ones(count, np.uint32)  # what no answer has may lie in the first
    numbers[used] = [places.setdefault(each, len(places) + 1) for each in triples]
    sections, of_modules, bases = zip(*places, strict=True)
    return numbers, sections, of_modules, bases


def _without_bases(answers: Answers, question: ColumnQuestion | None, module: U32 | None) -> Placement:
    lies = _lying_in(answers, module)
    if not len(lies):
        return Placement(np.empty(0, np.uint32), Key.OWN, lies, (), (), None)
    some = _some_of_each(lies, int(lies.max()) + 1)
    numbers = _numbered(some >= 0)
    some = some[some >= 0]
    modules = [0] * len(some) if module is None else module[some].tolist()
    section = answers.text_section[some].tolist()
    if len(some) > 1:
        return Placement(numbers, Key.OWN, lies, section, modules, None)
    origins = 1 if question is None or question.origin is None else len(question.origins)
    return Placement(np.ones(origins, np.uint32), Key.ORIGIN, None, section, modules, None)
