"""The SQLite catalogue: one row a module, its remembered failures and its aliases; contexts and what was loaded
in them. It knows no file but its own.

Writers of several processes exclude one another (WAL, busy timeout); readers never wait for them."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

from symd.errors import DataLoss, FailedPrecondition, StoreUnavailable, SymdError
from symd.model.identities import Digest
from symd.store.connection import CatalogueCopy, Connection, OpenedPath, WrongValue, copy_with_log, readable
from symd.store.files import disk, hint_where_nothing_opens, locked, may_write, size_of
from symd.store.folder import CATALOGUE_NAME
from symd.store.rows import MODULES, CatalogueQueries, size_of_row
from symd.system.private_files import open_private

log = logging.getLogger("symd.store")

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
_AGAIN_SECONDS = 1.0
"""How long after another that waited in vain: who waited behind that one, or writes for the same call once more, has
waited already."""
_ROWS_GIVEN = (512, 64, 8, 1)
"""Rows of one statement. Each number of them is a statement of its own, which is prepared once: so there are few."""
_WRITER_BYTE = 120
"""The byte of the file of shared memory that the writing process locks (SQLite's walformat.html, 2.3.1)."""
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH")
"""How the names of SQLite's errors begin that say that a file's bytes are wrong, or that its tables are not those that
were made."""
NO_TEXT = "Could not decode to UTF-8"
_SIZES = f"{MODULES} WHERE sha256 IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants


LOCK = "catalogue.lock"
"""Held shared by each who writes, alone by who makes or replaces the file."""


def newest(root: Path) -> Path:
    """The catalogue of a store: the last of those that replaced a damaged one (``rebuild``)."""
    return _numbered(root, max(_numbers(root), default=1))


def replaced(root: Path) -> list[Path]:
    """Catalogues beside the newest: who replaced them was killed before they were moved aside."""
    return [_numbered(root, number) for number in sorted(_numbers(root))[:-1]]


def _numbers(root: Path) -> set[int]:
    return {int(match[1] or 1) for path in root.iterdir() if (match := CATALOGUE_NAME.fullmatch(path.name))}


def successor(path: Path) -> Path:
    """The file that replaces the catalogue ``path``."""
    match = CATALOGUE_NAME.fullmatch(path.name)
    return _numbered(path.parent, int(match[1] or 1) + 1 if match else 1)


def _numbered(root: Path, number: int) -> Path:
    return root / ("catalogue.sqlite" if number == 1 else f"catalogue-{number}.sqlite")


@dataclass(eq=False, slots=True)
class _Pool:
    """A file, and connections to it that nobody uses. Of one that was left what is given back goes with it."""

    path: Path
    opened: OpenedPath | None = None
    """The file's identity; None of a copy, and before the file is made."""
    copy: CatalogueCopy | None = None
    idle: list[sqlite3.Connection] = field(default_factory=list)
    is_left: bool = False

    def give_back(self, connection: sqlite3.Connection) -> None:
        self.idle.append(connection)
        if self.is_left:  # for long, or only just now
            self._close_idle()

    def change(self) -> str:
        """What has become of the file (``OpenedPath.change``)."""
        return "" if self.opened is None else self.opened.change()

    def close(self) -> None:
        self.is_left = True
        if self.opened is not None:
            self.opened.close()
        self._close_idle()
        if self.copy is not None:
            self.copy.remove()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # several threads may do this
            while True:
                self.idle.pop().close()


class Catalogue(CatalogueQueries):
    """Connections to the newest catalogue in the folder ``root``; safe to use from several threads."""

    FOR_EACH = "given CROSS JOIN {table} WHERE {condition}"
    LAST_ENTRY = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'"

    def __init__(
        self, root: Path, *, durable: bool = True, lock_seconds: float | None = None, may_be_new: bool = True
    ) -> None:
        self._root = root
        with disk(root):
            self._folder = OpenedPath(root)
            self._pool = _Pool(newest(root))
        self._renewing = Lock()
        self.is_recovered = True
        """False from when a copy was read, a transaction was refused in the middle, or the folder was found to be away,
        until somebody has brought files and rows in step (``recovery``): of a COMMIT that the disk refuses nobody knows
        whether it holds, and its files went before it."""
        self.damaged: Path | None = None
        """The file that was found to be damaged, if one was."""
        self.on_refusal: Callable[[StoreUnavailable], None] = lambda _error: None
        """Called with each error of a disk that does not take what is written."""
        self._lock = root / LOCK
        self._durable = durable
        self._write_lock = Lock()
        self._waited_in_vain = float("-inf")
        """When a write waited last for all of ``BUSY_SECONDS`` and did not get the lock; long ago where one has got it
        since."""
        try:
            with disk(self.path), locked(self._lock, seconds=lock_seconds), self.translated():
                self.renew()
                os.close(open_private(self.path, os.O_RDWR))
                self._pool.opened = OpenedPath(self.path)
                with closing(self.connect()) as connection:
                    migrate(connection, self.path, may_be_new=may_be_new)
        except StoreUnavailable as error:
            try:
                self._read_copy(error)
            except BaseException:
                self.close()
                raise

    @property
    def path(self) -> Path:
        """The file that is read: the newest, or a copy."""
        return self._pool.path

    def close(self) -> None:
        self._pool.close()
        self._folder.close()

    @property
    def unwritable(self) -> StoreUnavailable | None:
        """Why a copy is read and nothing can be written; None where that is not so."""
        copy = self._pool.copy
        return None if copy is None else copy.unwritable()

    def check_in_place(self) -> None:
        """Raises ``StoreUnavailable`` where the folder, or the file in it, is not the one that was opened: a module
        whose file is in one and whose row in the other is lost."""
        with disk(self._root):
            folder, file = self._folder.change(), self._pool.change()
            if file and not folder:
                self.renew()
                file = self._pool.change()
        if folder or file:
            self.is_recovered = False
            raise _misplaced(self._root, f"the store's folder {folder}" if folder else f"the store's catalogue {file}")

    def problem(self) -> str:
        """Why nothing can be written, "" where that is not so."""
        try:
            self.check_in_place()
        except StoreUnavailable as error:
            return error.message
        unwritable = self.unwritable
        return "" if unwritable is None else unwritable.message

    def _read_copy(self, error: StoreUnavailable) -> None:
        """Go on with a copy of the file until it can be opened: on a disk without any room, and where nothing may be
        written, SQLite cannot even read it in its place. Raises ``error`` where that is not why, or there is nothing to
        be copied that can be read as it is."""
        original = newest(self._root)
        if not size_of(original) or opens_in_place(original):
            raise error
        try:
            copy = CatalogueCopy(original, error, copy_in_any_case)
        except StoreUnavailable:
            raise error from None
        if older_schema(copy.path):
            copy.remove()
            raise error
        self._pool, self.is_recovered = _Pool(copy.path, copy=copy), False
        log.error("%s cannot be opened where it is: a copy is read, and nothing is written until it can", original)

    def renew(self) -> None:
        """Turn to the file that has replaced this one, if one has, and from a copy back to the file if that can be
        opened again."""
        with disk(self._root):
            pool = self._pool
            if pool.copy is None and not successor(pool.path).exists() and not pool.change():
                return
            with self._renewing:
                if self._folder.change():
                    return
                pool, newer = self._pool, newest(self._root)
                if newer == pool.path or (pool.copy is not None and not opens_in_place(newer)):
                    return
                self._pool = _Pool(newer, OpenedPath(newer))
        if pool.copy is not None:
            log.warning("%s can be opened again", newer)
        pool.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries."""
        with self.translated(), self._borrowed() as connection:
            yield connection

    @contextmanager
    def writing(self, *, survives_power_cut: bool = True, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        waiting = ("FULL" if survives_power_cut else "NORMAL") if self._durable else "OFF"
        with (
            self._turn_to_write(seconds) as wait,
            self._not_replaced(),
            self.translated(),
            self._borrowed() as connection,
        ):
            connection.execute(f"PRAGMA synchronous={waiting}")
            self._begin(connection, wait)
            try:
                yield connection
                self.check_in_place()
                connection.execute("COMMIT")
                self.check_in_place()
            except BaseException as error:
                if isinstance(error, sqlite3.OperationalError):
                    self.is_recovered = False
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _turn_to_write(self, seconds: float | None = None) -> Iterator[_Wait]:
        """The turn among this process's writers, and how long the lock of the file may be waited for: ``seconds``, and
        no more than ``BUSY_SECONDS``, are for both together. Raises ``StoreUnavailable``."""
        wait = _Wait(BUSY_SECONDS if seconds is None else min(seconds, BUSY_SECONDS))
        if not self._write_lock.acquire(timeout=wait.seconds):
            raise locked_by_another(self._pool.path, wait.seconds)
        try:
            yield wait
        finally:
            self._write_lock.release()

    def _begin(self, connection: sqlite3.Connection, wait: _Wait) -> None:
        """Begin a transaction. Raises ``StoreUnavailable`` where another process keeps the lock too long."""
        left = wait.left()
        if time.monotonic() - self._waited_in_vain < BUSY_SECONDS:
            left = min(left, _AGAIN_SECONDS)
        connection.execute(f"PRAGMA busy_timeout={int(left * 1000)}")
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._waited_in_vain = float("-inf")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                if wait.seconds >= BUSY_SECONDS:
                    self._waited_in_vain = time.monotonic()
                raise locked_by_another(self._pool.path, wait.seconds) from error
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
    def _not_replaced(self) -> Iterator[None]:
        """Inside, the newest file stays the newest. Raises ``StoreUnavailable`` where nothing can be written."""
        self.check_in_place()
        with ExitStack() as stack:
            with disk(self._lock):
                stack.enter_context(locked(self._lock, shared=True))
                self.renew()
            if (error := self.unwritable) is not None:
                self.on_refusal(error)
                raise error
            yield

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        """One of the idle connections or a new one; after a database error, and when the file was replaced meanwhile,
        it is closed instead of reused."""
        if self._pool.copy is not None:
            self.renew()
        pool = self._pool
        try:
            connection = pool.idle.pop()
        except IndexError:
            pool, connection = self._connected()
        try:
            yield connection
        except sqlite3.Error:
            connection.close()
            raise
        except BaseException:
            pool.give_back(connection)
            raise
        pool.give_back(connection)

    def connect(self) -> sqlite3.Connection:
        """A connection of the caller's own, to be closed by it; what goes wrong with it is ``translated``."""
        return self._connected()[1]

    def _connected(self) -> tuple[_Pool, sqlite3.Connection]:
        """A new connection, and where it belongs."""
        while True:
            self.renew()
            pool = self._pool
            try:
                return pool, self._open_connection(pool)
            except sqlite3.OperationalError:
                if pool is self._pool:
                    raise  # else a copy that is gone

    def _open_connection(self, pool: _Pool) -> sqlite3.Connection:
        if pool.copy is None:
            self.check_in_place()
        connection = existing(pool.path)
        try:
            mode = "WAL" if self._durable else "MEMORY"
            connection.execute(f"PRAGMA journal_mode={mode}")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'OFF'}")
            connection.execute("PRAGMA foreign_keys=ON")
            if pool.copy is None:
                self.check_in_place()  # else this may be a connection to another file
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
        try:
            with translated(self.path):
                yield
        except DataLoss as error:
            if error.metadata.get("sqlite", WrongValue.sqlite_errorname) != WrongValue.sqlite_errorname:
                self.damaged = self.path
            raise
        except StoreUnavailable as error:
            self.on_refusal(error)
            raise

    def reuse_log(self) -> None:
        """Let the next transaction write over the log of writes from its beginning, where nobody reads from it any
        more: on a full disk that is the room which it needs."""
        with suppress(SymdError), self.translated(), self._borrowed() as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

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
            return dict(readable(connection.execute(_SIZES, (json.dumps(list(digests)),)), size_of_row))


