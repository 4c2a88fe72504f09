"""Contexts with the log of their loads and unloads, from which the map in memory is made; and aliases, in both
directions: other names of modules and code objects, which may hold in one context alone.

A load ends at the first unload or load of its key after it. That is worked out whenever an event comes, so that events
may come in any order, more than once, and from several processes.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from symd.config import Limits
from symd.errors import AliasNotFound, BadQuery, ContextNotFound
from symd.model.addresses import (
    ByAddress,
    ByKernel,
    BySection,
    DeviceAddress,
    KernelOffset,
    ObjectAddress,
    Query,
    SectionOffset,
)
from symd.model.contexts import Alias, Context, ContextRecord, Load, LoadInContext, Segment, Unload
from symd.model.identities import Digest, ObjectPath, checked_digest
from symd.store import budgets, rows
from symd.store.event_batch import EventBatch, EventRows
from symd.store.folder import not_found
from symd.store.module_log import append_to_log
from symd.store.rows import CatalogueQueries, Connection, DamagedRow, lock_timeout_left

PAGE = 5000
"""Loads that are read together."""
ROWS = 5000
"""Segments that are read together, beyond those of one load: a context may have millions."""
_RECORDS = "SELECT id, description, added, number FROM contexts "
_UNTIL = "SELECT max(sequence) FROM (SELECT sequence FROM loads WHERE context = ? AND sequence > ? \
ORDER BY sequence LIMIT ?) AS page"
_BEYOND = "SELECT sequence FROM loads LEFT JOIN segments ON load = sequence WHERE context = ? AND sequence > ? \
AND sequence <= ? ORDER BY sequence LIMIT 1 OFFSET ?"
_BEFORE = "SELECT max(sequence) FROM loads WHERE context = ? AND sequence > ? AND sequence < ?"
_SEGMENTS = 'SELECT sequence, key, module, loaded, unloaded, address, size, object, kernel, section, "offset" \
FROM loads CROSS JOIN segments WHERE load = sequence AND context = ? AND sequence > ? AND sequence <= ? \
ORDER BY sequence, segments.rowid'
_LOADS = 'SELECT sequence, key, module, loaded, unloaded, address, size, object, kernel, section, "offset" \
FROM loads LEFT JOIN segments ON load = sequence WHERE context = ? AND sequence > ? AND sequence <= ? \
ORDER BY sequence, segments.rowid'
_LOAD = 'SELECT sequence, key, module, loaded, unloaded, address, size, object, kernel, section, "offset" \
FROM loads LEFT JOIN segments ON load = sequence WHERE sequence = ? ORDER BY segments.rowid'
_OF_LOAD = (
    "SELECT id, description, added, number FROM contexts WHERE number = (SELECT context FROM loads WHERE sequence = ?)"
)
_LIVED = """SELECT sequence FROM (
    SELECT sequence FROM loads WHERE {chosen} AND unloaded IS NULL
    AND sequence NOT IN (SELECT load FROM changes WHERE sequence > ? AND kind = 'loaded') ORDER BY sequence LIMIT ?
) AS living UNION SELECT load FROM changes WHERE {changed} AND sequence > ? AND kind = 'unloaded'
    AND load NOT IN (SELECT load FROM changes WHERE sequence > ? AND kind = 'loaded')
