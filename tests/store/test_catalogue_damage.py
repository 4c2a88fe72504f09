"""A damaged catalogue is set aside, told of, and replaced by the last good copy and the modules themselves: a start goes on, and so does every verb."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import DataLoss, ModuleNotFound, PositionLost, StoreUnavailable
from symd.index import VERSION
from symd.model.addresses import ByKernel
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.store import Store
from symd.store.catalogue import MIGRATIONS
from symd.store.folder import StorePaths
from symd.store.inspection import FindingKind, inspect
from symd.store.recovery import fault_of, keep_copy, replace_catalogue

LONG = 60.0
PAGE = 4096
MODULES = 40
CONTEXT = Context(process=1)


def label(number: int) -> str:
    return f"label {number} " + "x" * 200


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with a row in each table."""
    root = tmp_path_factory.mktemp("filled") / "store"
    with Store(root) as store:
        digests = [store.put(b"%d" % number * 50, label(number)) for number in range(MODULES)]
        store.put_index(digests[0], VERSION - 1, b"index")
        store.aliases.add([Alias("build-id", str(at), digest) for at, digest in enumerate(digests)])
        segment = Segment(0x1000, 16, ByKernel("k", 0))
        name = store.context_log.add(CONTEXT)
        loads = [Load(digest, at, (segment,), key=f"k{at}") for at, digest in enumerate(digests)]
        store.context_log.record(name, [*loads, Unload("k3", 50)])
        store.remember_failure("cd" * 32, VERSION, ModuleNotFound("it is not right"))
        removed = store.put(b"soon gone")
        with store.attempt(digests[0], VERSION):
            store.remove(removed)
        store.remove(store.put(b"gone, too"))
    return root


@pytest.fixture
def copied(filled: Path, root: Path) -> Path:
    shutil.copytree(filled, root)
    return root


def written(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE songs (name); INSERT INTO songs VALUES ('one'); PRAGMA user_version = 3;"
        )
    path.chmod(0o600)