def _misplaced(root: Path, what: str) -> StoreUnavailable:
    """The error of a store whose folder, or catalogue, is not at its path any more."""
    hint = "put it back, or restart the daemon: it begins with what is there then"
    return StoreUnavailable(f"{what} while it was used", where=str(root), hint=hint, metadata={"file": str(root)})


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """What SQLite refuses inside becomes ``DataLoss`` or ``StoreUnavailable``."""
    try:
        yield
    except sqlite3.Error as error:
        raise catalogue_error(path, error) from error
    except UnicodeDecodeError as error:
        raise damage(path, NO_TEXT, "SQLite's own words about it are not text") from error


def catalogue_error(path: Path, error: sqlite3.Error) -> SymdError:
    """The error of a catalogue with which SQLite cannot go on."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(DAMAGE) or str(error).startswith(NO_TEXT):
        return damage(path, name or NO_TEXT, str(error))
    hint = "look whether the disk is full, the folder can be written and no other process holds the store"
    if name.startswith("SQLITE_CANTOPEN"):
        hint = hint_where_nothing_opens() or hint
    metadata = {"file": str(path), "sqlite": name}
    return StoreUnavailable(f"the catalogue refused: {error}", where=str(path), hint=hint, metadata=metadata)


class _Wait:
    """The wait of one write for others, of so many seconds in all, which begins now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds."""
        return max(self._end - time.monotonic(), 0.0)


def is_locked(error: SymdError) -> bool:
    """Whether an error is that of ``locked_by_another``: a write waited too long for other writes."""
    return error.metadata.get("sqlite") == "SQLITE_BUSY"


def locked_by_another(path: Path, seconds: float) -> StoreUnavailable:
    """The error of a write that waited for others' for too long."""
    holder = writer_of(path)
    who = f"process {holder}" if holder else "another process"
    who = "another write of this process" if holder == os.getpid() else who
    return StoreUnavailable(
        f"{who} holds the lock of the catalogue for more than {seconds:g} s",
        where=str(path),
        hint="look whether that process was stopped, or is at work on a large change; then try again",
        metadata={"file": str(path), "sqlite": "SQLITE_BUSY", **({"pid": str(holder)} if holder else {})},
    )