ORDER BY sequence LIMIT ?"""
_ACTIVE = _LIVED.format(chosen="sequence > ?", changed="load > ?")
_ACTIVE_OF = _LIVED.format(chosen="module = ?", changed="sha256 = ?")
_HELD_IN = """SELECT loads.sequence FROM loads JOIN contexts ON contexts.number = loads.context
    WHERE loads.module = ? AND contexts.id = ? AND loads.unloaded IS NULL ORDER BY loads.sequence"""
_ENDED = "SELECT sequence, unloaded FROM loads WHERE context = ? AND revision > ? AND sequence <= ? ORDER BY sequence"
_LIVING = "SELECT sequence FROM loads WHERE context = ? AND unloaded IS NULL LIMIT 1"
_LAST_END = "SELECT max(unloaded) FROM loads WHERE context = ?"
_ID = re.compile(r"[0-9a-f]{32}\Z")
_WHOLE = 1 << 64


class ContextRow(NamedTuple):
    """A segment as it is kept: its load's ``sequence`` number, key, module, and times of load and unload in nanoseconds
    of the context's clock; its device addresses, and what of the module is mapped there. The 64
    bits of ``address`` and ``offset`` are written as SQLite has them: with a sign."""

    sequence: int
    key: str
    module: Digest
    loaded: int
    unloaded: int | None
    address: int
    size: int
    path: ObjectPath | None
    kernel: str | None
    section: str | int | None
    offset: int


@dataclass(frozen=True, slots=True)
class ContextChanges:
    """What happened in a context: ``rows`` of loads after the last ``sequence`` known, and new ends of loads up to it;
    ``ended_at`` is when the last load ended, where nothing is loaded any more, and None where something is, or nothing
    ever was. ``whole`` is False when there are more rows; then ask again with this answer. ``number`` is another one
    when the context was forgotten and made again: then all there is comes."""

    number: int = 0
    revision: int = 0
    sequence: int = 0
    rows: Sequence[ContextRow] = field(default=(), repr=False)
    ended: Sequence[tuple[int, int]] = field(default=(), repr=False)
    whole: bool = True
    ended_at: int | None = None


NO_CHANGES = ContextChanges()
_ADDRESS = ContextRow._fields.index("address")


class ContextLog:
    """The contexts in one catalogue. Safe to use from several threads. Methods that take a context's id raise
    ``ContextNotFound``. ``on_append`` is called after loads and unloads were appended to the log of modules."""

    def __init__(
        self, catalogue: CatalogueQueries, limits: Limits, on_append: Callable[[], None] = lambda: None
    ) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._on_append = on_append

    def add(self, context: Context) -> str:
        """Make a context known and return its id; one that is known already stays as it is. Raises ``LimitExceeded``
        when there are too many."""
        description = describe(context)
        name = _id_of(description)
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            connection.execute(
                "INSERT INTO contexts (id, description, added, revision, segments) VALUES (?, ?, ?, 0, 0)"
                " ON CONFLICT (id) DO NOTHING",
                (name, description, time.time()),
            )
            budgets.check_contexts(connection, self._limits)
        return name

    def context(self, name: str) -> ContextRecord:
        """The context with that id."""
        _check_id(name)
        with self._catalogue.reading() as connection:
            row = connection.execute(_RECORDS + "WHERE id = ?", (name,)).fetchone()
            if row is None:
                raise unknown(name)
            return _record(row)

    def check_known(self, names: Iterable[str]) -> None:
        """Raises ``ContextNotFound`` where a context is not known. Their attributes, which may be long, are not
        read."""
        with self._catalogue.reading() as connection:
            for name in names:
                _number(connection, name)

    def contexts(self, after: str = "", limit: int = 1000) -> list[ContextRecord]:
        """One page of contexts, oldest first: those after the one with the id ``after``, which must be there still."""
        query = _RECORDS + "WHERE number > ? ORDER BY number LIMIT ?"
        with self._catalogue.reading_at_once() as connection:
            number = _number(connection, after)[0] if after else 0
            return [_record(row) for row in connection.execute(query, (number, limit))]

    def remove(self, name: str) -> None:
        """Forget a context with everything that was told of it."""
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            number = _number(connection, name)[0]
            connection.execute("DELETE FROM contexts WHERE number = ?", (number,))
            connection.execute("DELETE FROM aliases WHERE context = ?", (name,))

    def record(self, name: str, events: Sequence[Load | Unload]) -> list[str]:
        """Keep events, all or on an error none, and return the key of each. One that was told before changes nothing.

        Loads must have their segments, or none where nobody knows any. Raises ``LimitExceeded`` when the context would
        have too many of them, or of loads and unloads.
        """
        batch = EventBatch(events, self._catalogue.section)
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            number, revision, segments, told = _number(connection, name)
            rows = EventRows(self._catalogue, connection, number)
            changes = batch.changes(rows.around(batch))
            segments += sum(len(batch.segments[each.event]) for each in changes.loads)
            told += len(changes.loads) + rows.add_unloads(batch)
            budgets.check_context(segments, told)
            rows.change(batch, changes, revision + 1)
            connection.execute(
                "UPDATE contexts SET revision = ?, segments = ?, events = ? WHERE number = ?",
                (revision + 1, segments, told, number),
            )
            if changes.lines:
                entries = [(kind, load.module, load.number, time) for kind, load, time in changes.lines]
                append_to_log(self._catalogue, connection, entries, self._limits.module_events)
        if changes.lines:
            self._on_append()
        return batch.keys

    def changes(self, name: str, last: ContextChanges = NO_CHANGES) -> ContextChanges:
        """What happened since the answer ``last``; without it, everything."""
        with self._catalogue.reading() as connection:
            number, now, *_ = _number(connection, name)
        if (number, now) == (last.number, last.revision) and last.whole:
            return ContextChanges(number, now, last.sequence, ended_at=last.ended_at)
        with self._catalogue.reading_at_once() as connection:
            number, now, *_ = _number(connection, name)
            revision, sequence = (last.revision, last.sequence) if number == last.number else (0, 0)
            ended = connection.execute(_ENDED, (number, revision, sequence)).fetchall()
            until = _end_of_page(connection, number, sequence, PAGE)
            rows = [ContextRow._make(row) for row in connection.execute(_SEGMENTS, (number, sequence, until))]
            more = connection.execute(_UNTIL, (number, until, 1)).fetchone()[0] is not None
            is_living = connection.execute(_LIVING, (number,)).fetchone() is not None
            ended_at = None if is_living else connection.execute(_LAST_END, (number,)).fetchone()[0]
        return ContextChanges(
            number, now, until, rows, [(load, end) for load, end in ended if end is not None], not more, ended_at
        )

    def loads(self, name: str, after: int = 0, limit: int = 1000) -> list[tuple[int, Load]]:
        """One page of loads in the order they were told, each with its number: those after number ``after``. It ends
        early where they have more than ``ROWS`` segments; it is empty only where there are no more."""
        with self._catalogue.reading_at_once() as connection:
            number = _number(connection, name)[0]
            until = _end_of_page(connection, number, after, limit)
            return list(_loads(connection.execute(_LOADS, (number, after, until)).fetchall()))

    def load(self, number: int) -> LoadInContext | None:
        """The load with that number; None when its context was forgotten."""
        with self._catalogue.reading_at_once() as connection:
            context = connection.execute(_OF_LOAD, (number,)).fetchone()
            found = connection.execute(_LOAD, (number,)).fetchall()
            return LoadInContext(_record(context), *next(_loads(found))) if context is not None and found else None

    def active_loads(self, after: int, before: int, limit: int = 1000) -> list[int]:
        """One page of the numbers of loads that were told before entry ``before`` of the log of modules, and whose end
        was not: those after number ``after``."""
        with self._catalogue.reading() as connection:
            given = after, before, limit, after, before, before, limit
            return [number for (number,) in connection.execute(_ACTIVE, given)]

    def active_loads_of(self, module: Digest, before: int, limit: int = 1000) -> list[int]:
        """The numbers of the oldest of a module's such loads."""
        with self._catalogue.reading() as connection:
            given = module, before, limit, module, before, before, limit
            return [number for (number,) in connection.execute(_ACTIVE_OF, given)]

    def loads_held(self, module: Digest, context: str) -> list[int]:
        """The numbers of a module's loads in the context with that id that have not ended, oldest first."""
        with self._catalogue.reading() as connection:
            return [number for (number,) in connection.execute(_HELD_IN, (module, context))]


