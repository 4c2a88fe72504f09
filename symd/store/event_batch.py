"""A batch of loads and unloads and their effects on a context, worked out as if each event came alone, from the rows
that the catalogue has around their times.

So a batch takes a few statements instead of a few for each event. Those rows are read here, and the batch's rows are
written, many with a statement.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from symd.model.addresses import ByAddress, ByKernel, BySection, Query
from symd.model.contexts import Load, Unload
from symd.model.identities import Digest
from symd.store.module_log import LOADED, UNLOADED
from symd.store.rows import CatalogueQueries, Connection

_HALF, _WHOLE = 1 << 63, 1 << 64

Section = str | int | None
SegmentRow = tuple[int, int, str | None, str | None, Section, int]
"""A row of the table of segments without its load: address, size, object, kernel, section, offset."""


class Moment(NamedTuple):
    """The time of a load or of an unload, and the key of the load. A load ends at the first moment of its key that is
    later than its own."""

    key: str
    time: int


@dataclass(eq=False, slots=True)
class KeptLoad:
    """A load in the catalogue, or on its way there: ``number`` is that of its row, 0 until it has one."""

    key: str
    module: Digest
    loaded: int
    unloaded: int | None
    number: int = 0
    event: bytes = b""
    """The digest of what was told (``_event``) of a load that is on its way: two loads with the same one are the
    same."""


class LogLine(NamedTuple):
    """What the log of modules is to have: that a load began, or ended at ``time``."""

    kind: str
    load: KeptLoad
    time: int | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a context has already, as far as it matters to a batch: by their events, the loads of the batch that it has;
    and for each moment of the batch the next moment of that key, and the loads of that key that began last before
    it."""

    told: frozenset[bytes] = frozenset()
    moments: Sequence[Moment] = ()
    loads: Sequence[KeptLoad] = ()


@dataclass(frozen=True, slots=True)
class BatchChanges:
    """What a batch changes: loads that are new, kept loads that end otherwise than before, by number, and lines of the
    log."""

    loads: list[KeptLoad] = field(default_factory=list)
    ended: dict[int, KeptLoad] = field(default_factory=dict)
    lines: list[LogLine] = field(default_factory=list)

    def begin(self, load: KeptLoad) -> None:
        """A load is new."""
        self.loads.append(load)
        self.lines.append(LogLine(LOADED, load, None))
        if load.unloaded is not None:
            self.lines.append(LogLine(UNLOADED, load, load.unloaded))

    def end(self, loads: Sequence[KeptLoad], time: int) -> None:
        """Loads end at a time, where they did not end before."""
        for each in loads:
            if each.unloaded is None or each.unloaded > time:
                each.unloaded = time
                self.lines.append(LogLine(UNLOADED, each, time))
                if each.number:
                    self.ended[each.number] = each


