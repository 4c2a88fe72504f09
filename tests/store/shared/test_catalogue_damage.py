"""Tables in PostgreSQL that somebody else has changed: every verb answers or says that they are damaged, and none takes a value for
what it is not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, DataLoss
from symd.index import VERSION
from symd.model.contexts import Alias, Context, Load
from symd.store.inspection import FindingKind
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.inspection import inspect_shared
from symd.store.shared.object_storage import ObjectStorage
from symd.store.shared.postgresql import PostgresDatabase
from symd.store.shared.store import SharedStore
from tests.store.shared.replicas import OBJECT

ANOTHER_TYPE = "ALTER TABLE {0} DROP COLUMN {1} CASCADE; ALTER TABLE {0} ADD COLUMN {1} {2}"
PLANNED = 20
"""So often a statement is executed that it is planned once for all: psycopg prepares it at the fifth time."""
CHANGES = (
    "DROP TABLE totals",
    "DELETE FROM totals",
    "DROP FUNCTION module_added CASCADE; ALTER TABLE modules DROP COLUMN used CASCADE",
    ANOTHER_TYPE.format("modules", "size", "TEXT DEFAULT 'x'"),
    ANOTHER_TYPE.format("modules", "format", "NUMERIC DEFAULT 'NaN'"),
    ANOTHER_TYPE.format("modules", "damaged", "TEXT DEFAULT 'x'"),
    ANOTHER_TYPE.format("indexes", "version", "TEXT DEFAULT 'x'"),
    ANOTHER_TYPE.format("indexes", "sha256", "BOOLEAN DEFAULT TRUE"),
    ANOTHER_TYPE.format("contexts", "events", "TIMESTAMPTZ DEFAULT 'infinity'"),
    ANOTHER_TYPE.format("contexts", "id", "DOUBLE PRECISION DEFAULT 1"),
    ANOTHER_TYPE.format("changes", "sha256", "DOUBLE PRECISION DEFAULT 1"),
    ANOTHER_TYPE.format("module_log", "last", "NUMERIC DEFAULT 'NaN'"),
    "UPDATE contexts SET description = 'no'",
    "UPDATE aliases SET key = sha256 || sha256, kind = 'other'; UPDATE module_log SET last = 9223372036854775807",
)
"""Each makes at least one of the verbs below fail, and none of them the opening."""


@pytest.fixture
def store(open_shared: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch) -> SharedStore:
    monkeypatch.setattr(logging.getLogger("symd.store"), "disabled", True)  # its threads say what is wrong each time
    return open_shared(Limits())


@pytest.mark.parametrize("change", CHANGES)
def test_changed_tables_are_damage_and_nothing_else(store: SharedStore, database: str, change: str) -> None:
    with store, Engine(store) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
        context = engine.contexts.add(Context(host="a"))
        engine.contexts.record(context, [Load(digest, 10)])
        engine.aliases.add([Alias("build-id", "abc", digest)])
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(change)  # type: ignore[arg-type]
        verbs: list[Callable[[], object]] = [
            lambda: list(engine.modules()),
            lambda: engine.missing([digest]),
            lambda: engine.object_data(digest, ""),
            lambda: engine.contexts.get(context),
            lambda: list(engine.contexts.loads(context)),
            lambda: engine.contexts.record(context, [Load(digest, 11)]),
            lambda: engine.aliases.resolve("build-id", "abc"),
            lambda: engine.add(OBJECT.read_bytes() + b"\0"),
            lambda: store.collect(VERSION),
            lambda: engine.remove(digest),
        ]
        assert sum(map(is_damage, verbs)) > 0


@pytest.mark.parametrize("kind", ["JSONB DEFAULT '[]'", "NUMERIC DEFAULT 'NaN'", "TEXT DEFAULT 'x'"])
def test_a_column_of_another_type_is_damage_to_statements_that_were_planned_before(
    store: SharedStore, database: str, kind: str
) -> None:
    with store, Engine(store) as engine:
        context = engine.contexts.add(Context(host="a"))
        engine.contexts.record(context, [Load("12" * 32, 10)])
        for _ in range(PLANNED):
            list(engine.contexts.loads(context))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(ANOTHER_TYPE.format("loads", "sequence", kind))  # type: ignore[arg-type]
        assert is_damage(lambda: list(engine.contexts.loads(context)))


def is_damage(verb: Callable[[], object]) -> bool:
    try:
        verb()
    except DataLoss as error:
        return "the catalogue is damaged" in str(error) and "backup" in error.hint
    return False


@pytest.mark.parametrize(
    "change",
    [
        ANOTHER_TYPE.format("symd_schema", "version", "TEXT DEFAULT 'x'"),
        ANOTHER_TYPE.format("symd_schema", "version", "NUMERIC DEFAULT 'NaN'"),
        "ALTER TABLE symd_schema RENAME version TO another",
        "DROP TABLE symd_schema",
    ],
)
def test_a_schema_that_has_no_number_is_damage(database: str, change: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(change)  # type: ignore[arg-type]
    with pytest.raises(DataLoss, match="the catalogue is damaged"):
        PostgresCatalogue(PostgresDatabase(database, Limits()))


def test_a_name_that_no_index_of_the_server_takes_is_refused(store: SharedStore) -> None:
    """2,704 bytes of a text that does not compress; SQLite takes any."""
    with store:
        digest = store.put(b"module")
        with pytest.raises(BadQuery, match="a name is longer than"):
            store.aliases.add([Alias("build-id", "".join(chr(0x10000 + each * 641 % 60000) for each in range(1024)), digest)])  # fmt: skip
        store.aliases.add([Alias("build-id", "k" * 1024, digest)])


IMPOSSIBLE = {
    "a negative size": "UPDATE modules SET size = -1 WHERE sha256 = %s",
    "a size that no file has": "UPDATE modules SET size = 1152921504606846976 WHERE sha256 = %s",
    "a time that is no number": "UPDATE modules SET added = 'NaN' WHERE sha256 = %s",
    "a time before all times": "UPDATE modules SET added = '-Infinity' WHERE sha256 = %s",
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_row_with_an_impossible_value_is_lost_alone(
    store: SharedStore, open_shared: Callable[..., SharedStore], database: str, change: str
) -> None:
    data = OBJECT.read_bytes()
    with store, Engine(store) as engine:
        good, bad, last = (engine.add(data + b"\0" * at).sha256 for at in range(3))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(change, (bad,))  # type: ignore[arg-type]
    with open_shared(Limits()) as opened, Engine(opened) as engine:
        engine.resume()
        assert [record.sha256 for record in engine.modules()] == [good, last]
        with pytest.raises(DataLoss, match=bad):
            engine.record(bad)
        assert engine.missing([good, bad, last]) == [bad]
        assert engine.store.collect(VERSION) is not None
        assert engine.object_data(good, "") == engine.object_data(last, "")[: len(data)]
        assert engine.add(data + b"\0").sha256 == bad
        assert engine.record(bad).size == len(data) + 1
        assert engine.missing([bad]) == []


def test_a_row_whose_name_is_no_digest_is_left_out(
    store: SharedStore, open_shared: Callable[..., SharedStore], database: str
) -> None:
    with store, Engine(store) as engine:
        good = engine.add(OBJECT.read_bytes()).sha256
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO modules (sha256, size, format, label, added, used) VALUES ('../../etc', 1, '', '', 0, 0)"
        )
    with open_shared(Limits()) as opened, Engine(opened) as engine:
        engine.resume()
        assert [record.sha256 for record in engine.modules()] == [good]
        assert engine.store.collect(VERSION) is not None
        assert engine.missing([good]) == []


def test_pages_go_on_behind_rows_that_are_wrong(store: SharedStore, database: str) -> None:
    """A page is short only where nothing follows, however many rows in a row are wrong."""
    with store, Engine(store) as engine:
        digests = [engine.add(OBJECT.read_bytes() + b"\0" * at).sha256 for at in range(5)]
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE modules SET size = -1 WHERE sha256 = ANY(%s)", (digests[1:4],))
        catalogue = store._catalogue
        found, after = [], (0.0, "")
        while page := catalogue.records(after, 1):
            found += [record.sha256 for record in page]
            after = page[-1].create_time, page[-1].sha256
        assert found == [digests[0], digests[4]]


def test_a_context_that_is_wrong_is_lost_alone(store: SharedStore, database: str) -> None:
    with store, Engine(store) as engine:
        digest = engine.add(OBJECT.read_bytes()).sha256
        contexts = [engine.contexts.add(Context(process=number)) for number in (1, 2, 3)]
        for context in contexts:
            engine.contexts.record(context, [Load(digest, 10, key="k")])
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE contexts SET added = 'NaN' WHERE id = %s", (contexts[1],))
        assert [record.context.process for record in engine.contexts.all()] == [1, 3]
        with pytest.raises(DataLoss):
            engine.contexts.get(contexts[1])
        assert len(list(engine.contexts.loads(contexts[2]))) == 1


def test_a_check_names_each_row_that_is_wrong(store: SharedStore, database: str) -> None:
    with store, Engine(store) as engine:
        good, bad = (engine.add(OBJECT.read_bytes() + b"\0" * at).sha256 for at in range(2))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE modules SET added = 'Infinity' WHERE sha256 = %s", (bad,))
        nothing = cast(ObjectStorage, SimpleNamespace(names=lambda _: [], size=lambda _: None))
        findings = inspect_shared(store._catalogue, nothing).findings
    wrong = [str(each) for each in findings if each.kind is FindingKind.CATALOGUE]
    assert [bad[:40] in each and good[:40] not in each for each in wrong] == [True]
