"""The SQLite catalogue: one row a module, its remembered failures and its aliases; contexts and what was loaded
in them. It knows no file but its own.

Writers of several processes exclude one another (WAL, busy timeout); readers never wait for them."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

from symd.errors import DataLoss, FailedPrecondition, StoreUnavailable, SymdError
from symd.model.identities import Digest
from symd.store.files import disk, locked
from symd.store.rows import SIZES, CatalogueQueries, Connection, DamagedRow
from symd.system.private_files import open_private

MIGRATIONS: tuple[str, ...] = (
    # 1: modules, failures, aliases
    """
    CREATE TABLE modules (
        sha256 TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        format TEXT NOT NULL,
        label TEXT NOT NULL,
        added REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX modules_by_age ON modules (added, sha256);
    CREATE TABLE failures (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        sha256 TEXT NOT NULL,
        version INTEGER NOT NULL,
        reason TEXT NOT NULL,
        error TEXT NOT NULL,
        UNIQUE (sha256, version)
    );
    CREATE TABLE aliases (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        sha256 TEXT NOT NULL REFERENCES modules ON DELETE CASCADE,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE INDEX aliases_by_module ON aliases (sha256);
    """,
    # 2: contexts with their loads and unloads; aliases of code objects, and within a context
    """
    CREATE TABLE contexts (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        description TEXT NOT NULL,
        added REAL NOT NULL,
        revision INTEGER NOT NULL,
        segments INTEGER NOT NULL
    );
    CREATE TABLE loads (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE,
        event BLOB NOT NULL,
        revision INTEGER NOT NULL,
        key TEXT NOT NULL,
        module TEXT NOT NULL,
        loaded INTEGER NOT NULL,
        unloaded INTEGER,
        UNIQUE (context, event)
    );
    CREATE INDEX loads_by_context ON loads (context);
    CREATE INDEX loads_by_key ON loads (context, key, loaded);
    CREATE INDEX loads_by_revision ON loads (context, revision);
    CREATE TABLE segments (
        load INTEGER NOT NULL REFERENCES loads ON DELETE CASCADE,
        address INTEGER NOT NULL,
        size INTEGER NOT NULL,
        object TEXT,
        kernel TEXT,
        section,
        offset INTEGER NOT NULL
    );
    CREATE INDEX segments_by_load ON segments (load);
    CREATE TABLE unloads (
        context INTEGER NOT NULL REFERENCES contexts ON DELETE CASCADE,
        key TEXT NOT NULL,
        time INTEGER NOT NULL,
        PRIMARY KEY (context, key, time)
    ) WITHOUT ROWID;
    CREATE TABLE scoped_aliases (
        context TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        sha256 TEXT NOT NULL REFERENCES modules ON DELETE CASCADE,
        object TEXT,
        PRIMARY KEY (context, kind, key)
    ) WITHOUT ROWID;
    INSERT INTO scoped_aliases SELECT '', kind, key, sha256, NULL FROM aliases;
    DROP TABLE aliases;
    ALTER TABLE scoped_aliases RENAME TO aliases;
    CREATE INDEX aliases_by_module ON aliases (sha256, context, kind, key);
    """,
    # 3: what the budgets count, when a module was used last, and what other processes are to hear
    """
    ALTER TABLE modules ADD COLUMN used REAL NOT NULL DEFAULT 0;
    UPDATE modules SET used = added;
    CREATE INDEX modules_by_use ON modules (used, sha256);
    CREATE TABLE indexes (
        sha256 TEXT NOT NULL REFERENCES modules ON DELETE CASCADE,
        version INTEGER NOT NULL,
        size INTEGER NOT NULL,
        PRIMARY KEY (sha256, version)
    ) WITHOUT ROWID;
    ALTER TABLE contexts ADD COLUMN events INTEGER NOT NULL DEFAULT 0;
    UPDATE contexts SET events = (SELECT count(*) FROM loads WHERE context = number)
                               + (SELECT count(*) FROM unloads WHERE context = number);
    CREATE INDEX loads_by_module ON loads (module);
    CREATE TABLE totals (bytes INTEGER NOT NULL, aliases INTEGER NOT NULL, contexts INTEGER NOT NULL);
    INSERT INTO totals SELECT (SELECT coalesce(sum(size), 0) FROM modules), (SELECT count(*) FROM aliases),
                              (SELECT count(*) FROM contexts);
    CREATE TRIGGER module_added AFTER INSERT ON modules BEGIN
        UPDATE totals SET bytes = bytes + NEW.size; END;
    CREATE TRIGGER module_resized AFTER UPDATE OF size ON modules BEGIN
        UPDATE totals SET bytes = bytes + NEW.size - OLD.size; END;
    CREATE TRIGGER index_added AFTER INSERT ON indexes BEGIN
        UPDATE totals SET bytes = bytes + NEW.size; END;
    CREATE TRIGGER index_resized AFTER UPDATE OF size ON indexes BEGIN
        UPDATE totals SET bytes = bytes + NEW.size - OLD.size; END;
    CREATE TRIGGER index_removed AFTER DELETE ON indexes BEGIN
        UPDATE totals SET bytes = bytes - OLD.size; END;
    CREATE TRIGGER alias_added AFTER INSERT ON aliases BEGIN
        UPDATE totals SET aliases = aliases + 1; END;
    CREATE TRIGGER alias_removed AFTER DELETE ON aliases BEGIN
        UPDATE totals SET aliases = aliases - 1; END;
    CREATE TRIGGER context_added AFTER INSERT ON contexts BEGIN
        UPDATE totals SET contexts = contexts + 1; END;
    CREATE TRIGGER context_removed AFTER DELETE ON contexts BEGIN
        UPDATE totals SET contexts = contexts - 1; END;
    CREATE TABLE changes (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        sha256 TEXT NOT NULL,
        writer TEXT
    );
    CREATE TRIGGER module_removed AFTER DELETE ON modules BEGIN
        UPDATE totals SET bytes = bytes - OLD.size;
        INSERT INTO changes (sha256) VALUES (OLD.sha256); END;
    CREATE TRIGGER change_added AFTER INSERT ON changes BEGIN
        DELETE FROM changes WHERE sequence <= NEW.sequence - 10000; END;
    """,
    # 4: attempts to index a module that have not ended yet, or ended without an answer
    """
    CREATE TABLE attempts (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        sha256 TEXT NOT NULL,
        version INTEGER NOT NULL,
        count INTEGER NOT NULL,
        ending TEXT NOT NULL,
        UNIQUE (sha256, version)
    );
    """,
    # 5: modules that were evicted, for who asks for them
    """
    CREATE TABLE evictions (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        sha256 TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        used REAL NOT NULL,
        evicted REAL NOT NULL
    );
    CREATE TRIGGER module_returned AFTER INSERT ON modules BEGIN
        DELETE FROM evictions WHERE sha256 = NEW.sha256; END;
    """,
    # 6: the log of modules has their loads and unloads too, and a name, so that who followed it can go on where they
    # were
    """
    ALTER TABLE changes ADD COLUMN kind TEXT NOT NULL DEFAULT 'added';
    ALTER TABLE changes ADD COLUMN load INTEGER;
    ALTER TABLE changes ADD COLUMN time INTEGER;
    UPDATE changes SET kind = 'removed' WHERE writer IS NULL;
    DROP TRIGGER change_added;
    DROP TRIGGER module_removed;
    CREATE TRIGGER module_removed AFTER DELETE ON modules BEGIN
        UPDATE totals SET bytes = bytes - OLD.size;
        INSERT INTO changes (kind, sha256) VALUES ('removed', OLD.sha256); END;
    CREATE TABLE module_log (id TEXT NOT NULL);
    INSERT INTO module_log SELECT lower(hex(randomblob(8)));
    """,
)
"""Step n takes a catalogue of schema n (SQLite's user_version) to n + 1. Steps are only ever appended."""

BUSY_SECONDS = 30.0
"""How long a write waits for other writes, of this process and of others together."""
_ROWS_GIVEN = (512, 64, 8, 1)
"""Rows of one statement. Each number of them is a statement of its own, which is prepared once: so there are few."""
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH")
"""How the names of SQLite's errors begin that say that a file's bytes are wrong, or that its tables are not those that
were made."""
NO_TEXT = "Could not decode to UTF-8"
_SIZES = f"{SIZES} WHERE sha256 IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
LOCK = "catalogue.lock"
"""Held shared by each who writes, alone by who makes or replaces the file."""


class Catalogue(CatalogueQueries):
    """Connections to the catalogue at ``path``; safe to use from several threads."""

    FOR_EACH = "given CROSS JOIN {table} WHERE {condition}"
    LAST_ENTRY = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'"

    def __init__(
        self, path: Path, *, durable: bool = True, lock_seconds: float | None = None, may_be_new: bool = True
    ) -> None:
        self.path = path
        self._lock = path.with_name(LOCK)
        self._durable = durable
        self._write_lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        with disk(path), locked(self._lock, seconds=lock_seconds), self.translated():
            os.close(open_private(path, os.O_RDWR))
            self._file = path.stat()
            with closing(self.connect()) as connection:
                migrate(connection, path, may_be_new=may_be_new)

    def close(self) -> None:
        """Close the connections that nobody uses. Each that is used is closed when it is given back."""
        self._closed = True
        self._close_idle()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries."""
        with self.translated(), self._borrowed() as connection:
            yield connection

    @contextmanager
    def writing(self, *, survives_power_cut: bool = True, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        waiting = ("FULL" if survives_power_cut else "NORMAL") if self._durable else "OFF"
        wait = BUSY_SECONDS if seconds is None else min(seconds, BUSY_SECONDS)
        until = time.monotonic() + wait
        if not self._write_lock.acquire(timeout=wait):
            raise locked_by_another(self.path, wait)
        try:
            with disk(self._lock), locked(self._lock, shared=True):
                self._check_in_place()
                with self.translated(), self._borrowed() as connection:
                    connection.execute(f"PRAGMA synchronous={waiting}")
                    self._begin(connection, max(until - time.monotonic(), 0.0), wait)
                    try:
                        yield connection
                        connection.execute("COMMIT")
                    except BaseException:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                        raise
        finally:
            self._write_lock.release()

    def _check_in_place(self) -> None:
        """Raises ``StoreUnavailable`` where another file than the one that was opened is at the path by now, or none:
        what is written would be lost."""
        try:
            is_same = os.path.samestat(self.path.stat(), self._file)
        except (FileNotFoundError, NotADirectoryError):
            is_same = False
        if not is_same:
            raise StoreUnavailable(
                "the store's folder, or the catalogue in it, was moved, removed or replaced while it was used",
                where=str(self.path.parent),
                hint="put it back, or restart the daemon: it begins with what is there then",
                metadata={"file": str(self.path)},
            )

    def _begin(self, connection: sqlite3.Connection, left: float, wait: float) -> None:
        """Begin a transaction within the seconds that are left of the whole wait. Raises ``StoreUnavailable`` where
        another process keeps the lock too long."""
        connection.execute(f"PRAGMA busy_timeout={int(left * 1000)}")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise locked_by_another(self.path, wait) from error
            raise
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")

    @contextmanager
    def reading_at_once(self) -> Iterator[sqlite3.Connection]:
        """One state of the catalogue for several queries."""
        with self.reading() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:  # an error of the disk has ended it
                    connection.execute("COMMIT")

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        """One of the idle connections or a new one; after a database error it is closed instead of reused."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect()
        try:
            yield connection
        except sqlite3.Error:
            connection.close()
            raise
        except BaseException:
            self._give_back(connection)
            raise
        self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # for long, or only just now
            self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # several threads may do this
            while True:
                self._idle.pop().close()

    def connect(self) -> sqlite3.Connection:
        """A connection of the caller's own, to be closed by it; what goes wrong with it is ``translated``."""
        connection = existing(self.path)
        try:
            connection.execute(f"PRAGMA journal_mode={'WAL' if self._durable else 'MEMORY'}")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'OFF'}")
            connection.execute("PRAGMA foreign_keys=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def translated(self) -> AbstractContextManager[None]:
        """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
        return translated(self.path)

    def compact(self) -> None:
        """Give pages that hold nothing back to the disk, where they are many; the log of writes is emptied."""
        with self.translated(), self._borrowed() as connection:
            free = connection.execute("PRAGMA freelist_count").fetchone()[0]
            if free * 4 > connection.execute("PRAGMA page_count").fetchone()[0]:
                connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def given(self, columns: Mapping[str, str], found: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
        one, rows = f"({', '.join('?' * len(columns))})", iter(found)
        while some := list(islice(rows, _ROWS_GIVEN[0])):
            at = 0
            for size in _ROWS_GIVEN:
                while len(some) - at >= size:
                    yield f"VALUES {', '.join([one] * size)}", list(chain.from_iterable(some[at : at + size]))
                    at += size

    def expect_lookups(self, connection: Connection) -> None:
        """Do nothing: SQLite finds rows one by one in any case."""

    def sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        with self.reading() as connection:
            return dict(connection.execute(_SIZES, (json.dumps(list(digests)),)))


class CatalogueToRead(Catalogue):
    """A copy of the catalogue of the store ``root``, which could not be opened to be written because of ``refusal``.
    Each write raises ``StoreUnavailable``."""

    def __init__(self, copy: Path, root: Path, refusal: StoreUnavailable) -> None:
        super().__init__(copy, durable=False, may_be_new=False)
        self._root, self._refusal = root, refusal

    def writing(self, **_: object) -> NoReturn:
        raise StoreUnavailable(
            f"the store is read-only: {self._refusal.message}",
            where=str(self._root),
            hint="make room, or let the store's folder be written, and start the daemon again",
            metadata=self._refusal.metadata,
        )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
    try:
        yield
    except sqlite3.Error as error:
        raise catalogue_error(path, error) from error
    except UnicodeDecodeError as error:
        raise damage(path, NO_TEXT, "SQLite's own words about it are not text") from error
    except DamagedRow as error:
        raise damage(path, "", str(error)) from error


def catalogue_error(path: Path, error: sqlite3.Error) -> SymdError:
    """The error of a catalogue with which SQLite cannot go on."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(DAMAGE) or str(error).startswith(NO_TEXT):
        return damage(path, name or NO_TEXT, str(error))
    hint = "look whether the disk is full, the folder can be written and no other process holds the store"
    metadata = {"file": str(path), "sqlite": name}
    return StoreUnavailable(f"the catalogue refused: {error}", where=str(path), hint=hint, metadata=metadata)


def is_locked(error: SymdError) -> bool:
    """Whether an error is that of ``locked_by_another``: a write waited too long for other writes."""
    return error.metadata.get("sqlite") == "SQLITE_BUSY"


def locked_by_another(path: Path, seconds: float) -> StoreUnavailable:
    """The error of a write that waited for others' for too long."""
    return StoreUnavailable(
        f"another write holds the lock of the catalogue for more than {seconds:g} s",
        where=str(path),
        hint="look whether the process that writes was stopped, or is at work on a large change; then try again",
        metadata={"file": str(path), "sqlite": "SQLITE_BUSY"},
    )


def existing(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: none is made."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        where, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def older_schema(path: Path) -> int:
    """The schema of a catalogue that an older symd wrote; 0 where it has today's, or it cannot be read which."""
    if not path.is_file() or path.is_symlink():
        return 0
    try:
        with closing(existing(path)) as connection:
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except (sqlite3.Error, UnicodeDecodeError):
        return 0  # its reader reports what is wrong
    return schema if 0 < schema < len(MIGRATIONS) else 0


def damage(path: Path, name: str, fault: str) -> DataLoss:
    """The error of a catalogue that is damaged; ``name`` is SQLite's word for what it met, ``fault`` says what it
    is."""
    return DataLoss(
        f"the catalogue is damaged: {fault}",
        where=str(path),
        hint="a repair of the store, or its next start, puts the last good copy in its place and adds the modules that are not in it",
        metadata={"file": str(path), "sqlite": name, "fault": fault},
    )


def migrate(connection: sqlite3.Connection, path: Path, *, may_be_new: bool = True) -> None:
    """Take a catalogue to the newest schema; an empty file becomes one where it ``may_be_new``. Raises
    ``FailedPrecondition`` for one that is newer, ``DataLoss``."""
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "modules" not in found and (found or schema or not may_be_new):
        raise damage(path, "SQLITE_ERROR", "its tables are not symd's" if found else "it is empty")
    if schema > len(MIGRATIONS):
        raise FailedPrecondition(
            f"the catalogue has schema {schema}, this symd knows {len(MIGRATIONS)}",
            where=str(path),
            hint="use a newer symd or another store folder",
        )
    for number, step in enumerate(MIGRATIONS[schema:], schema + 1):
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname == "SQLITE_ERROR":  # a table is there already, or not: the file lies about itself
                raise damage(path, error.sqlite_errorname, str(error)) from error
            raise
