"""The catalogue in PostgreSQL, for daemons on several machines: the tables and statements of ``symd.store``, and what
only this server has.

Tables and columns have the names of ``symd.store.catalogue``, so that most statements are the same; what happens by
itself in those tables is done by triggers here too. Writers exclude one another, like SQLite's: each transaction begins
with one lock for the whole catalogue, so that budgets are counted right and the log of modules has the order of
commits. Readers never wait for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from time import monotonic
from typing import Any, Final

from symd.errors import FailedPrecondition, SymdError
from symd.model.identities import Digest
from symd.store.rows import SIZES, CatalogueQueries, Connection, index_size
from symd.store.shared.postgresql import PostgresConnection, PostgresDatabase

CHANNEL: Final = "symd_modules"
"""NOTIFY wakes who follows the log of modules on this channel."""

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: everything that the SQLite catalogue's sixth schema has; names of objects to be removed; modules whose bytes
    # were lost
    """
    CREATE TABLE modules (
        sha256 TEXT COLLATE "C" PRIMARY KEY,
        size BIGINT NOT NULL,
        format TEXT NOT NULL,
        label TEXT NOT NULL,
        added DOUBLE PRECISION NOT NULL,
        used DOUBLE PRECISION NOT NULL,
        damaged BOOLEAN NOT NULL DEFAULT FALSE
    );
    CREATE INDEX modules_by_age ON modules (added, sha256);
    CREATE INDEX modules_by_use ON modules (used, sha256);
    CREATE INDEX modules_damaged ON modules (sha256) WHERE damaged;
    CREATE TABLE indexes (
        sha256 TEXT COLLATE "C" NOT NULL REFERENCES modules ON DELETE CASCADE,
        version BIGINT NOT NULL,
        size BIGINT NOT NULL,
        PRIMARY KEY (sha256, version)
    );
    CREATE INDEX indexes_by_version ON indexes (version);
    CREATE TABLE failures (
        sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sha256 TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        reason TEXT NOT NULL,
        error TEXT NOT NULL,
        UNIQUE (sha256, version)
    );
    CREATE TABLE attempts (
        sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sha256 TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL,
        count BIGINT NOT NULL,
        ending TEXT NOT NULL,
        UNIQUE (sha256, version)
    );
    CREATE TABLE evictions (
        sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sha256 TEXT COLLATE "C" NOT NULL UNIQUE,
        size BIGINT NOT NULL,
        used DOUBLE PRECISION NOT NULL,
        evicted DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE aliases (
        context TEXT COLLATE "C" NOT NULL,
        kind TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C" NOT NULL,
        sha256 TEXT COLLATE "C" NOT NULL REFERENCES modules ON DELETE CASCADE,
        object TEXT,
        PRIMARY KEY (context, kind, key)
    );
    CREATE INDEX aliases_by_module ON aliases (sha256, context, kind, key);
    CREATE TABLE contexts (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id TEXT COLLATE "C" NOT NULL UNIQUE,
        description TEXT NOT NULL,
        added DOUBLE PRECISION NOT NULL,
        revision BIGINT NOT NULL,
        segments BIGINT NOT NULL,
        events BIGINT NOT NULL DEFAULT 0
    );
    CREATE TABLE loads (
        sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        context BIGINT NOT NULL REFERENCES contexts ON DELETE CASCADE,
        event BYTEA NOT NULL,
        revision BIGINT NOT NULL,
        key TEXT COLLATE "C" NOT NULL,
        module TEXT COLLATE "C" NOT NULL,
        loaded BIGINT NOT NULL,
        unloaded BIGINT,
        UNIQUE (context, event)
    );
    CREATE INDEX loads_by_context ON loads (context, sequence);
    CREATE INDEX loads_by_key ON loads (context, key, loaded);
    CREATE INDEX loads_by_revision ON loads (context, revision);
    CREATE INDEX loads_by_module ON loads (module);
    CREATE INDEX loads_living ON loads (sequence) WHERE unloaded IS NULL;
    CREATE TABLE segments (
        rowid BIGINT GENERATED ALWAYS AS IDENTITY,
        load BIGINT NOT NULL REFERENCES loads ON DELETE CASCADE,
        address BIGINT NOT NULL,
        size BIGINT NOT NULL,
        object TEXT,
        kernel TEXT,
        section JSONB,
        "offset" BIGINT NOT NULL
    );
    CREATE INDEX segments_by_load ON segments (load, rowid);
    CREATE TABLE unloads (
        context BIGINT NOT NULL REFERENCES contexts ON DELETE CASCADE,
        key TEXT COLLATE "C" NOT NULL,
        time BIGINT NOT NULL,
        PRIMARY KEY (context, key, time)
    );

    CREATE TABLE totals (bytes BIGINT NOT NULL, aliases BIGINT NOT NULL, contexts BIGINT NOT NULL);
    INSERT INTO totals VALUES (0, 0, 0);
    CREATE TABLE module_log (id TEXT NOT NULL, last BIGINT NOT NULL);
    INSERT INTO module_log VALUES (substr(replace(gen_random_uuid()::text, '-', ''), 1, 16), 0);
    CREATE TABLE changes (
        sequence BIGINT PRIMARY KEY,
        sha256 TEXT COLLATE "C" NOT NULL,
        writer TEXT,
        kind TEXT NOT NULL,
        load BIGINT,
        time BIGINT
    );
    CREATE TABLE unwanted_objects (
        name TEXT COLLATE "C" PRIMARY KEY,
        sha256 TEXT COLLATE "C" NOT NULL
    );

    CREATE FUNCTION change_numbered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE module_log SET last = last + 1 RETURNING last INTO NEW.sequence;
        RETURN NEW; END $$;
    CREATE TRIGGER change_numbered BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION change_numbered();
    CREATE FUNCTION change_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('symd_modules', '');
        RETURN NULL; END $$;
    CREATE TRIGGER change_told AFTER INSERT ON changes FOR EACH STATEMENT EXECUTE FUNCTION change_told();

    CREATE FUNCTION module_name(sha256 TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS
        $$ SELECT 'modules/' || left(sha256, 2) || '/' || sha256 $$;
    CREATE FUNCTION index_name(sha256 TEXT, version BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS
        $$ SELECT 'index/' || version || '/' || left(sha256, 2) || '/' || sha256 || '.idx' $$;

    CREATE FUNCTION module_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes + NEW.size;
        DELETE FROM evictions WHERE sha256 = NEW.sha256;
        DELETE FROM unwanted_objects WHERE name = module_name(NEW.sha256);
        RETURN NULL; END $$;
    CREATE TRIGGER module_added AFTER INSERT ON modules FOR EACH ROW EXECUTE FUNCTION module_added();
    CREATE FUNCTION module_resized() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes + NEW.size - OLD.size;
        RETURN NULL; END $$;
    CREATE TRIGGER module_resized AFTER UPDATE OF size ON modules FOR EACH ROW
        WHEN (OLD.size <> NEW.size) EXECUTE FUNCTION module_resized();
    CREATE FUNCTION module_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes - OLD.size;
        INSERT INTO changes (kind, sha256) VALUES ('removed', OLD.sha256);
        INSERT INTO unwanted_objects VALUES (module_name(OLD.sha256), OLD.sha256) ON CONFLICT DO NOTHING;
        RETURN NULL; END $$;
    CREATE TRIGGER module_removed AFTER DELETE ON modules FOR EACH ROW EXECUTE FUNCTION module_removed();

    CREATE FUNCTION index_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes + NEW.size;
        DELETE FROM unwanted_objects WHERE name = index_name(NEW.sha256, NEW.version);
        RETURN NULL; END $$;
    CREATE TRIGGER index_added AFTER INSERT ON indexes FOR EACH ROW EXECUTE FUNCTION index_added();
    CREATE FUNCTION index_resized() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes + NEW.size - OLD.size;
        RETURN NULL; END $$;
    CREATE TRIGGER index_resized AFTER UPDATE OF size ON indexes FOR EACH ROW
        WHEN (OLD.size <> NEW.size) EXECUTE FUNCTION index_resized();
    CREATE FUNCTION index_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes - OLD.size;
        INSERT INTO unwanted_objects VALUES (index_name(OLD.sha256, OLD.version), OLD.sha256) ON CONFLICT DO NOTHING;
        RETURN NULL; END $$;
    CREATE TRIGGER index_removed AFTER DELETE ON indexes FOR EACH ROW EXECUTE FUNCTION index_removed();

    CREATE FUNCTION alias_counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET aliases = aliases + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
        RETURN NULL; END $$;
    CREATE TRIGGER alias_counted AFTER INSERT OR DELETE ON aliases FOR EACH ROW EXECUTE FUNCTION alias_counted();
    CREATE FUNCTION context_counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET contexts = contexts + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
        RETURN NULL; END $$;
    CREATE TRIGGER context_counted AFTER INSERT OR DELETE ON contexts FOR EACH ROW EXECUTE FUNCTION context_counted();
    """,
    # 2: who adds many entries to the log of modules may number them: a number that was counted up for each took time
    # that grew with their square
    """
    CREATE OR REPLACE FUNCTION change_numbered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.sequence IS NULL THEN
            UPDATE module_log SET last = last + 1 RETURNING last INTO NEW.sequence;
        END IF;
        RETURN NEW; END $$;
    CREATE OR REPLACE FUNCTION change_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE module_log SET last = newest FROM (SELECT max(sequence) AS newest FROM changes) AS found WHERE last < newest;
        PERFORM pg_notify('symd_modules', '');
        RETURN NULL; END $$;
    """,
    # 3: what goes is counted and told once a statement, for the same reason
    """
    DROP TRIGGER module_removed ON modules;
    CREATE OR REPLACE FUNCTION module_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes - freed FROM (SELECT sum(size) AS freed FROM gone) AS found WHERE freed > 0;
        INSERT INTO changes (sequence, kind, sha256)
            SELECT last + row_number() OVER (ORDER BY sha256), 'removed', sha256 FROM gone, module_log;
        INSERT INTO unwanted_objects SELECT module_name(sha256), sha256 FROM gone ON CONFLICT DO NOTHING;
        RETURN NULL; END $$;
    CREATE TRIGGER module_removed AFTER DELETE ON modules REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION module_removed();
    DROP TRIGGER index_removed ON indexes;
    CREATE OR REPLACE FUNCTION index_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET bytes = bytes - freed FROM (SELECT sum(size) AS freed FROM gone) AS found WHERE freed > 0;
        INSERT INTO unwanted_objects SELECT index_name(sha256, version), sha256 FROM gone ON CONFLICT DO NOTHING;
        RETURN NULL; END $$;
    CREATE TRIGGER index_removed AFTER DELETE ON indexes REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION index_removed();
    DROP TRIGGER alias_counted ON aliases;
    CREATE TRIGGER alias_counted AFTER INSERT ON aliases FOR EACH ROW EXECUTE FUNCTION alias_counted();
    CREATE FUNCTION aliases_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE totals SET aliases = aliases - fewer FROM (SELECT count(*) AS fewer FROM gone) AS found WHERE fewer > 0;
        RETURN NULL; END $$;
    CREATE TRIGGER aliases_removed AFTER DELETE ON aliases REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION aliases_removed();
    """,
)
"""Step n takes a catalogue of schema n (0: an empty database) to n + 1. Steps are only ever appended."""


WRITING: Final = 0x73796D64_00000001
"""The advisory lock of whoever writes ("symd", 1)."""
_ROWS_GIVEN: Final = 2000
"""Rows of one statement: it is bounded in time."""
_OLDEST_SERVER: Final = 130000
"""PostgreSQL 13: gen_random_uuid."""
_LOCK: Final = f"SELECT pg_advisory_xact_lock({WRITING})"
_LOCK_WITHIN: Final = f"SET LOCAL lock_timeout = {{}}; {_LOCK}; SET LOCAL lock_timeout = DEFAULT"
"""Milliseconds; 0 are forever."""
_SIZES: Final = f"{SIZES} WHERE sha256 = ANY(?)"
_UNWANTED: Final = "SELECT name, sha256 FROM unwanted_objects WHERE name > ? ORDER BY name LIMIT ?"
_IS_UNWANTED: Final = "SELECT 1 FROM unwanted_objects WHERE name = ?"
_IS_NAMED: Final = """
    SELECT EXISTS (SELECT 1 FROM modules WHERE sha256 = :sha256 AND module_name(sha256) = :name)
        OR EXISTS (SELECT 1 FROM indexes WHERE sha256 = :sha256 AND index_name(sha256, version) = :name)
"""
_COMING: Final = "INSERT INTO unwanted_objects (name, sha256) SELECT :name, :sha256"
_MODULE_ROW: Final = "SELECT 1 FROM modules WHERE sha256 = :sha256"
_INDEX_ROW: Final = "SELECT 1 FROM indexes WHERE sha256 = :sha256 AND version = :version"
_DAMAGED: Final = "SELECT sha256 FROM modules WHERE damaged"
_HOW_MANY_DAMAGED: Final = "SELECT count(*) FROM modules WHERE damaged"


class PostgresCatalogue(CatalogueQueries):
    """The catalogue in the database of a server. Safe to use from several threads. Raises ``StoreUnavailable`` where
    the server cannot be reached or refuses, ``DataLoss`` for tables that symd did not make."""

    FOR_EACH = "given CROSS JOIN LATERAL (SELECT * FROM {table} WHERE {condition} OFFSET 0) AS {table}"
    LAST_ENTRY = "SELECT last FROM module_log"

    def __init__(self, server: PostgresDatabase, *, make: bool = True) -> None:
        """``make``: the tables are made, or brought to this symd's schema; else nothing is written. Raises
        ``FailedPrecondition`` for a server that this symd does not take, and a catalogue of another schema, or none,
        that it may not or cannot change."""
        self._server = server
        try:
            self._check_server()
            if make:
                self._migrate()
            else:
                self._check_schema()
        except BaseException:
            server.close()
            raise

    def close(self) -> None:
        self._server.close()

    @contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        with self._server.connection() as connection:
            yield connection

    @contextmanager
    def reading_at_once(self) -> Iterator[PostgresConnection]:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._server.connection() as connection, self._transaction(connection, begin):
            yield connection

    @contextmanager
    def writing(self, *, survives_power_cut: bool = True, seconds: float | None = None) -> Iterator[PostgresConnection]:
        relaxed = "" if survives_power_cut else "; SET LOCAL synchronous_commit = off"
        until = monotonic() + self._server.bounded(seconds)
        with self._server.connection(seconds) as connection:
            left = round((until - monotonic()) * 1000)
            lock = _LOCK if seconds is None else _LOCK_WITHIN.format(max(1, left))
            with self._transaction(connection, f"BEGIN; {lock}{relaxed}"):
                yield connection

    def given(self, columns: Mapping[str, str], found: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
        arrays = ", ".join(f"?::{each}[]" for each in columns.values())
        query, rows = f"SELECT * FROM unnest({arrays})", iter(found)  # noqa: S608 - constants
        while some := list(islice(rows, _ROWS_GIVEN)):
            yield query, [list(column) for column in zip(*some, strict=True)]

    def expect_lookups(self, connection: Connection) -> None:
        """Have the server find rows one by one, by an index, for the rest of the transaction: of a table that has
        grown since it looked last, it would rather read the whole for each few hundred rows."""
        connection.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")

    def section(self, named: str | int | None) -> str | int | None:
        """The column is JSON."""
        return None if named is None else json.dumps(named)

    def sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        with self.reading() as connection:
            return dict(connection.execute(_SIZES, (list(digests),)))

    def whole_sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Catalogued size of each of ``digests`` that has a row and bytes that are not known to be damaged."""
        with self.reading() as connection:
            return dict(connection.execute(f"{_SIZES} AND NOT damaged", (list(digests),)))

    def has_index(self, digest: Digest, version: int) -> bool:
        """Whether there is an index of that format version."""
        with self.reading() as connection:
            return index_size(connection, digest, version) > 0

    def damaged(self) -> int:
        """How many modules have bytes that are known to be damaged."""
        with self.reading() as connection:
            return int(connection.execute(_HOW_MANY_DAMAGED).fetchone()[0])

    def noted_damaged(self) -> list[Digest]:
        """The digests of the modules whose bytes are known to be damaged."""
        with self.reading() as connection:
            return [digest for (digest,) in connection.execute(_DAMAGED)]

    def is_noted_damaged(self, digest: Digest) -> bool:
        """Whether a module's bytes are known to be damaged."""
        with self.reading() as connection:
            return connection.execute(f"{_DAMAGED} AND sha256 = ?", (digest,)).fetchone() is not None

    def unwanted_objects(self, limit: int, after: str = "") -> list[tuple[str, Digest]]:
        """Names of objects that no row has any more, each with its module: those after a name, in their order."""
        with self.reading() as connection:
            return connection.execute(_UNWANTED, (after, limit)).fetchall()

    def note_coming(self, name: str, digest: Digest, version: int | None = None) -> None:
        """An object is written now: a module, or its index of a format ``version``. Its name stands with the unwanted
        until its row comes, so that it goes should its writer be killed before; not where it has a row already."""
        row = _MODULE_ROW if version is None else _INDEX_ROW
        with self.writing(survives_power_cut=False) as connection:
            coming = {"name": name, "sha256": digest, "version": version}
            connection.execute(f"{_COMING} WHERE NOT EXISTS ({row}) ON CONFLICT DO NOTHING", coming)

    def is_unwanted(self, name: str) -> bool:
        """Whether an object still stands among the unwanted, which no row has any more."""
        with self.reading() as connection:
            return connection.execute(_IS_UNWANTED, (name,)).fetchone() is not None

    def is_named(self, name: str, digest: Digest) -> bool:
        """Whether a row has that object of a module."""
        with self.reading() as connection:
            return bool(connection.execute(_IS_NAMED, {"name": name, "sha256": digest}).fetchone()[0])

    def forget_unwanted(self, name: str) -> None:
        """The object is gone, or wanted."""
        with self.writing(survives_power_cut=False) as connection:
            connection.execute("DELETE FROM unwanted_objects WHERE name = ?", (name,))

    @contextmanager
    def _transaction(self, connection: PostgresConnection, begin: str) -> Iterator[None]:
        try:
            connection.execute(begin)
            yield
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def _roll_back(self, connection: PostgresConnection) -> None:
        """Where that fails the connection is not used again, and the server does it when it is closed."""
        with suppress(SymdError), self._server.translated():
            connection.execute("ROLLBACK")

    def _check_server(self) -> None:
        with self._server.connection() as connection:
            version, encoding = (
                connection.execute(f"SHOW {name}").fetchone()[0] for name in ("server_version_num", "server_encoding")
            )
        if int(version) < _OLDEST_SERVER or encoding != "UTF8":
            raise FailedPrecondition(
                f"the server is PostgreSQL {int(version) // 10000}, and the database's encoding is {encoding}",
                where=self._server.where,
                hint="symd takes PostgreSQL 13 or newer and a database whose encoding is UTF8",
            )

    def _check_schema(self) -> None:
        with self._server.connection() as connection:
            is_made = connection.execute("SELECT to_regclass('symd_schema') IS NOT NULL").fetchone()[0]
            schema = self._schema(connection) if is_made else 0
        if schema < len(MIGRATIONS):
            what = (
                f"the catalogue has schema {schema}, this symd {len(MIGRATIONS)}" if schema else "there is no catalogue"
            )
            hint = (
                "a daemon of this symd brings it up to date"
                if schema
                else "name the database that the daemons name; `symd serve` or `symd store copy` makes a new one"
            )
            raise FailedPrecondition(what, where=self._server.where, hint=hint)

    def _migrate(self) -> None:
        with self.writing() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS symd_schema (version BIGINT NOT NULL)")
            schema = self._schema(connection)
            if not schema and connection.execute("SELECT 1 FROM symd_schema").fetchone() is None:
                connection.execute("INSERT INTO symd_schema VALUES (0)")
            for step in MIGRATIONS[schema:]:
                connection.execute(step)
            connection.execute("UPDATE symd_schema SET version = ?", (len(MIGRATIONS),))

    def _schema(self, connection: PostgresConnection) -> int:
        """The number of the catalogue's schema, 0 where it has none yet."""
        row = connection.execute("SELECT max(version) FROM symd_schema").fetchone()
        schema = row[0] or 0
        if schema > len(MIGRATIONS):
            raise FailedPrecondition(
                f"the catalogue has schema {schema}, this symd knows {len(MIGRATIONS)}",
                where=self._server.where,
                hint="use a newer symd or another database",
            )
        return int(schema)
