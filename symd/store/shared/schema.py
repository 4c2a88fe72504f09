"""The tables of a catalogue in PostgreSQL. Their names and columns are those of ``symd.store.catalogue``, so that most statements are the
same; what the tables do by themselves is done by triggers, as there."""

from __future__ import annotations

from typing import Final

CHANNEL: Final = "symd_modules"
"""NOTIFY wakes who follows the log of modules on this channel."""

MIGRATIONS: Final[tuple[str, ...]] = (
    # 1: everything that the SQLite catalogue's sixth schema has; names of objects to be removed; modules whose bytes were lost
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
    # 2: who adds many entries to the log of modules may number them: a number that was counted up for each took time that grew with their square
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