def executed(*statements: str) -> Callable[[Path], None]:
    def execute(path: Path) -> None:
        with closing(sqlite3.connect(path, timeout=LONG, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return execute


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "no header": lambda path: written(path, 0, bytes(100)),
    "no first page": lambda path: written(path, 0, bytes(PAGE)),
    "no pages in the middle": lambda path: written(path, 5 * PAGE, bytes(path.stat().st_size - 8 * PAGE)),
    "garbage": lambda path: path.write_bytes(random.Random(5).randbytes(path.stat().st_size)),
    "a text": lambda path: path.write_bytes(b"no database at all" * 100),
    "another program's": foreign,
    "a schema of bytes that are no text": lambda path: path.write_bytes(path.read_bytes().replace(b"CREATE TABLE m", b"CREATE TABL\xff m")),
    "of another schema than it says": executed("PRAGMA user_version = 4"),
    "a table less": executed("DROP TABLE contexts"),
    "an index less": executed("DROP INDEX loads_by_key"),
    "a trigger less": executed("DROP TRIGGER module_removed"),
    "a table of other columns": executed("DROP TABLE failures", "CREATE TABLE failures (sha256, error)"),
    "no totals": executed("DELETE FROM totals"),
    "a label that is no text": executed("UPDATE modules SET label = CAST(x'ff' AS TEXT) WHERE label LIKE 'label 3%'"),
}  # fmt: skip


def assert_whole(store: Store) -> None:
    """No module is lost, and new ones are taken."""
    assert {bytes(store.data(record.sha256)) for record in store.records()} == {
        b"%d" % at * 50 for at in range(MODULES)
    }
    new = store.put(b"new", "new")
    store.aliases.add([Alias("build-id", "new", new)])
    assert store.aliases.resolve("build-id", "new") is not None
    store.remove(new)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_start_goes_on_with_every_module_and_says_so(
    copied: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "symd.store")
    DAMAGES[kind](copied / "catalogue.sqlite")
    damaged = (copied / "catalogue.sqlite").read_bytes()
    assert [finding.kind for finding in inspect(copied).findings] == [FindingKind.CATALOGUE]
    with Store(copied) as store:
        assert_whole(store)
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told.startswith("the catalogue was damaged (")
    assert told.endswith("; lost are labels, aliases, contexts and events, of which there was no copy")
    assert "\n" not in told
    assert f"{MODULES} modules added to the catalogue by their files" in caplog.text
    (aside,) = (copied / "damaged").glob("*.sqlite")
    assert (str(aside) in told, aside.read_bytes()[100 : len(damaged)] == damaged[100:]) == (True, True)
    assert inspect(copied).findings == []
    caplog.clear()
    with Store(copied) as store:
        assert_whole(store)
    assert caplog.text == ""


def test_what_is_missing_of_a_log_of_writes_is_found_by_the_files(
    copied: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "symd.store")
    with Store(copied) as store:
        new = store.put(b"new", "in the log")
        shutil.copytree(copied, tmp_path / "killed")
    (tmp_path / "killed" / "catalogue.sqlite-wal").unlink()
    with Store(tmp_path / "killed") as store:
        assert (bytes(store.data(new)), store.record(new).label) == (b"new", "")
        store.remove(new)
        assert_whole(store)
    assert "1 module added to the catalogue by their files" in caplog.text


def test_a_catalogue_that_never_left_its_log_of_writes_is_found_by_the_files(root: Path, tmp_path: Path) -> None:
    with Store(root) as store:
        new = store.put(b"new")
        shutil.copytree(root, tmp_path / "killed")
    (tmp_path / "killed" / "catalogue.sqlite-wal").unlink()
    with Store(tmp_path / "killed") as store:
        assert store.data(new) == b"new"


def everything(store: Store) -> tuple[object, ...]:
    name = next(record.id for record in store.context_log.contexts())
    aliases = [store.aliases.resolve("build-id", str(at)) for at in range(MODULES)]
    loads = [load for _, load in store.context_log.loads(name)]
    return sorted((record.sha256, record.label) for record in store.records()), aliases, loads


def test_the_last_copy_has_what_was_told_before(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Store(copied) as store:
        before, end = everything(store), store.module_log.end()
        keep_copy(StorePaths(copied))
        removed, *_ = store.aliases.of(store.aliases.resolve("build-id", "5").module)
        store.remove(removed.module)
        later = store.put(b"later", "lost")
    DAMAGES["garbage"](copied / "catalogue.sqlite")
    with Store(copied) as store:
        assert "lost are labels, aliases, contexts and events since 20" in caplog.text
        assert (store.data(later), store.record(later).label) == (b"later", "")
        assert store.missing([removed.module]) == [removed.module]
        store.put(b"5" * 50, label(5))
        store.remove(later)
        (records, aliases, loads), (records_before, aliases_before, loads_before) = everything(store), before
        assert (records, loads) == (records_before, loads_before)
        assert [number for number in range(MODULES) if aliases[number] != aliases_before[number]] == [5]
        with pytest.raises(PositionLost):
            store.module_log.after(end, 1)
        number = store.context_log.changes(store.context_log.add(Context(process=2))).number
        assert number > 1 << 32, "no number that somebody may remember means something else"
    assert inspect(copied).findings == []


def test_a_copy_of_an_older_schema_is_taken(copied: Path) -> None:
    path = copied / "catalogue.copy"
    with closing(sqlite3.connect(path)) as connection:
        for number, step in enumerate(MIGRATIONS[:4], 1):
            connection.executescript(f"{step} PRAGMA user_version = {number};")
        digests = [file.name for file in (copied / "modules").glob("??/*")]
        rows = [(digest, 50, "", "old", 1.5, 1.5) for digest in digests]
        connection.executemany("INSERT INTO modules VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    path.chmod(0o600)
    DAMAGES["garbage"](copied / "catalogue.sqlite")
    with Store(copied) as store:
        assert {record.label for record in store.records()} == {"old"}
        assert_whole(store)


def test_a_damaged_copy_is_not_taken(copied: Path) -> None:
    keep_copy(StorePaths(copied))
    for path in (copied / "catalogue.copy", copied / "catalogue.sqlite"):
        DAMAGES["no pages in the middle"](path)
    with Store(copied) as store:
        assert_whole(store)
    assert len(list((copied / "damaged").glob("*.sqlite"))) == 1


def test_a_damaged_catalogue_is_not_copied(copied: Path) -> None:
    keep_copy(StorePaths(copied))
    good = (copied / "catalogue.copy").read_bytes()
    DAMAGES["a table less"](copied / "catalogue.sqlite")
    with pytest.raises(DataLoss, match="table contexts"):
        keep_copy(StorePaths(copied))
    assert (copied / "catalogue.copy").read_bytes() == good
    assert list((copied / "incoming").iterdir()) == []


def test_a_copy_is_made_when_the_catalogue_was_changed_and_the_last_is_old(copied: Path) -> None:
    copy = copied / "catalogue.copy"
    with Store(copied, Limits(free_disk=0)) as store:
        keep = store._housekeeping._keep_copy
        keep()
        first = copy.stat()
        assert first.st_mode & 0o777 == 0o600
        store.put(b"new")
        keep()
        assert copy.stat().st_ino == first.st_ino, "it is young"
        os.utime(copy, (1, 1))
        keep()
        assert copy.stat().st_ino != first.st_ino
        assert fault_of(copy) == ""
    assert inspect(copied).findings == []


def test_who_has_the_damaged_one_open_answers_and_writes_nothing(copied: Path) -> None:
    with Store(copied) as old:
        digest, *_ = (record.sha256 for record in old.records())
        DAMAGES["a table less"](copied / "catalogue.sqlite")
        with Store(copied) as new:
            with pytest.raises(StoreUnavailable, match=r"replaced while it was used .*restart the daemon"):
                old.put(b"written after", "label")
            assert old.data(digest) == new.data(digest)
    with Store(copied) as store:
        assert_whole(store)


def test_who_was_killed_while_it_replaced_a_catalogue_left_the_copy_for_the_next(copied: Path) -> None:
    with Store(copied):
        keep_copy(StorePaths(copied))
    (copied / "catalogue.sqlite").unlink()  # it is in damaged/ by then
    with Store(copied) as store:
        assert store.record(store.records()[0].sha256).label.startswith("label")
        assert_whole(store)


def test_two_who_find_the_same_damage_replace_it_once(copied: Path) -> None:
    DAMAGES["garbage"](copied / "catalogue.sqlite")
    assert replace_catalogue(StorePaths(copied), "it was told so")
    assert replace_catalogue(StorePaths(copied), "it was told so") == ""
    assert len(list((copied / "damaged").glob("*.sqlite"))) == 1


NO_DIGEST = "INSERT INTO modules (sha256, size, format, label, added, used) VALUES ('../no digest', 10, '', '', 1, 0)"


def test_a_row_of_no_module_stops_no_eviction_and_is_dropped_by_the_next_start(copied: Path) -> None:
    with Store(copied) as store:
        size = sum(record.size for record in store.records())
    executed(NO_DIGEST)(copied / "catalogue.sqlite")
    assert [finding.kind for finding in inspect(copied).findings] == [FindingKind.NO_FILE]
    with Store(copied, Limits(store_size=size)) as store:
        assert store.recovery.dropped == 1
        executed(NO_DIGEST)(copied / "catalogue.sqlite")  # while it is open
        store.put(b"new" * 50)
        assert store.eviction_log.sums.modules > 0
    with Store(copied) as store:
        assert store.recovery.dropped == 1
        assert "../no digest" not in {record.sha256 for record in store.records()}


def test_totals_that_go_while_a_store_is_open_are_data_loss(copied: Path) -> None:
    with Store(copied) as store:
        executed("DELETE FROM totals")(copied / "catalogue.sqlite")
        with pytest.raises(DataLoss, match="the table totals is empty"):
            store.put(b"new")


@pytest.mark.parametrize("text", ["no JSON", "[1]", '{"unknown": 1}', "7"])
def test_a_context_whose_description_is_not_symds_is_data_loss(copied: Path, text: str) -> None:
    with Store(copied) as store:
        (context,) = store.context_log.contexts()
        ((number, _), *_) = store.context_log.loads(context.id)
        executed(f"UPDATE contexts SET description = '{text}'")(copied / "catalogue.sqlite")  # noqa: S608 - constants
        log = store.context_log
        for ask in (log.contexts, lambda: log.context(context.id), lambda: log.load(number)):
            with pytest.raises(DataLoss, match="is not what symd wrote"):
                ask()
