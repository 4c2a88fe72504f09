"""The log of modules: which was added, removed, loaded and unloaded, in one order for all processes that share the
store. It is the table ``changes`` of the catalogue.

A follower keeps a position, reads what comes after it, and waits on a subscription, so that nothing is kept in memory
for slow ones. The log remembers ``Limits.module_events`` entries; a catalogue that is made anew begins another log, in
which positions of the one before mean nothing. Removals are also reported to listeners that keep something of a module
open.
"""

from __future__ import annotations

import re
import secrets
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from symd.config import Limits
from symd.errors import BadQuery, PositionLost
from symd.model.identities import Digest
from symd.store.rows import CatalogueQueries, Connection

ADDED, REMOVED, LOADED, UNLOADED = "added", "removed", "loaded", "unloaded"
_ID = "SELECT id FROM module_log"
_FIRST = "SELECT min(sequence) FROM changes"
_NEWEST = "SELECT max(sequence) FROM changes"
_AFTER = "SELECT sequence, kind, sha256, load, time FROM changes WHERE sequence > ? ORDER BY sequence LIMIT ?"
_ADDED = f"SELECT sha256 FROM changes WHERE sequence > ? AND kind = '{ADDED}'"  # noqa: S608 - a constant
_ENTRY = {"sequence": "BIGINT", "kind": "TEXT", "sha256": "TEXT", "load": "BIGINT", "time": "BIGINT"}
_APPEND = "INSERT INTO changes (sequence, kind, sha256, writer, load, time) SELECT sequence, kind, sha256, '', load, time FROM given"
_TRIM = "DELETE FROM changes WHERE sequence <= ?"
_POSITION = re.compile(r"([0-9a-f]{16})-([0-9]{1,18})", re.ASCII)


class Position(NamedTuple):
    """A place in the log with that id: after the entry ``sequence``."""

    log: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.log}-{self.sequence}"

    @classmethod
    def parsed(cls, text: str) -> Position:
        """The position that ``text`` says, as ``str`` of a position writes it. Raises ``BadQuery``."""
        found = _POSITION.fullmatch(text)
        if not found:
            raise BadQuery(
                f"{text[:80]!r} is not a resume token",
                hint="give one as a watch sent it, or none to begin with what is there",
            )
        return cls(found[1], int(found[2]))


class LogEntry(NamedTuple):
    """What happened to a module. ``load`` is the number of the load that began or ended, ``time`` that of the end, in
    nanoseconds of the context's clock."""

    sequence: int
    kind: str
    digest: Digest
    load: int | None
    time: int | None