def describe(context: Context) -> str:
    """A context as the text that its id is made from: equal contexts have equal texts."""
    plain = {each.name: getattr(context, each.name) for each in fields(context)}
    return json.dumps(plain | {"attributes": dict(context.attributes)}, sort_keys=True)


def unknown(name: str) -> ContextNotFound:
    return ContextNotFound(
        f"no context {name[:80]!r} is known", hint="create it first", metadata={"context": f"contexts/{name[:80]}"}
    )


def _check_id(name: str) -> None:
    if not _ID.match(name):
        raise BadQuery(f"{name[:80]!r} is not a context's id", hint="give the one that it got when it was created")


def _record(row: Sequence[Any]) -> ContextRecord:
    name, description, added, _ = row
    try:
        return ContextRecord(name, Context(**json.loads(description)), added)
    except (ValueError, TypeError) as error:
        raise DamagedRow(f"what describes context {name[:80]} is not what symd wrote: {error}") from error


def _id_of(description: str) -> str:
    """The id of a context that is described so."""
    return hashlib.sha256(description.encode()).hexdigest()[:32]


def _number(connection: Connection, name: str) -> tuple[int, int, int, int]:
    """(number, revision, segments, loads and unloads) of a context."""
    query = "SELECT number, revision, segments, events FROM contexts WHERE id = ?"
    _check_id(name)
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        raise unknown(name)
    number, revision, segments, events = row
    return number, revision, segments, events


