"""The SQLite catalogue: one row a module, its remembered failures and its aliases; contexts and what was loaded
in them. It knows no file but its own.

Writers of several processes take turns (WAL, busy timeout); readers never wait for them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from symd.errors import DataLoss, FailedPrecondition, StoreUnavailable, SymdError
from symd.model.identities import Digest, is_digest
from symd.model.summaries import ModuleRecord
from symd.store.files import FILE_MODE, disk, locked

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
    # 6: the log of modules has their loads and unloads too, and a name, so that who followed it can go on where they were
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
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH")
"""How the names of SQLite's errors begin that say that a file's bytes are wrong, or that its tables are not those that were made."""
NO_TEXT = "Could not decode to UTF-8"
MAX_FAILURES = 100_000
"""So many of the youngest failures are remembered: whoever sends malformed modules for ever cannot fill the disk."""
MAX_EVICTIONS = 10_000
"""So many of the youngest evictions are remembered."""
_RECORD = """
    SELECT sha256, size, format, label, added,
           coalesce((SELECT reason FROM failures WHERE failures.sha256 = modules.sha256
                     ORDER BY version DESC LIMIT 1), '')
    FROM modules
"""
_ONE = _RECORD + "WHERE sha256 = ?"
_PAGE = _RECORD + "WHERE (added, sha256) > (?, ?) ORDER BY added, sha256 LIMIT ?"
_OUTDATED = """
    SELECT sha256 FROM modules AS m
    WHERE EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version < :version)
      AND NOT EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version >= :version)
      AND NOT EXISTS (SELECT 1 FROM failures AS f WHERE f.sha256 = m.sha256 AND f.version = :version)
    ORDER BY used
"""
_OLDER = """
    SELECT sha256, version FROM indexes WHERE sha256 = :sha256 AND version < :version
    AND EXISTS (SELECT 1 FROM indexes WHERE sha256 = :sha256 AND version = :version)
