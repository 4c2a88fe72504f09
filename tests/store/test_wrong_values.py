"""A catalogue in which anything is wrong that can be written through SQLite: a start goes on, and so does every verb."""

# ruff: noqa: S608 - names of our own schema

from __future__ import annotations

import logging
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from symd.engine.engine import Engine
from symd.errors import FailedPrecondition, Malformed, SymdError
from symd.index import VERSION
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.answers import Reason
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.model.module_events import CaughtUp
from symd.store import Store
from symd.store.catalogue import newest
from symd.store.inspection import FindingKind, inspect
from symd.store.rebuild import faults

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
OTHER = SAMPLE + b"\0"
REFUSED = "cd" * 32
LONG = 60.0
PASSING = 99
VALUES = (
    "NULL", "x'ff00fe'", "'text'", "CAST(x'ff41ff' AS TEXT)", "''", "-1", "9223372036854775807", "-9223372036854775808", "1e308",
    "9e999", "3.5", "'{}'", "'[1, {}]'", "'{\"reason\": 5, \"message\": [], \"metadata\": 7}'", "zeroblob(100000)",
    "4611686018427387903",
)  # fmt: skip
QUERY = ByKernel("raycast", KernelOffset(0x368))


class Filled:
    """A store with a row in each table, closed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with Engine(Store(root)) as engine:
            self.digests = [engine.add(SAMPLE, "one").sha256, engine.add(OTHER, "two").sha256]
            self.reason = engine.symbolize_one(self.digests[0], QUERY).reason
            engine.aliases.add([Alias("build-id", str(at), digest) for at, digest in enumerate(self.digests)])
            for process in range(2):
                name = engine.contexts.add(Context(process=process))
                segment = Segment(DeviceAddress(0x10000), 0x1000, ByKernel("raycast", KernelOffset(0)))
                engine.contexts.record(name, [Load(self.digests[0], 5, (segment,), key="k"), Unload("k", 50)])
                engine.contexts.record(name, [Load(self.digests[1], 60, (segment,), key="k")])
                engine.aliases.add([Alias("handle", "1", self.digests[0], context=name)])
            engine.store.remember_failure(REFUSED, VERSION, Malformed("it is not right"))
            removed = engine.store.put(b"soon gone")
            with engine.store.attempt(self.digests[0], VERSION):
                engine.store.remove(removed)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return Filled(tmp_path_factory.mktemp("filled") / "store")


def tables(root: Path) -> Iterator[tuple[str, list[str]]]:
    with closing(sqlite3.connect(newest(root))) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield name, [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]


def change(root: Path, *statements: str) -> None:
    with closing(sqlite3.connect(newest(root), timeout=LONG)) as connection:
        for statement in statements:
            with suppress(sqlite3.IntegrityError):  # then that cannot be written through SQLite
                connection.execute(statement)
        connection.commit()


def modules(engine: Engine, filled: Filled) -> None:
    """No module is lost, and none answers wrongly."""
    assert {record.sha256 for record in engine.modules()} >= set(filled.digests)
    for digest, label in zip(filled.digests, ("one", "two"), strict=True):
        assert engine.missing([digest]) == []
        assert engine.record(digest).label in (label, "")
        assert engine.module(digest).sha256 == digest
        assert engine.symbolize_one(digest, QUERY).reason is filled.reason


def aliases(engine: Engine, filled: Filled) -> None:
    for at, digest in enumerate(filled.digests):
        assert all(alias.module == digest for alias in engine.aliases.of(digest))
        found = engine.aliases.resolve("build-id", str(at))
        assert found is None or found.module == digest


def contexts(engine: Engine, filled: Filled) -> None:
    """Those that are there are whole."""
    for record in list(engine.contexts.all()):
        if record.context.process == PASSING:
            continue  # what was to be written to it may have met the damage
        assert [load.module for _, load in engine.contexts.loads(record.id)] == filled.digests
        assert engine.contexts.get(record.id) == record
        for moment, reason in ((10, filled.reason), (55, Reason.UNLOADED)):
            (found,) = engine.contexts.symbolize(record.id, np.array([0x10368], np.uint64), moment)
            assert found.answer.reason is reason


def watches(engine: Engine, _: Filled) -> None:
    """What is there is told to its end, and everything that was told."""
    with engine.watch_modules() as watch:
        end = next(event.position for event in watch if isinstance(event, CaughtUp))
    log = engine.store.module_log
    for entry in log.after(log.end()._replace(sequence=0), 1000):
        if entry.load is not None:
            engine.store.context_log.load(entry.load)
    assert end


def writes(engine: Engine, _: Filled) -> None:
    new = engine.store.put(b"new", "new")
    assert engine.store.put_index(new, 1, b"index") == b"index"
    engine.aliases.add([Alias("build-id", "new", new)])
    engine.aliases.remove("build-id", "new")
    assert engine.relabel(new, "newer").label == "newer"
    name = engine.contexts.add(Context(process=PASSING))
    engine.contexts.record(name, [Unload("other", 7)])
    engine.contexts.remove(name)
    engine.remove(new)
    engine.store.failure(REFUSED, VERSION)
    engine.store.remember_failure(REFUSED, VERSION, Malformed("it is not right"))
    engine.store.collect(VERSION)


def everything(engine: Engine, filled: Filled) -> None:
    for verbs in (modules, aliases, contexts, watches, writes):
        verbs(engine, filled)


def goes_on(filled: Filled, root: Path) -> str:
    """What was wrong, as a start over what is there says. What symd may have written it believes."""
    believed = not faults(newest(root))
    with Engine(Store(root)) as engine:
        engine.resume()
        if believed:
            for verbs in (modules, aliases, contexts, watches, writes):
                with suppress(AssertionError, SymdError):
                    verbs(engine, filled)
        else:
            until_all_goes_well(engine, filled)
            assert faults(newest(root)) == []
        return str(engine.store.recovery.rebuilt)


def until_all_goes_well(engine: Engine, filled: Filled) -> None:
    """Until the damage is found out, whoever meets it hears of it, or does not; in the end all goes well. No exception but symd's own
    comes of it at any time."""
    end = time.monotonic() + LONG
    while True:
        try:
            everything(engine, filled)
        except (AssertionError, SymdError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            if time.monotonic() > end or not faults(newest(engine.store.root)):
                return


def copied(filled: Filled, root: Path) -> None:
    shutil.copytree(filled.root, root)


def cells(root: Path) -> list[tuple[str, str]]:
    return [(table, column) for table, columns in tables(root) for column in columns]


def test_each_value_of_each_column_may_be_wrong_at_a_start(filled: Filled, tmp_path: Path) -> None:
    dice = random.Random(5)
    walked = cells(filled.root)
    assert {"modules", "failures", "indexes", "attempts", "changes", "sqlite_sequence"} <= {
        table for table, _ in walked
    }
    for number, (table, column) in enumerate(walked):
        for value in dice.sample(VALUES, 2):
            root = tmp_path / f"{number}-{dice.random()}"
            copied(filled, root)
            which = dice.choice([f"SELECT * FROM {table}", f"SELECT * FROM {table} LIMIT 1"])
            rows = "" if "LIMIT" not in which else f"WHERE {column} IN (SELECT {column} FROM {table} LIMIT 1)"
            statement = f"UPDATE {table} SET {column} = {value} {rows}"
            try:
                change(root, statement)
                goes_on(filled, root)
            except Exception as error:
                raise AssertionError(statement) from error
            shutil.rmtree(root)


def test_values_may_become_wrong_while_a_store_is_at_work(filled: Filled, tmp_path: Path) -> None:
    dice = random.Random(6)
    for number, (table, column) in enumerate(cells(filled.root)):
        root = tmp_path / str(number)
        copied(filled, root)
        statement = f"UPDATE {table} SET {column} = {dice.choice(VALUES)}"
        with Engine(Store(root)) as engine:
            change(root, statement)
            for verbs in (modules, aliases, contexts, watches, writes):
                try:
                    verbs(engine, filled)
                except (SymdError, AssertionError):
                    continue  # it is said, or believed
                except Exception as error:
                    raise AssertionError(statement) from error
        goes_on(filled, root)
        shutil.rmtree(root)


@pytest.mark.parametrize("running", [False, True])
def test_each_table_may_be_dropped_or_made_of_other_columns(filled: Filled, tmp_path: Path, running: bool) -> None:
    for number, (table, columns) in enumerate(tables(filled.root)):
        if table.startswith("sqlite_"):
            continue
        others = ", ".join(f"{column} BLOB" for column in columns)
        for way, statements in {
            "dropped": [f"DROP TABLE {table}"],
            "emptied": [f"DELETE FROM {table}"],
            "other types": [
                "PRAGMA legacy_alter_table=ON", f"CREATE TABLE other ({others})", f"INSERT INTO other SELECT * FROM {table}", f"DROP TABLE {table}",
                f"ALTER TABLE other RENAME TO {table}",
            ],
            "other columns": [f"DROP TABLE {table}", f"CREATE TABLE {table} (something)", f"INSERT INTO {table} VALUES (1)"],
        }.items():  # fmt: skip
            root = tmp_path / f"{number}-{way}"
            copied(filled, root)
            if running and way != "emptied":
                with Engine(Store(root)) as engine:
                    change(root, *statements)
                    until_all_goes_well(engine, filled)
            elif not running:
                change(root, *statements)
                told = goes_on(filled, root)
                if way != "emptied":
                    assert table in told, (table, way)
            shutil.rmtree(root)


@pytest.mark.parametrize("kind", ["index", "trigger"])
def test_indexes_and_triggers_may_be_gone(filled: Filled, tmp_path: Path, kind: str) -> None:
    with closing(sqlite3.connect(newest(filled.root))) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL"
        names = [name for (name,) in connection.execute(query, (kind,))]
    assert len(names) > 5
    for name in names:
        root = tmp_path / name
        copied(filled, root)
        change(root, f"DROP {kind} {name}")
        assert f"{kind} {name} is missing" in goes_on(filled, root)
    root = tmp_path / "added"
    copied(filled, root)
    change(root, "CREATE TRIGGER more AFTER INSERT ON modules BEGIN DELETE FROM modules; END")
    assert "trigger more is not symd's" in goes_on(filled, root)


def test_the_log_says_what_was_wrong_and_what_is_lost(
    filled: Filled, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copied(filled, root)
    change(root, "DROP TABLE failures")
    with caplog.at_level(logging.ERROR), Store(root) as store:
        assert store.failure(REFUSED, VERSION) is None
        assert store.record(filled.digests[0]).label == "one"
    assert "the catalogue was damaged (table failures is missing" in caplog.text
    assert "not all could be read of failures" in caplog.text


def test_a_damaged_label_costs_the_label_alone(filled: Filled, root: Path) -> None:
    copied(filled, root)
    change(root, "UPDATE modules SET label = x'ff', added = 'never', size = 'much'")
    with Engine(Store(root)) as engine:
        everything(engine, filled)
        assert [engine.aliases.resolve("build-id", str(at)).module for at in range(2)] == filled.digests
        assert [record.size for record in engine.modules()] == [len(SAMPLE), len(OTHER)]


@pytest.mark.parametrize("text", ["{", "[]", "7", "{}", '{"reason": "MALFORMED"}', '{"reason": 1}', "[" * 100_000])
def test_a_remembered_failure_that_cannot_be_read_is_found_out_anew(filled: Filled, root: Path, text: str) -> None:
    copied(filled, root)
    with Store(root) as store:
        with closing(sqlite3.connect(newest(root))) as connection:
            connection.execute("UPDATE failures SET error = ?", (text,))
            connection.commit()
        assert store.failure(REFUSED, VERSION) is None
        store.remember_failure(REFUSED, VERSION, Malformed("again"))
        assert str(store.failure(REFUSED, VERSION)) == "again"


def test_what_a_newer_symd_remembers_is_no_damage(filled: Filled, root: Path) -> None:
    copied(filled, root)
    text = '{"reason": "OF_THE_FUTURE", "message": "m", "where": "", "hint": "", "metadata": {}, "more": [1]}'
    change(root, f"UPDATE failures SET error = '{text}'", "UPDATE modules SET label = '\ufffd'")
    assert faults(newest(root)) == []
    with Store(root) as store:
        assert store.failure(REFUSED, VERSION) is None


def test_a_check_names_it(filled: Filled, root: Path) -> None:
    copied(filled, root)
    change(root, "UPDATE aliases SET object = x'00'")
    (finding,) = inspect(root).findings
    assert (finding.kind, "aliases: 4 rows" in finding.problem) == (FindingKind.CATALOGUE, True)


def test_a_load_of_what_is_no_module_is_damage(filled: Filled, root: Path) -> None:
    """It was told as it stood there. Its context is not whole any more, and forgotten."""
    copied(filled, root)
    change(root, "UPDATE loads SET module = 'g' || substr(module, 2) WHERE sequence = 1")
    (fault,) = faults(newest(root))
    assert fault.startswith("loads: 1 rows")
    goes_on(filled, root)


def test_random_bytes_of_the_file_too(filled: Filled, tmp_path: Path) -> None:
    """But not of digests: of one that is another nobody can tell."""
    dice = random.Random(8)
    for number in range(20):
        root = tmp_path / str(number)
        copied(filled, root)
        whole = newest(root).read_bytes()
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 200)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        for digest in filled.digests:
            for found in re.finditer(digest.encode(), whole):
                data[slice(*found.span())] = found[0]
        newest(root).write_bytes(data)
        with suppress(FailedPrecondition):  # it says that a newer symd wrote it
            goes_on(filled, root)
