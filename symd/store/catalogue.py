"""The SQLite catalogue: one row a module, its remembered failures and its aliases; contexts and what was loaded
in them. It knows no file but its own.

Writers of several processes take turns (WAL, busy timeout); readers never wait for them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Lock

from symd.errors import DataLoss, FailedPrecondition, StoreUnavailable, SymdError
from symd.model.identities import Digest
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
)
"""Step n takes a catalogue of schema n (SQLite's user_version) to n + 1. Steps are only ever appended."""

BUSY_SECONDS = 30.0
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
"""How the names of SQLite's errors begin that say that a file's bytes are wrong."""
MAX_FAILURES = 100_000
"""So many of the youngest failures are remembered: whoever sends malformed modules for ever cannot fill the disk."""
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
_NAME = re.compile(r"catalogue(?:-([1-9][0-9]*))?\.sqlite")


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


class Catalogue:
    """Connections to the newest catalogue in the folder ``root``; safe to use from several threads."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.path = newest(root)
        self.damaged: Path | None = None
        """The file that was found to be damaged, if one was."""
        self._lock = root / LOCK
        self._durable = durable
        self._idle: list[sqlite3.Connection] = []
        self._turn = Lock()
        with disk(self.path), locked(self._lock), self.translated():
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

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            return {row[0] for row in connection.execute("SELECT sha256 FROM modules")}

    def indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index."""
        with self.reading() as connection:
            return set(connection.execute("SELECT sha256, version FROM indexes"))

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            return [row[0] for row in connection.execute(_OUTDATED, {"version": version})]

    def record(self, digest: Digest) -> ModuleRecord | None:
        with self.reading() as connection:
            row = connection.execute(_ONE, (digest,)).fetchone()
        return ModuleRecord(*row) if row else None

    def records(self, after: tuple[float, str], limit: int) -> list[ModuleRecord]:
        """Up to ``limit`` records whose (added, sha256) comes after ``after``, in that order."""
        with self.reading() as connection:
            return [ModuleRecord(*row) for row in connection.execute(_PAGE, (*after, limit))]

    def failure(self, digest: Digest, version: int) -> str | None:
        query = "SELECT error FROM failures WHERE sha256 = ? AND version = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest, version)).fetchone()
        return str(row[0]) if row else None


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(path, error) from error


def _refusal(path: Path, error: sqlite3.Error) -> SymdError:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(DAMAGE):
        return damage(path, name)
    hint = "look whether the disk is full, the folder can be written and no other process holds the store"
    metadata = {"file": str(path), "sqlite": name}
    return StoreUnavailable(f"the catalogue refused: {error}", where=str(path), hint=hint, metadata=metadata)


def existing(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: none is made."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        where, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def damage(path: Path, name: str) -> DataLoss:
    """The error of a catalogue that is damaged; ``name`` is SQLite's word for what it met."""
    return DataLoss(
        "the catalogue is damaged",
        where=str(path),
        hint="symd store repair makes it again from what can be read of it and the modules beside it",
        metadata={"file": str(path), "sqlite": name},
    )


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
                raise damage(path, error.sqlite_errorname) from error
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
    return int(row[0]) if row else 0


def touch(connection: sqlite3.Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = max(used, ?) WHERE sha256 = ?"
    connection.executemany(update, [(at, digest) for digest, at in times.items()])


def tell_arrival(connection: sqlite3.Connection, digest: str, writer: str) -> None:
    """Let other processes hear of a module that was admitted; ``writer`` knows already."""
    connection.execute("INSERT INTO changes (sha256, writer) VALUES (?, ?)", (digest, writer))


def remember(connection: sqlite3.Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    values = (digest, version, reason, error)
    connection.execute("INSERT OR REPLACE INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?)", values)
    connection.execute("DELETE FROM failures WHERE sequence <= last_insert_rowid() - ?", (MAX_FAILURES,))


def count_attempt(connection: sqlite3.Connection, digest: Digest, version: int) -> tuple[int, str]:
    """Count one more attempt at a digest and version; how many there were before, and how the last one ended."""
    keys = digest, version
    query = "SELECT count, ending FROM attempts WHERE sha256 = ? AND version = ?"
    before = connection.execute(query, keys).fetchone() or (0, "")
    connection.execute(
        "INSERT INTO attempts (sha256, version, count, ending) VALUES (?, ?, 1, '')"
        " ON CONFLICT (sha256, version) DO UPDATE SET count = count + 1, ending = ''",
        keys,
    )
    newest = "(SELECT max(sequence) FROM attempts)"
    connection.execute(f"DELETE FROM attempts WHERE sequence <= {newest} - ?", (MAX_FAILURES,))  # noqa: S608 - a constant
    return int(before[0]), str(before[1])


def forget_attempts_of_nothing(connection: sqlite3.Connection) -> None:
    """A kill may leave the count of an attempt that had begun when its module was removed."""
    connection.execute("DELETE FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)")


def forget_attempts(connection: sqlite3.Connection, digest: Digest, version: int) -> None:
    """The last attempt has ended: with an answer, an error, or for a reason that is not the module's."""
    connection.execute("DELETE FROM attempts WHERE sha256 = ? AND version <= ?", (digest, version))


def forget_outcomes(connection: sqlite3.Connection, digest: Digest) -> bool:
    """Forget failures and attempts of every version; whether there were any."""
    failed = connection.execute("DELETE FROM failures WHERE sha256 = ?", (digest,)).rowcount
    attempted = connection.execute("DELETE FROM attempts WHERE sha256 = ?", (digest,)).rowcount
    return failed + attempted > 0