"""
_SIZES = "SELECT sha256, size FROM modules WHERE sha256 IN (SELECT value FROM json_each(?))"


LOCK = "catalogue.lock"
"""Held shared by each who writes, alone by who makes or replaces the file."""
_NAME = re.compile(r"catalogue(?:-([1-9][0-9]{0,8}))?\.sqlite")


def newest(root: Path) -> Path:
    """The catalogue of a store: the last of those that replaced a damaged one (``rebuild``)."""
    return _numbered(root, max(_numbers(root), default=1))


def replaced(root: Path) -> list[Path]:
    """Catalogues beside the newest: who replaced them was killed before they were moved aside."""
    return [_numbered(root, number) for number in sorted(_numbers(root))[:-1]]


def _numbers(root: Path) -> set[int]:
    return {int(match[1] or 1) for path in root.iterdir() if (match := _NAME.fullmatch(path.name))}


def successor(path: Path) -> Path:
    """The file that replaces the catalogue ``path``."""
    match = _NAME.fullmatch(path.name)
    return _numbered(path.parent, int(match[1] or 1) + 1 if match else 1)


def _numbered(root: Path, number: int) -> Path:
    return root / ("catalogue.sqlite" if number == 1 else f"catalogue-{number}.sqlite")


class Eviction(NamedTuple):
    """A module that was removed to make room: the bytes of its file and its indexes, when it was used last and when it went, in
    seconds since the epoch."""

    digest: Digest
    size: int
    used: float
    time: float


class Catalogue:
    """Connections to the newest catalogue in the folder ``root``; safe to use from several threads."""

    def __init__(self, root: Path, *, durable: bool = True, lock_seconds: float | None = None) -> None:
        self.path = newest(root)
        self.damaged: Path | None = None
        """The file that was found to be damaged, if one was."""
        self.refused: Callable[[StoreUnavailable], None] = lambda _error: None
        """Told each error of a disk that does not take what is written."""
        self._lock = root / LOCK
        self._durable = durable
        self._idle: list[sqlite3.Connection] = []
        self._turn = Lock()
        with disk(self.path), locked(self._lock, seconds=lock_seconds), self.translated():
            self.renew()
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            with closing(self.connect()) as connection:
                migrate(connection, self.path)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def renew(self) -> None:
        """Turn to the file that has replaced this one, if one has."""
        if successor(self.path).exists():
            self.path = newest(self.path.parent)
            self.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries."""
        with self.translated(), self._borrowed() as connection:
            yield connection

    @contextmanager
    def writing(self, *, survives_power_cut: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that no other writer, in this process or another, runs beside; rolled back on an error. One that
        need not survive a power cut, only the end of this process, does not wait for the disk."""
        waiting = ("FULL" if survives_power_cut else "NORMAL") if self._durable else "OFF"
        with self._turn, self._not_replaced(), self.translated(), self._borrowed() as connection:
            connection.execute(f"PRAGMA synchronous={waiting}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _not_replaced(self) -> Iterator[None]:
        """The newest file stays the newest inside."""
        with ExitStack() as stack:
            with disk(self._lock):
                stack.enter_context(locked(self._lock, shared=True))
                self.renew()
            yield

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        """One of the idle connections or a new one; after a database error, and when the file was replaced meanwhile, it
        is closed instead of reused."""
        path = self.path
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
            self._give_back(connection, path)
            raise
        self._give_back(connection, path)

    def _give_back(self, connection: sqlite3.Connection, path: Path) -> None:
        if path == self.path:
            self._idle.append(connection)
        else:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        """A connection of the caller's own, to be closed by it; what goes wrong with it is ``translated``."""
        self.renew()
        connection = existing(self.path)
        mode = "WAL" if self._durable else "MEMORY"
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'OFF'}")
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
        try:
            with translated(self.path):
                yield
        except DataLoss as error:
            if "sqlite" in error.metadata:
                self.damaged = self.path
            raise
        except StoreUnavailable as error:
            self.refused(error)
            raise

    def compact(self) -> None:
        """Give pages that hold nothing back to the disk, where they are many; the log of writes is emptied."""
        with self.translated(), self._borrowed() as connection:
            free = connection.execute("PRAGMA freelist_count").fetchone()[0]
            if free * 4 > connection.execute("PRAGMA page_count").fetchone()[0]:
                connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def sizes(self, digests: Sequence[Digest]) -> dict[str, int]:
        """Catalogued size of each of ``digests`` that has a row."""
        with self.reading() as connection:
            return dict(connection.execute(_SIZES, (json.dumps(list(digests)),)))

    def all_sizes(self) -> dict[Digest, int]:
        """Catalogued size of every module."""
        with self.reading() as connection:
            return {
                digest_of_row(value): size for value, size in connection.execute("SELECT sha256, size FROM modules")
            }

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            return {digest_of_row(value) for (value,) in connection.execute("SELECT sha256 FROM modules")}

    def indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version FROM indexes")
            return {(digest_of_row(value), version) for value, version in found}

    def index_sizes(self) -> dict[tuple[Digest, int], int]:
        """Bytes of every index, by digest and format version."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version, size FROM indexes")
            return {(digest_of_row(value), version): size for value, version, size in found}

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            return [digest_of_row(value) for (value,) in connection.execute(_OUTDATED, {"version": version})]

    def has(self, digest: Digest) -> bool:
        with self.reading() as connection:
            return connection.execute("SELECT 1 FROM modules WHERE sha256 = ?", (digest,)).fetchone() is not None

    def record(self, digest: Digest) -> ModuleRecord | None:
        with self.reading() as connection:
            row = connection.execute(_ONE, (digest,)).fetchone()
            return _record(row) if row else None

    def records(self, after: tuple[float, str], limit: int) -> list[ModuleRecord]:
        """Up to ``limit`` records whose (added, sha256) comes after ``after``, in that order."""
        with self.reading() as connection:
            return [_record(row) for row in connection.execute(_PAGE, (*after, limit))]

    def eviction(self, digest: str) -> Eviction | None:
        """How the module was evicted, where that is remembered."""
        query = "SELECT sha256, size, used, evicted FROM evictions WHERE sha256 = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest,)).fetchone()
            return Eviction(*typed(row, str, int, (float, int), (float, int))) if row else None

    def failure(self, digest: Digest, version: int) -> str | None:
        query = "SELECT error FROM failures WHERE sha256 = ? AND version = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest, version)).fetchone()
            return str(typed(row, str)[0]) if row else None


def _record(row: Sequence[Any]) -> ModuleRecord:
    return ModuleRecord(digest_of_row(row[0]), *typed(row[1:], int, str, str, (float, int), str))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
    try:
        yield
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    except UnicodeDecodeError as error:
        raise damage(path, NO_TEXT, "SQLite's own words about it are no text") from error


def refusal(path: Path, error: sqlite3.Error) -> SymdError:
    """The error of a catalogue with which SQLite cannot go on."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(DAMAGE) or str(error).startswith(NO_TEXT):
        return damage(path, name or NO_TEXT, str(error))
    hint = "look whether the disk is full, the folder can be written and no other process holds the store"
    metadata = {"file": str(path), "sqlite": name}
    return StoreUnavailable(f"the catalogue refused: {error}", where=str(path), hint=hint, metadata=metadata)