class ModuleLog:
    """The log in one catalogue. Safe to use from several threads."""

    def __init__(self, catalogue: CatalogueQueries, limits: Limits) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._lock = threading.Lock()
        self._subscriptions: weakref.WeakSet[LogSubscription] = weakref.WeakSet()

    def end(self) -> Position:
        """The position after everything that has happened."""
        with self._catalogue.reading() as connection:
            return Position(_id(connection), _last(self._catalogue, connection))

    def after(self, position: Position, limit: int) -> list[LogEntry]:
        """Up to ``limit`` entries that come after ``position``. Raises ``PositionLost`` where some of them are
        forgotten."""
        with self._catalogue.reading_at_once() as connection:
            self._check(connection, position)
            return [LogEntry(*row) for row in connection.execute(_AFTER, (position.sequence, limit))]

    def added_after(self, position: Position) -> set[Digest]:
        """The modules that were added after ``position``, as far as that is remembered."""
        with self._catalogue.reading() as connection:
            return {digest for (digest,) in connection.execute(_ADDED, (position.sequence,))}

    def is_added_after(self, digest: Digest, position: Position) -> bool:
        """Whether a module was added after ``position``, as far as that is remembered."""
        with self._catalogue.reading() as connection:
            return connection.execute(f"{_ADDED} AND sha256 = ?", (position.sequence, digest)).fetchone() is not None

    def renew_id(self) -> None:
        """Give the log of a copied store an id of its own: from here on other things happen than in the store that was
        copied, and positions of its log mean nothing here."""
        with self._catalogue.writing() as connection:
            connection.execute("UPDATE module_log SET id = ?", (secrets.token_hex(8),))

    def subscribe(self) -> LogSubscription:
        """Wakes its holder at every entry from now on, until it is closed."""
        subscription = LogSubscription()
        with self._lock:
            self._subscriptions.add(subscription)
        return subscription

    def notify(self) -> None:
        """Wake all who wait: there may be new entries. From any thread."""
        for each in self._all():
            each.notify()

    def close(self) -> None:
        """Close every subscription."""
        for each in self._all():
            each.close()

    def _all(self) -> tuple[LogSubscription, ...]:
        with self._lock:
            return tuple(self._subscriptions)

    def _check(self, connection: Connection, position: Position) -> None:
        metadata = {"resume_token": str(position)}
        hint = "watch again without a resume token: the watch then starts with what is there now"
        last = _last(self._catalogue, connection)
        if position.log != _id(connection) or position.sequence > last:
            raise PositionLost(
                "the resume token is of another store, or of this one before it was made anew",
                hint=hint,
                metadata=metadata,
            )
        first = connection.execute(_FIRST).fetchone()[0]
        if position.sequence < (last if first is None else first - 1):
            kept = self._limits.module_events
            raise PositionLost(
                f"more than {kept} modules were added, removed, loaded and unloaded since that resume token",
                hint=f"{hint}; module_events may be raised where the daemon is started",
                metadata={**metadata, "limit": "module_events", "value": str(kept)},
            )


class LogSubscription:
    """Wakes one thread that follows the log."""

    def __init__(self) -> None:
        self._notified = threading.Event()
        self._closed = False

    def is_closed(self) -> bool:
        return self._closed

    def notify(self) -> None:
        """Wake whoever waits, now or next. From any thread."""
        self._notified.set()

    def wait(self) -> bool:
        """Sleep until it was notified since the last call; False when it was closed."""
        self._notified.wait()
        self._notified.clear()
        return not self._closed

    def close(self) -> None:
        """Wake whoever waits for the last time. From any thread, any number of times."""
        self._closed = True
        self._notified.set()


def append_to_log(
    catalogue: CatalogueQueries,
    connection: Connection,
    entries: Sequence[tuple[str, str, int | None, int | None]],
    kept: int,
) -> None:
    """Append kind, digest, load and time of each entry, and forget all but the last ``kept``. A removal is appended by
    the trigger of the module's row."""
    (newest,) = connection.execute(_NEWEST).fetchone()
    last = max(_last(catalogue, connection), newest or 0)
    numbered = ((number, *entry) for number, entry in enumerate(entries, last + 1))
    catalogue.execute_given(connection, _ENTRY, numbered, _APPEND)
    connection.execute(_TRIM, (last + len(entries) - kept,))


def _last(catalogue: CatalogueQueries, connection: Connection) -> int:
    return int(connection.execute(catalogue.LAST_ENTRY).fetchone()[0])


def _id(connection: Connection) -> str:
    return str(connection.execute(_ID).fetchone()[0])


Listener = Callable[[Sequence[str] | None], None]
"""Takes the digests of modules that are gone; None: any may be. Called from several threads; it must not raise."""


class Removals:
    """Tells listeners which modules are gone, whoever removed them: this process or another."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` from now on."""
        self._listeners.append(listener)

    def notify(self, digests: Sequence[str] | None) -> None:
        """Call every listener."""
        if digests is None or digests:
            for listener in self._listeners:
                listener(digests)

    def notify_logged(self, catalogue: CatalogueQueries, removed: Sequence[Digest], *, lost: bool) -> None:
        """Call every listener for what the log of modules says was ``removed``; one that was added again since is kept
        open. ``lost``: the log has forgotten entries that were not read."""
        if lost:
            self.notify(None)
        if removed:
            there = catalogue.sizes(removed)
            self.notify(sorted(set(removed) - there.keys()))
