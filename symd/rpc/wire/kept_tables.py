"""Tables of locations that travel once: the daemon names the tables that answers point into again and again, and the
client keeps them by name. A name follows from what the table says, so that any daemon may answer a client that has it."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from symd.errors import Malformed
from symd.model.answers import Locations
from symd.rpc.wire.location_tables import from_table, write_table
from symd.v1 import location_pb2

MIN_NAMED_ENTRIES = 1 << 10
"""Entries that a table must have to be worth a name."""
ENTRIES_PER_ADDRESS = 8
"""How many entries a table may have for each address of a batch to be worth sending whole."""
NAME_BYTES = 16
"""Bytes of a table's name: a BLAKE2b digest of the table's message."""
BUDGET_BYTES = 256 << 20
"""Bytes of tables that one side keeps."""


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
        name_only = location_pb2.LocationTable(name=name).SerializeToString()
        return cls(name, content + name_only, name_only)  # messages one after another are read as their union


@dataclass(slots=True)
class _KnownTable:
    """A table that answers pointed into, and its name, once it has one."""

    table: weakref.ref[Locations]
    named: NamedTable | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def with_name(self, locations: Locations) -> NamedTable:
        with self.lock:
            if self.named is None:
                self.named = NamedTable.of(locations)
            return self.named


class NamedTables:
    """The daemon's names. What is shared, or met a second time, is not the table of one answer; its message is kept
    as long as the index stays open and ``budget`` bytes last. Safe to use from several threads."""

    def __init__(self, budget: int = BUDGET_BYTES) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._met: OrderedDict[int, _KnownTable] = OrderedDict()
        self._gone: deque[int] = deque()

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
        """The table with its name. It gets one when that is ``wanted``: the batch is large, or the client may have the table
        from elsewhere. Otherwise nobody would send what is written for it."""
        key = id(locations)
        with self._lock:
            self._forget_gone()
            met = self._met.get(key)
            if met is None or met.table() is not locations:
                met = self._met[key] = _KnownTable(weakref.ref(locations, lambda _table: self._gone.append(key)))
                if not locations.shared:
                    return None
            self._met.move_to_end(key)
        if not wanted and met.named is None:
            return None
        named = met.with_name(locations)
        with self._lock:
            self._shrink()
        return named

    def _forget_gone(self) -> None:
        """A table can go at any moment, in any thread: that is noted then, and dealt with here."""
        while self._gone:
            key = self._gone.popleft()
            met = self._met.get(key)
            if met is not None and met.table() is None:
                del self._met[key]

    def _shrink(self) -> None:
        """Forget the tables that were asked for longest ago, never the last."""
        sizes = {key: len(met.named.whole) for key, met in self._met.items() if met.named is not None}
        excess = sum(sizes.values()) - self._budget
        for key in list(sizes)[:-1]:
            if excess <= 0:
                return
            self._met.pop(key, None)
            excess -= sizes[key]


class KeptTables:
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

    kept: KeptTables
    module: str
    known: dict[bytes, Locations]

    def take(self, message: location_pb2.LocationTable) -> Locations:
        """The table that the message has or names. Raises ``Malformed``."""
        if not message.name:
            return from_table(message)
        known = self.known.get(message.name)
        if known is None:
            if not message.count:
                raise Malformed("an answer points into a table of locations that never came")
            known = self.known[message.name] = from_table(message)
            self.kept.keep(self.module, message.name, known)
        return known


def _size(table: Locations) -> int:
    """Bytes, about: 30 an entry, and what a string object takes beside its text."""
    return 30 * len(table) + sum(60 + len(text) for text in table.strings)