class EventBatch:
    """Events in the order in which they were told. ``section`` writes a section's name or number as the catalogue's
    column has it."""

    def __init__(self, events: Iterable[Load | Unload], section: Callable[[Section], Section]) -> None:
        self.keys: list[str] = []
        """The key of each event."""
        self.segments: dict[bytes, list[SegmentRow]] = {}
        """The segments of each load, by its event."""
        self.unloads: dict[Moment, None] = {}
        self._events: list[KeptLoad | Moment] = []
        for event in events:
            if isinstance(event, Unload):
                key = event.key
                self._add_unload(Moment(key, event.time))
            else:
                key = self._add_load(event, section)
            self.keys.append(key)

    @property
    def moments(self) -> list[Moment]:
        """Each once."""
        found = (Moment(each.key, each.loaded) if isinstance(each, KeptLoad) else each for each in self._events)
        return list(dict.fromkeys(found))

    def changes(self, before: Surroundings) -> BatchChanges:
        """What the batch changes in a context that has ``before``."""
        timelines: defaultdict[str, _KeyTimeline] = defaultdict(_KeyTimeline)
        for moment in before.moments:
            timelines[moment.key].add_moment(moment.time)
        for load in before.loads:
            timelines[load.key].add_load(load)
        made, told = BatchChanges(), set(before.told)
        for event in self._events:
            timeline = timelines[event.key]
            if isinstance(event, Moment):
                made.end(timeline.loads_before(event.time), event.time)
                timeline.add_moment(event.time)
            elif event.event not in told:
                told.add(event.event)
                new = replace(event, unloaded=timeline.next_after(event.loaded))
                made.end(timeline.loads_before(new.loaded), new.loaded)
                made.begin(new)
                timeline.add_moment(new.loaded)
                timeline.add_load(new)
        return made

    def _add_load(self, load: Load, section: Callable[[Section], Section]) -> str:
        places = [_columns(each.start) for each in load.segments]
        event = _event(load, places)
        key = load.key or event.hex()
        self._events.append(KeptLoad(key, load.module, load.time, None, event=event))
        if event not in self.segments:
            self.segments[event] = [
                (_signed(each.address), each.size, each.path, kernel, section(named), offset)
                for each, (kernel, named, offset) in zip(load.segments, places, strict=True)
            ]
        if load.unload_time is not None:
            self._add_unload(Moment(key, load.unload_time))
        return key

    def _add_unload(self, moment: Moment) -> None:
        self._events.append(moment)
        self.unloads[moment] = None


class _KeyTimeline:
    """What is known of one key, in the order of time."""

    def __init__(self) -> None:
        self._moments: list[int] = []
        self._begins: list[int] = []
        self._loads: dict[int, list[KeptLoad]] = {}

    def next_after(self, time: int) -> int | None:
        """The first moment after a time."""
        at = bisect_right(self._moments, time)
        return self._moments[at] if at < len(self._moments) else None

    def loads_before(self, time: int) -> Sequence[KeptLoad]:
        """The loads that began last before a time."""
        at = bisect_left(self._begins, time)
        return self._loads[self._begins[at - 1]] if at else ()

    def add_moment(self, time: int) -> None:
        insort(self._moments, time)

    def add_load(self, load: KeptLoad) -> None:
        if load.loaded not in self._loads:
            insort(self._begins, load.loaded)
        self._loads.setdefault(load.loaded, []).append(load)


def _event(load: Load, places: Sequence[tuple[str | None, Section, int]]) -> bytes:
    """What tells two loads apart: all that they say but their end."""
    told = [load.key, load.module, load.time]
    told += [[each.address, each.size, each.path, *place] for each, place in zip(load.segments, places, strict=True)]
    return hashlib.sha256(json.dumps(told).encode()).digest()[:16]


def _columns(place: Query) -> tuple[str | None, Section, int]:
    """(kernel, section, offset); both names are absent for an object address."""
    match place:
        case ByKernel(kernel, offset):
            return kernel, None, _signed(offset)
        case BySection(section, offset):
            return None, section, _signed(offset)
        case ByAddress(address):
            return None, None, _signed(address)


def _signed(number: int) -> int:
    """64 bits as SQLite keeps them."""
    return number - _WHOLE if number >= _HALF else number