def existing(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: none is made."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        where, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def damage(path: Path, name: str, fault: str) -> DataLoss:
    """The error of a catalogue that is damaged; ``name`` is SQLite's word for what it met, ``fault`` says what it is."""
    return DataLoss(
        f"the catalogue is damaged: {fault}",
        where=str(path),
        hint="symd store repair makes it again from what can be read of it and the modules beside it",
        metadata={"file": str(path), "sqlite": name, "fault": fault},
    )


class WrongValue(sqlite3.DatabaseError):
    """A value that symd did not write."""

    sqlite_errorname = "SQLITE_CORRUPT_VALUE"


def typed(row: Sequence[Any], *types: type | tuple[type, ...]) -> Sequence[Any]:
    """The row, where its values have these types. Raises ``WrongValue``: SQLite keeps any value in any column."""
    for value, allowed in zip(row, types, strict=True):
        if not isinstance(value, allowed):
            raise WrongValue(f"a value {ascii(value)[:40]} is where another belongs")
    return row


def digest_of_row(value: object) -> Digest:
    """The digest in a row. Raises ``WrongValue``."""
    if isinstance(value, str) and is_digest(value):
        return value
    raise WrongValue(f"{ascii(value)[:40]} is no module's digest")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Take a catalogue to the newest schema. Raises ``FailedPrecondition`` for one that is newer, ``DataLoss``."""
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
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


def insert(connection: sqlite3.Connection, record: ModuleRecord) -> None:
    """Add a module's row; one that is there already stays as it is, but for a size that was wrong."""
    connection.execute(
        "INSERT INTO modules (sha256, size, format, label, added, used) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (sha256) DO UPDATE SET size = excluded.size",
        (record.sha256, record.size, record.format, record.label, record.create_time, record.create_time),
    )


def delete(connection: sqlite3.Connection, digests: Iterable[Digest]) -> None:
    """Drop modules with their failures, aliases and the rows of their indexes; other processes are told (``changes``)."""
    keys = [(digest,) for digest in digests]
    connection.executemany("DELETE FROM modules WHERE sha256 = ?", keys)
    connection.executemany("DELETE FROM failures WHERE sha256 = ?", keys)


def exists(connection: sqlite3.Connection, digest: str) -> bool:
    return connection.execute("SELECT 1 FROM modules WHERE sha256 = ?", (digest,)).fetchone() is not None


def keep_index(connection: sqlite3.Connection, digest: Digest, version: int, size: int) -> None:
    """Note an index file of ``size`` bytes; failures and attempts remembered up to ``version`` are forgotten."""
    connection.execute(
        "INSERT INTO indexes (sha256, version, size) VALUES (?, ?, ?)"
        " ON CONFLICT (sha256, version) DO UPDATE SET size = excluded.size",
        (digest, version, size),
    )
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version <= ?", (digest, version))
    forget_attempts(connection, digest, version)


def forget_indexes(connection: sqlite3.Connection, which: Iterable[tuple[Digest, int]]) -> None:
    """Drop the rows of index files that are gone."""
    connection.executemany("DELETE FROM indexes WHERE sha256 = ? AND version = ?", which)


def older_indexes(connection: sqlite3.Connection, digest: Digest, version: int) -> list[tuple[Digest, int]]:
    """A module's indexes older than ``version``; none where it has no index of that version."""
    return connection.execute(_OLDER, {"sha256": digest, "version": version}).fetchall()


def index_size(connection: sqlite3.Connection, digest: Digest, version: int) -> int:
    """Bytes of an index file, 0 where there is none."""
    query = "SELECT size FROM indexes WHERE sha256 = ? AND version = ?"
    row = connection.execute(query, (digest, version)).fetchone()
    return int(typed(row, int)[0]) if row else 0


def note_eviction(connection: sqlite3.Connection, eviction: Eviction) -> None:
    """Keep what was evicted, the youngest ``MAX_EVICTIONS``, until it is added again."""
    query = "INSERT OR REPLACE INTO evictions (sha256, size, used, evicted) VALUES (?, ?, ?, ?)"
    connection.execute(query, (eviction.digest, eviction.size, eviction.used, eviction.time))
    connection.execute("DELETE FROM evictions WHERE sequence <= last_insert_rowid() - ?", (MAX_EVICTIONS,))


def touch(connection: sqlite3.Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = max(used, ?) WHERE sha256 = ?"
    connection.executemany(update, [(at, digest) for digest, at in times.items()])


def tell(connection: sqlite3.Connection, entries: Iterable[tuple[str, str, int | None, int | None]]) -> None:
    """Write what happened to modules into their log (``module_log``): kind, digest, load and time of each. A removal is written by the
    row's trigger."""
    connection.executemany("INSERT INTO changes (kind, sha256, writer, load, time) VALUES (?, ?, '', ?, ?)", entries)


def trim_log(connection: sqlite3.Connection, kept: int) -> None:
    """Forget all but the last ``kept`` entries of the log of modules."""
    connection.execute("DELETE FROM changes WHERE sequence <= (SELECT max(sequence) FROM changes) - ?", (kept,))


def remember(connection: sqlite3.Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    values = (digest, version, reason, error)
    connection.execute("INSERT OR REPLACE INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?)", values)
    connection.execute("DELETE FROM failures WHERE sequence <= last_insert_rowid() - ?", (MAX_FAILURES,))


def count_attempt(connection: sqlite3.Connection, digest: Digest, version: int) -> tuple[int, str]:
    """Count one more attempt at a digest and version, where the module is there; how many there were before, and how the last
    one ended."""
    keys = digest, version
    query = "SELECT count, ending FROM attempts WHERE sha256 = ? AND version = ?"
    before = typed(connection.execute(query, keys).fetchone() or (0, ""), int, str)
    connection.execute(
        "INSERT INTO attempts (sha256, version, count, ending)"
        " SELECT sha256, ?2, 1, '' FROM modules WHERE sha256 = ?1"
        " ON CONFLICT (sha256, version) DO UPDATE SET count = count + 1, ending = ''",
        keys,
    )
    newest = "(SELECT max(sequence) FROM attempts)"
    connection.execute(f"DELETE FROM attempts WHERE sequence <= {newest} - ?", (MAX_FAILURES,))  # noqa: S608 - a constant
    return before[0], before[1]


def forget_attempts_of_nothing(connection: sqlite3.Connection) -> None:
    """The counts of modules that were taken out because whoever read them died (``Store.refuse``) outlive no start."""
    connection.execute("DELETE FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)")


def forget_attempts(connection: sqlite3.Connection, digest: Digest, version: int) -> None:
    """The last attempt has ended: with an answer, an error, or for a reason that is not the module's."""
    connection.execute("DELETE FROM attempts WHERE sha256 = ? AND version <= ?", (digest, version))


def forget_outcomes(connection: sqlite3.Connection, digest: Digest) -> bool:
    """Forget failures and attempts of every version; whether there were any."""
    failed = connection.execute("DELETE FROM failures WHERE sha256 = ?", (digest,)).rowcount
    attempted = connection.execute("DELETE FROM attempts WHERE sha256 = ?", (digest,)).rowcount
    return failed + attempted > 0