def _place(row: ContextRow) -> Query:
    offset = row.offset % _WHOLE
    if row.kernel is not None:
        return ByKernel(row.kernel, KernelOffset(offset))
    if row.section is not None:
        return BySection(row.section, SectionOffset(offset))
    return ByAddress(ObjectAddress(offset))


def _end_of_page(connection: Connection, context: int, after: int, limit: int) -> int:
    """The last load of a page of so many; of fewer, where they have more than ``ROWS`` segments. ``after`` where there
    is none."""
    until: int = connection.execute(_UNTIL, (context, after, limit)).fetchone()[0] or after
    beyond = connection.execute(_BEYOND, (context, after, until, ROWS)).fetchone()
    if beyond is None:
        return until
    before: int | None = connection.execute(_BEFORE, (context, after, beyond[0])).fetchone()[0]
    return int(beyond[0]) if before is None else before


def _loads(found: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Load]]:
    """Rows of one load after the other, put together; a load without segments has one row."""
    grouped: dict[int, list[tuple[Any, ...]]] = {}
    for row in found:
        grouped.setdefault(row[0], []).append(row)
    for sequence, parts in grouped.items():
        key, module, loaded, unloaded = parts[0][1:5]
        rows = map(ContextRow._make, parts) if parts[0][_ADDRESS] is not None else ()
        segments = tuple(
            Segment(DeviceAddress(each.address % _WHOLE), each.size, _place(each), each.path) for each in rows
        )
        yield sequence, Load(module, loaded, segments, key=key, unload_time=unloaded)


_COLUMNS = "SELECT kind, key, sha256, object, context FROM aliases "
_REMOVE = "DELETE FROM aliases WHERE context = ? AND kind = ? AND key = ?"
_ADD = (
    "INSERT INTO aliases (context, kind, key, sha256, object) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (context, kind, key) DO UPDATE SET sha256 = excluded.sha256, object = excluded.object"
)
_ONE = _COLUMNS + "WHERE context = ? AND kind = ? AND key = ?"
_PAGE = _COLUMNS + "WHERE sha256 = ? AND (context, kind, key) > (?, ?, ?) ORDER BY context, kind, key LIMIT ?"


class AliasTable:
    """The aliases in one catalogue. Safe to use from several threads."""

    def __init__(self, catalogue: CatalogueQueries, limits: Limits) -> None:
        self._catalogue = catalogue
        self._limits = limits

    def add(self, aliases: Sequence[Alias]) -> None:
        """Add all aliases or, on an error, none; of one kind and key in one context the last one told wins. Raises
        ``ModuleNotFound``, and ``LimitExceeded`` for names that are too long or too many."""
        for alias in aliases:
            budgets.check_alias(alias)
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            for alias in aliases:
                _add(connection, alias)
            budgets.check_alias_counts(connection, {alias.module for alias in aliases}, self._limits)

    def resolve(self, kind: str, key: str, context: str = "") -> Alias | None:
        """What the name means in the context with that id, or else everywhere; None when nobody told."""
        with self._catalogue.reading() as connection:
            for scope in dict.fromkeys((context, "")):
                row = connection.execute(_ONE, (scope, kind, key)).fetchone()
                if row is not None:
                    return Alias(*row)
        return None

    def remove(self, kind: str, key: str, context: str = "") -> None:
        """Forget what the name means in the context with that id, or ("") everywhere. Raises ``AliasNotFound``."""
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            if not connection.execute(_REMOVE, (context, kind, key)).rowcount:
                raise AliasNotFound(
                    f"no alias {key[:100]!r} of kind {kind[:100]!r}", hint="list the aliases of its module"
                )

    def of(self, digest: str, after: Alias | None = None, limit: int = 1000) -> Sequence[Alias]:
        """One page of a module's other names, by context, kind and key: those after ``after``."""
        last = (after.context, after.kind, after.key) if after else ("", "", "")
        with self._catalogue.reading() as connection:
            return [Alias(*row) for row in connection.execute(_PAGE, (checked_digest(digest), *last, limit))]


def _add(connection: Connection, alias: Alias) -> None:
    if not rows.exists(connection, checked_digest(alias.module)):
        raise not_found(alias.module)
    values = (alias.context, alias.kind, alias.key, alias.module, alias.path)
    connection.execute(_ADD, values)
