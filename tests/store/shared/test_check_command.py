"""``symd store check`` of a store in a real S3 with a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from symd.cli import command_line
from symd.engine.engine import Engine
from symd.index import VERSION
from symd.store.shared.catalogue import MIGRATIONS
from symd.store.shared.s3_storage import S3Storage
from symd.store.shared.store import index_object, module_object
from tests.object_server import BUCKET, WHOLE, Proxy
from tests.store.shared.conftest import prefix_of
from tests.store.shared.postgresql_server import PostgresServer
from tests.store.shared.replicas import variant

Check = Callable[..., tuple[int, list[tuple[str, str]]]]
"""Runs the command: its exit code, and the kind and the subject of each finding."""


@pytest.fixture
def modules(engine_of: Callable[[str], Engine]) -> list[str]:
    """Two modules with their indexes."""
    return sorted(engine_of("daemon").add(variant(number)).sha256 for number in range(2))


@pytest.fixture
def check(
    modules: list[str], database: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> Check:
    def call() -> tuple[int, list[tuple[str, str]]]:
        code = command_line.invoke(
            ["store", "check", "--store", f"s3://{BUCKET}/{prefix_of(request)}", "--catalogue", database, "--json"]
        )
        *findings, counts = map(json.loads, capsys.readouterr().out.splitlines())
        assert (counts["modules"], counts["findings"]) == (2, len(findings))
        assert all(each["advice"] and "symd store repair" not in each["advice"] for each in findings)
        return code, [(each["kind"], each["subject"]) for each in findings]

    return call


def test_nothing_is_wrong(check: Check) -> None:
    assert check() == (0, [])


@pytest.mark.parametrize("data", [b"nothing!", b"", bytes(1 << 20)])
def test_other_bytes_are_named(check: Check, modules: list[str], s3: S3Storage, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data)
    names = module_object(modules[0]), index_object(modules[1], VERSION)
    for name in names:
        s3.put(name, tmp_path / "other")
    assert check() == (1, [("damaged-module", names[0]), ("damaged-index", names[1])])


def test_an_index_of_another_module_is_named(check: Check, modules: list[str], s3: S3Storage, tmp_path: Path) -> None:
    own, other = (index_object(digest, VERSION) for digest in modules)
    assert s3.size(own) == s3.size(other)
    s3.fetch(other, tmp_path / "other", WHOLE)
    s3.put(own, tmp_path / "other")
    assert check() == (1, [("damaged-index", own)])


def test_what_is_gone_is_named(check: Check, modules: list[str], s3: S3Storage) -> None:
    names = module_object(modules[1]), index_object(modules[0], VERSION)
    for name in names:
        s3.remove(name)
    assert check() == (1, [("row-without-file", names[0]), ("damaged-index", names[1])])


def test_what_nobody_knows_is_named_and_what_is_unwanted_is_not(
    check: Check, s3: S3Storage, database: str, tmp_path: Path
) -> None:
    (tmp_path / "other").write_bytes(b"other")
    strays = ["dust", index_object("ab" * 32, 1), module_object("cd" * 32)]
    for name in (*strays, module_object("ef" * 32)):
        s3.put(name, tmp_path / "other")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO unwanted_objects VALUES (%s, %s)", (module_object("ef" * 32), "ef" * 32))
    assert check() == (1, list(zip(("unknown-file", "index-without-module", "file-without-row"), strays, strict=True)))


def test_a_module_that_was_found_damaged_waits_for_its_bytes(
    check: Check, modules: list[str], engine_of: Callable[[str], Engine], s3: S3Storage, tmp_path: Path
) -> None:
    (tmp_path / "other").write_bytes(b"other")
    s3.put(module_object(modules[0]), tmp_path / "other")
    store = engine_of("another").store
    assert store.set_aside(modules[0])
    assert check() == (1, [("module-set-aside", module_object(modules[0]))])
    number = next(number for number in range(2) if engine_of("third").add(variant(number)).sha256 == modules[0])
    assert store.put(variant(number)) == modules[0]
    assert check() == (0, [])


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the command where it refuses: its exit code, and what it says."""

    def call(*arguments: object) -> tuple[int, str]:
        code = command_line.invoke(["store", "check", *map(str, arguments)])
        said = capsys.readouterr()
        assert said.out == ""
        return code, said.err

    return call


def test_nothing_is_made_in_a_database_that_is_empty(
    refusal: Callable[..., tuple[int, str]], postgresql: PostgresServer, proxy: Proxy
) -> None:
    database = postgresql.database()
    code, said = refusal("--store", f"s3://{BUCKET}/anything", "--catalogue", database)
    assert (code, "there is no catalogue" in said) == (3, True)
    with psycopg.connect(database) as connection:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        assert connection.execute(tables).fetchall() == []


def test_nothing_is_made_in_place_of_a_folder_that_is_not_there(
    refusal: Callable[..., tuple[int, str]], database: str, tmp_path: Path
) -> None:
    code, said = refusal("--store", f"file://{tmp_path}/absent", "--catalogue", database)
    assert (code, "there is no such folder" in said) == (2, True)
    assert not (tmp_path / "absent").exists()


def test_a_user_who_may_only_read_the_catalogue_may_check_it(check: Check, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")  # type: ignore[arg-type]
    assert check() == (0, [])


def test_a_catalogue_of_a_schema_before_is_left_as_it_is(
    refusal: Callable[..., tuple[int, str]], database: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symd.store.shared.catalogue.MIGRATIONS", (*MIGRATIONS, "CREATE TABLE newer (x BIGINT)"))
    code, said = refusal("--store", f"s3://{BUCKET}/anything", "--catalogue", database)
    assert (code, f"the catalogue has schema {len(MIGRATIONS)}" in said) == (3, True)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('newer') IS NULL").fetchone() == (True,)