_EVENT = {"event": "BYTEA"}
_MOMENT = {"key": "TEXT", "time": "BIGINT"}
_END = {"number": "BIGINT", "time": "BIGINT"}
_LOAD = {"event": "BYTEA", "key": "TEXT", "module": "TEXT", "loaded": "BIGINT", "unloaded": "BIGINT"}
_SEGMENT = {
    "load": "BIGINT", "address": "BIGINT", "size": "BIGINT", "object": "TEXT", "kernel": "TEXT", "section": "JSONB", '"offset"': "BIGINT"
}  # fmt: skip
_TOLD = "context = ? AND loads.event = given.event"
_AROUND = "SELECT key, \
(SELECT max(loaded) FROM loads WHERE context = ? AND loads.key = given.key AND loaded < given.time), \
(SELECT min(loaded) FROM loads WHERE context = ? AND loads.key = given.key AND loaded > given.time), \
(SELECT min(unloads.time) FROM unloads WHERE context = ? AND unloads.key = given.key AND unloads.time > given.time) FROM given"
_BEGUN = "context = ? AND loads.key = given.key AND loaded = given.time"
_UNLOADED = "INSERT INTO unloads (context, key, time) SELECT ?, key, time FROM given WHERE TRUE ON CONFLICT DO NOTHING RETURNING 1"
_LOADED = "INSERT INTO loads (context, revision, event, key, module, loaded, unloaded) \
SELECT ?, ?, event, key, module, loaded, unloaded FROM given RETURNING sequence, event"
_PLACED = 'INSERT INTO segments (load, address, size, object, kernel, section, "offset") \
SELECT load, address, size, object, kernel, section, "offset" FROM given'
_ENDED = "UPDATE loads SET unloaded = given.time, revision = ? FROM given WHERE sequence = given.number"

_number = attrgetter("number")


class EventRows:
    """The rows of the context with that number, in one transaction of a catalogue."""

    def __init__(self, catalogue: CatalogueQueries, connection: Connection, context: int) -> None:
        self._catalogue = catalogue
        self._connection = connection
        self._context = context

    def around(self, batch: EventBatch) -> Surroundings:
        """What the context has already that matters to a batch (``Surroundings``)."""
        events = [(event,) for event in batch.segments]
        told = self._found("loads.event", _EVENT, events, _TOLD)
        moments: set[Moment] = set()
        begins: set[Moment] = set()
        for row in self._for_each(_MOMENT, batch.moments, _AROUND, *[self._context] * 3):
            key, before, *after = row
            moments.update(Moment(key, time) for time in after if time is not None)
            if before is not None:
                begins.add(Moment(key, before))
        loads = self._found("loads.key, module, loaded, unloaded, sequence", _MOMENT, sorted(begins), _BEGUN)
        kept = [KeptLoad(*row) for row in loads]
        return Surroundings(frozenset(event for (event,) in told), list(moments), sorted(kept, key=_number))

    def add_unloads(self, batch: EventBatch) -> int:
        """How many of a batch's were new."""
        return len(self._for_each(_MOMENT, list(batch.unloads), _UNLOADED, self._context))

    def change(self, batch: EventBatch, changes: BatchChanges, revision: int) -> None:
        """Write what a batch changes, but for its unloads and the log of modules; its loads get their numbers."""
        new = [(each.event, each.key, each.module, each.loaded, each.unloaded) for each in changes.loads]
        numbered = self._for_each(_LOAD, new, _LOADED, self._context, revision)
        numbers = {event: number for number, event in numbered}
        for each in changes.loads:
            each.number = numbers[each.event]
        segments = ((each.number, *row) for each in changes.loads for row in batch.segments[each.event])
        self._for_each(_SEGMENT, segments, _PLACED)
        if changes.ended:
            self._catalogue.expect_lookups(self._connection)
            self._for_each(_END, [(each.number, each.unloaded) for each in changes.ended.values()], _ENDED, revision)

    def _found(
        self, what: str, columns: Mapping[str, str], given: Iterable[Sequence[Any]], condition: str
    ) -> list[Any]:
        """Some columns of the loads that a condition finds for each given row."""
        rows = self._catalogue.FOR_EACH.format(table="loads", condition=condition)
        return self._for_each(columns, given, f"SELECT {what} FROM {rows}", self._context)  # noqa: S608 - constants

    def _for_each(
        self, columns: Mapping[str, str], given: Iterable[Sequence[Any]], statement: str, *parameters: Any
    ) -> list[Any]:
        return self._catalogue.execute_given(self._connection, columns, given, statement, parameters)