def writer_of(path: Path) -> int | None:
    """The process that writes to a catalogue now, where the kernel tells. The file of shared memory is not opened for
    it: closing it would let go of this process's own locks."""
    try:
        file = Path(f"{path}-shm").stat()
        held = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return None
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    return next(filter(None, (_holder(line.split(), place) for line in held)), None)


def _holder(fields: Sequence[str], place: str) -> int | None:
    """The process of a line of /proc/locks, where it writes to the catalogue whose file of shared memory lies at a
    place ("fe:00:123"): a line has a number, two kinds, the access, the process, the place, and the first and the last
    byte. Lines of processes that wait are longer."""
    match fields:
        case [_, _, _, "WRITE", process, at, first, last] if at == place and last.isdecimal():
            return int(process) if int(first) <= _WRITER_BYTE <= int(last) else None
        case _:
            return None


def existing(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there: none is made."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        where, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
    )


def opens_in_place(path: Path) -> bool:
    """Whether SQLite can have its own files beside a catalogue, which it makes also for who only reads: not on a disk
    that is full, and not where nothing may be written."""
    if not (may_write(path.parent) and may_write(path)):
        return False
    try:
        with closing(existing(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return not getattr(error, "sqlite_errorname", "").startswith(("SQLITE_IOERR", "SQLITE_FULL"))
    return True


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


def copy_of_catalogue(path: Path, to: Path) -> None:
    """Copy a catalogue as it is at one moment, with what its log of writes has. Raises ``DataLoss`` and
    ``StoreUnavailable``."""
    os.close(open_private(to, os.O_RDWR))
    with translated(path), closing(existing(path)) as source, closing(existing(to)) as target:
        source.backup(target)


def copy_in_any_case(path: Path, to: Path) -> None:
    """Copy a catalogue of which nothing can be written: as SQLite reads it, which it can where another process has it
    open, else byte by byte, for then nobody writes it. Raises OSError."""
    try:
        copy_of_catalogue(path, to)
    except SymdError:
        Path(f"{to}-journal").unlink(missing_ok=True)
        copy_with_log(path, to)


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
