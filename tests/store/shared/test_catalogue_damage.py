"""Tables in PostgreSQL that somebody else has changed: verbs say that they are damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable

import psycopg
import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, DataLoss
from symd.index import VERSION
from symd.model.contexts import Alias, Context, Load
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.postgresql import PostgresDatabase
from symd.store.shared.store import SharedStore
from tests.store.shared.replicas import OBJECT

ANOTHER_TYPE = "ALTER TABLE {0} DROP COLUMN {1} CASCADE; ALTER TABLE {0} ADD COLUMN {1} {2}"
PLANNED = 20
"""So often a statement is executed that it is planned once for all: psycopg prepares it at the fifth time."""
CHANGES = (
    "DROP TABLE totals",
    "DROP FUNCTION module_added CASCADE; ALTER TABLE modules DROP COLUMN used CASCADE",
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
