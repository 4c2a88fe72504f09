"""A batch of loads and unloads and the catalogue's tables: what these have around its times, and its rows, many with a statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from symd.store.catalogue_queries import CatalogueQueries
from symd.store.connection import ANY_NUMBER, DIGEST, NUMBER, TEXT, Connection, optional, typed
from symd.store.event_batch import BatchChanges, EventBatch, KeptLoad, Moment, Surroundings

_TIME = optional(ANY_NUMBER)
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
            key, before, *after = typed(row, TEXT, *[_TIME] * 3)
            moments.update(Moment(key, time) for time in after if time is not None)
            if before is not None:
                begins.add(Moment(key, before))
        loads = self._found("loads.key, module, loaded, unloaded, sequence", _MOMENT, sorted(begins), _BEGUN)
        kept = [KeptLoad(*typed(row, TEXT, DIGEST, ANY_NUMBER, _TIME, NUMBER)) for row in loads]
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
        """Of the loads that a condition finds for each row that is given."""
        rows = self._catalogue.FOR_EACH.format(table="loads", condition=condition)
        return self._for_each(columns, given, f"SELECT {what} FROM {rows}", self._context)  # noqa: S608 - constants

    def _for_each(
        self, columns: Mapping[str, str], given: Iterable[Sequence[Any]], statement: str, *parameters: Any
    ) -> list[Any]:
        return self._catalogue.execute_given(self._connection, columns, given, statement, parameters)
