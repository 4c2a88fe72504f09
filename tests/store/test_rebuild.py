"""A damaged catalogue is replaced by what can be read of it and by the modules themselves."""

import errno
import logging
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from symd.errors import ContextNotFound, DataLoss, ModuleNotFound, StoreUnavailable
from symd.model.addresses import ByKernel
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.store import Store
from symd.store.catalogue import migrate, newest
from symd.store.catalogue_copy import copy_with_log
from symd.store.lost_schema import fold_log, restore_schema
from symd.store.rebuild import faults, rebuild
from symd.store.salvage import TABLES

LONG = 30.0
PAGE = 4096


def load(time: int) -> Load:
    return Load("ab" * 32, time, (Segment(0x1000, 16, ByKernel("k", 0)),), key=f"k{time}")


class Filled:
    """A store with something of everything, closed; what it was told."""

    def __init__(self, root: Path, count: int = 60) -> None:
        self.modules, self.aliases, self.contexts = {}, [], {}
        with Store(root) as store:
            for number in range(count):
                digest = store.put(b"%d" % number * 50, f"label {number} " + "x" * 200)
                self.modules[digest] = f"label {number} " + "x" * 200
                self.aliases += [Alias("build-id", f"{number}-{at}", digest) for at in range(5)]
            for number in range(8):
                name = store.context_log.add(Context(process=number))
                events = [load(at) for at in range(1, 40)] + [Unload(f"k{at}", at + 5) for at in range(1, 40)]
                store.context_log.record(name, events)
                self.contexts[name] = store.context_log.loads(name)
            store.aliases.add(self.aliases)


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> tuple[Path, Filled]:
    root = tmp_path_factory.mktemp("filled") / "store"
    return root, Filled(root)


def assert_right(store: Store, expected: Filled) -> tuple[int, int, int]:
    """What is there is as it was told; how many labels, aliases and contexts are."""
    records = store.records(limit=10_000)
    assert {record.sha256 for record in records} == set(expected.modules), "no module is lost"
    labels = [record for record in records if record.label]
    assert all(record.label == expected.modules[record.sha256] for record in labels)
    resolved = [(each, store.aliases.resolve(each.kind, each.key)) for each in expected.aliases]
    assert all(found in (None, each) for each, found in resolved)
    contexts = {record.id: store.context_log.loads(record.id) for record in store.context_log.contexts()}
    assert all(loads == expected.contexts[name] for name, loads in contexts.items())
    return len(labels), sum(found is not None for _, found in resolved), len(contexts)


def test_bytes_that_are_no_catalogue_are_moved_aside_and_the_modules_found(filled, root: Path, caplog):
    shutil.copytree(filled[0], root)
    (root / "catalogue.sqlite").write_bytes(b"no database at all" * 100)
    with caplog.at_level(logging.ERROR), Store(root) as store:
        assert assert_right(store, filled[1]) == (0, 0, 0)
        rebuilt = store.recovery.rebuilt
        assert rebuilt.damaged.read_bytes().startswith(b"no database")
        assert rebuilt.damaged.parent == root / "damaged"
        assert set(rebuilt.salvage.lost) >= {"modules", "aliases", "contexts"}
    assert "the catalogue was damaged" in caplog.text
    with Store(root) as store:
        assert store.recovery.rebuilt is None
        assert len(store.records()) == len(filled[1].modules)


def pages(root: Path) -> int:
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (root / "catalogue.sqlite").stat().st_size // PAGE


def test_whichever_page_is_damaged_no_module_is_lost_and_nothing_is_wrong(filled, tmp_path: Path):
    count, dice, kept = pages(filled[0]), random.Random(7), []
    assert count > 40
    for page in [*range(12), *dice.sample(range(12, count), 12)]:
        root = tmp_path / str(page)
        shutil.copytree(filled[0], root)
        with (root / "catalogue.sqlite").open("r+b") as file:
            file.seek(page * PAGE)
            file.write(dice.randbytes(PAGE))
        if faults(newest(root)):
            rebuild(_paths(root), newest(root), "it was told so")
        with Store(root) as store:
            kept.append(assert_right(store, filled[1]))
            assert faults(newest(root)) == []
    assert sum(labels for labels, _, _ in kept) > 15 * len(filled[1].modules), "most pages cost few labels"
    assert sum(contexts for _, _, contexts in kept) > 10 * len(filled[1].contexts)


def schema_pages(path: Path) -> list[int]:
    """The pages, from 0, that SQLite says the schema has, in a build that can tell; else the first and those it leads to."""
    with path.open("rb") as file:
        first = file.read(PAGE)
    assert first[100] == 5, "an interior page"
    cells = int.from_bytes(first[103:105], "big")
    places = [108, *(int.from_bytes(first[at : at + 2], "big") for at in range(112, 112 + 2 * cells, 2))]
    return [0, *(int.from_bytes(first[at : at + 4], "big") - 1 for at in places)]


def rebuilt_after(filled: tuple[Path, Filled], root: Path, page: int, data: bytes, at: int = 0) -> tuple[int, int, int]:
    """What is there after the bytes of one page were replaced by others."""
    shutil.copytree(filled[0], root)
    pages(root)
    with (root / "catalogue.sqlite").open("r+b") as file:
        file.seek(page * PAGE + at)
        file.write(data)
    assert faults(newest(root))
    with Store(root) as store:
        if store.recovery.rebuilt is None:
            pytest.fail("the damage was not found at the start")
        assert faults(newest(root)) == []
        assert not list(root.glob("catalogue.fresh*"))
        return assert_right(store, filled[1])


def test_pages_of_the_schema_that_are_damaged_cost_nothing(filled, tmp_path: Path):
    """Nothing else says where a table begins, but a fresh catalogue has its tables in the same places."""
    pages(filled[0])
    damaged = schema_pages(filled[0] / "catalogue.sqlite")
    assert len(damaged) > 2
    for page in damaged:
        for data in (random.Random(page).randbytes(PAGE), bytes(PAGE)):
            root = tmp_path / f"{page}-{data[:2].hex()}"
            assert rebuilt_after(filled, root, page, data) == (60, 300, 8), page


def test_a_letter_of_the_schema_that_was_changed_costs_nothing(filled, tmp_path: Path):
    pages(filled[0])
    data = (filled[0] / "catalogue.sqlite").read_bytes()
    for number, name in enumerate((b"CREATE TABLE modules", b"CREATE TABLE contexts")):
        at = data.index(name) + len(name) - 1
        assert rebuilt_after(filled, tmp_path / str(number), at // PAGE, b"q", at % PAGE) == (60, 300, 8), name


def test_a_byte_of_the_schema_that_is_no_text_costs_nothing(filled, tmp_path: Path):
    """SQLite's own words about it are no text either."""
    pages(filled[0])
    data = (filled[0] / "catalogue.sqlite").read_bytes()
    for number, name in enumerate((b"CREATE TRIGGER module_", b"sqlite_autoindex_")):
        at = data.index(name) + len(name) - 1
        assert rebuilt_after(filled, tmp_path / str(number), at // PAGE, b"\xff", at % PAGE) == (60, 300, 8), name


def test_a_schema_of_which_sqlite_says_what_is_wrong_in_bytes_that_are_no_text_costs_nothing(filled, root: Path):
    """It names what it cannot understand, and that name is damaged too."""
    pages(filled[0])
    data = (filled[0] / "catalogue.sqlite").read_bytes()
    at, end = data.index(b"tablemodulesmodules"), data.index(b" TABLE modules")
    entry = data[at:end].replace(b"tablem", b"table\xc2").replace(b"CREATE", b"CRE\xc2TE")
    assert rebuilt_after(filled, root, at // PAGE, entry, at % PAGE) == (60, 300, 8)


def test_the_log_of_writes_of_a_catalogue_whose_schema_is_lost_is_read(filled, root: Path, tmp_path: Path):
    shutil.copytree(filled[0], root)
    pages(root)
    with Store(root) as store:
        digest = store.put(b"written last", "in the log")
        shutil.copytree(root, tmp_path / "copied")
    root = tmp_path / "copied"
    assert (root / "catalogue.sqlite-wal").stat().st_size > 0
    with (root / "catalogue.sqlite").open("r+b") as file:
        file.write(bytes(PAGE))
    rebuild(_paths(root), newest(root), "it was told so")
    with Store(root) as store:
        assert store.record(digest).label == "in the log"
        assert len(store.records(limit=1000)) == 61


def test_what_a_killed_rebuild_left_of_a_lost_schema_is_not_in_the_way(filled, root: Path, tmp_path: Path):
    shutil.copytree(filled[0], root)
    pages(root)
    with Store(root) as store:
        removed = store.put(b"removed later", "")
        shutil.copy(root / "catalogue.sqlite-wal", tmp_path / "older log")
        store.remove(removed)
    pages(root)
    with (root / "catalogue.sqlite").open("r+b") as file:
        file.write(bytes(PAGE))
    shutil.copy(tmp_path / "older log", root / "catalogue.fresh.readable-wal")
    (root / "catalogue.fresh.readable.schema").write_bytes(b"half a file")
    assert rebuild(_paths(root), newest(root), "it was told so").salvage.kept["modules"] == 60
    assert not list(root.glob("catalogue.fresh*"))


def test_what_a_killed_rebuild_left_goes_although_the_catalogue_was_put_back_meanwhile(filled, root: Path):
    shutil.copytree(filled[0], root)
    for name in (
        "catalogue.fresh",
        "catalogue.fresh-journal",
        "catalogue.fresh.readable",
        "catalogue.fresh.readable-wal",
    ):
        (root / name).write_bytes(b"half a file")
    with Store(root) as store:
        assert assert_right(store, filled[1]) == (60, 300, 8)
    assert not list(root.glob("catalogue.fresh*"))


def test_a_log_of_writes_for_which_there_is_no_room_is_not_dropped(tmp_path: Path):
    """Of a disk that is full SQLite says nothing when it brings a log into the file."""
    path, copied = tmp_path / "catalogue", tmp_path / "copied"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO module_log VALUES (?)", ("x" * (1 << 20),))
        copy_with_log(path, copied)
    with copied.open("r+b") as file:  # a damaged page of the schema, so that reading ends before it writes
        file.seek(schema_pages(copied)[-1] * PAGE)
        file.write(bytes(PAGE))
    program = f"""
import resource
from pathlib import Path
from symd.store.lost_schema import fold_log
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
try:
    fold_log(Path({str(copied)!r}))
except OSError as error:
    print(error.errno)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{errno.EFBIG}\n"
    assert Path(f"{copied}-wal").exists()
    fold_log(copied)
    assert copied.stat().st_size > 1 << 20


def test_a_copy_has_the_log_of_writes_that_another_brings_into_the_file_meanwhile(tmp_path: Path, monkeypatch):
    path, copied = tmp_path / "catalogue", tmp_path / "copied"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    migrate(connection, path)
    copy = shutil.copyfileobj

    def copy_while_another_closes(source, target, length=0):
        copy(source, target, length)
        if source.name.startswith(str(path)):
            connection.close()

    monkeypatch.setattr("shutil.copyfileobj", copy_while_another_closes)
    copy_with_log(path, copied)
    assert not Path(f"{path}-wal").exists()
    assert faults(copied) == []


def test_a_copy_is_for_this_user_alone(tmp_path: Path):
    path = tmp_path / "catalogue"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        migrate(connection, path)
        copy_with_log(path, tmp_path / "copied")
    assert [(tmp_path / f"copied{end}").stat().st_mode & 0o777 for end in ("", "-wal")] == [0o600, 0o600]


def test_who_has_a_catalogue_open_whose_schema_is_lost_keeps_the_lock_on_it(filled, root: Path):
    """Closing a file lets go of all locks that the process has on it: another process would take the log of writes away."""
    shutil.copytree(filled[0], root)
    pages(root)
    damaged = newest(root)
    with damaged.open("r+b") as file:
        file.seek(schema_pages(damaged)[-1] * PAGE)
        file.write(bytes(PAGE))
    with closing(sqlite3.connect(damaged)) as connection:
        connection.execute("PRAGMA user_version").fetchone()
        rebuilt = rebuild(_paths(root), damaged, "it was told so")
        assert rebuilt.salvage.kept["modules"] == 60
        program = f"""
import fcntl
with open({str(rebuilt.damaged)!r}, "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in ended.stderr


def test_a_catalogue_that_was_vacuumed_keeps_its_rows_without_its_schema(filled, root: Path):
    shutil.copytree(filled[0], root)
    with closing(sqlite3.connect(root / "catalogue.sqlite", isolation_level=None)) as connection:
        before = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
        connection.execute("VACUUM")
        assert dict(connection.execute("SELECT name, rootpage FROM sqlite_master")) != before
    pages(root)
    with (root / "catalogue.sqlite").open("r+b") as file:
        file.write(bytes(PAGE))
    with Store(root) as store:
        assert store.recovery.rebuilt is not None
        assert assert_right(store, filled[1]) == (60, 300, 8)


def test_a_catalogue_with_its_tables_elsewhere_gets_no_schema_of_a_fresh_one(tmp_path: Path):
    """As one that an older symd made may have."""
    path, other = tmp_path / "fresh", tmp_path / "other"
    with closing(sqlite3.connect(path, isolation_level=None)) as fresh:
        migrate(fresh, path)
        [page] = fresh.execute("SELECT rootpage FROM sqlite_master WHERE name = 'contexts'").fetchone()
        assert path.read_bytes()[(page - 1) * PAGE] == 0x0D, "a table with rowid"
    for at, data, restored in (
        (0, bytes(PAGE), True),
        ((page - 1) * PAGE, b"\x0a", False),  # an index
        ((page - 1) * PAGE, b"\xff", True),  # no kind of page, so damage
        (60, (3).to_bytes(4, "big"), False),  # an older user_version
        (16, (8192).to_bytes(2, "big"), False),  # larger pages
    ):
        changed = bytearray(path.read_bytes())
        changed[at : at + len(data)] = data
        other.write_bytes(changed)
        assert restore_schema(other, path, TABLES) is restored, (at, data)
        assert restored is (other.read_bytes() != changed)


def _paths(root: Path):
    with Store.temporary() as store:
        return type(store._paths)(root)


def test_damage_that_is_met_while_a_store_is_open_is_mended_without_a_restart(filled, root: Path):
    shutil.copytree(filled[0], root)
    count = pages(root)
    with Store(root) as store:
        with (root / "catalogue.sqlite").open("r+b") as file:
            file.seek(PAGE)
            file.write(bytes((count - 1) * PAGE))
        store._catalogue.close()  # what a connection has read it may keep
        with pytest.raises(DataLoss, match="symd store repair"):
            store.records(limit=1000)
        for _ in range(int(LONG * 20)):
            with suppress(DataLoss, StoreUnavailable):
                if len(store.records()) == len(filled[1].modules):
                    break
            time.sleep(0.05)
        assert newest(root).name == "catalogue-2.sqlite"
        assert_right(store, filled[1])
        assert store.record(store.put(b"new", "new")).label == "new"
    assert (root / "damaged").is_dir()


def test_who_has_the_damaged_one_open_writes_to_the_new_one(filled, root: Path):
    shutil.copytree(filled[0], root)
    with Store(root) as old:
        old.records()
        rebuild(_paths(root), newest(root), "it was told so")
        digest = old.put(b"written after", "label")
        with Store(root) as new:
            assert new.record(digest).label == "label"
            assert new.recovery == type(new.recovery)()
            new.remove(digest)
            with pytest.raises(ModuleNotFound):
                old.record(digest)
    with Store(root) as store:
        assert assert_right(store, filled[1]) == (60, 300, 8)


def test_two_who_find_the_same_damage_replace_it_once(filled, root: Path):
    shutil.copytree(filled[0], root)
    damaged = newest(root)
    assert rebuild(_paths(root), damaged, "it was told so") is not None
    assert rebuild(_paths(root), damaged, "it was told so") is None
    assert len(list((root / "damaged").glob("*.sqlite"))) == 1


def test_a_context_that_is_not_whole_is_forgotten_with_its_aliases(filled, root: Path):
    shutil.copytree(filled[0], root)
    victim, other, *_ = filled[1].contexts
    module = next(iter(filled[1].modules))
    with Store(root) as store:
        store.aliases.add([Alias("handle", "1", module, context=victim), Alias("handle", "1", module, context=other)])
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("DELETE FROM unloads WHERE key = 'k3' AND context = 1")
        connection.commit()
    rebuilt = rebuild(_paths(root), newest(root), "it was told so")
    assert rebuilt.salvage.contexts_lost == 1
    with Store(root) as store:
        with pytest.raises(ContextNotFound):
            store.context_log.loads(victim)
        assert store.aliases.resolve("handle", "1", victim) is None
        assert store.aliases.resolve("handle", "1", other) is not None
        changes = store.context_log.changes(store.context_log.add(Context(process=0)))
        assert changes.number > 1_000_000, "a number that a running daemon may remember means nothing else"


def test_what_a_rebuild_that_was_killed_left_is_not_in_the_way(filled, root: Path):
    shutil.copytree(filled[0], root)
    (root / "catalogue.fresh").write_bytes(b"half a file")
    (root / "catalogue.sqlite").write_bytes(b"no database at all" * 100)
    with Store(root) as store:
        assert len(store.records()) == len(filled[1].modules)
    assert not (root / "catalogue.fresh").exists()


def test_a_rebuild_that_was_killed_before_it_moved_the_damaged_one_is_finished(filled, root: Path):
    shutil.copytree(filled[0], root)
    rebuilt = rebuild(_paths(root), newest(root), "it was told so")
    shutil.copy(rebuilt.damaged, root / "catalogue.sqlite")
    with Store(root) as store:
        assert assert_right(store, filled[1]) == (60, 300, 8)
    assert [path.name for path in sorted(root.glob("catalogue*.sqlite"))] == ["catalogue-2.sqlite"]
    assert len(list((root / "damaged").glob("*.sqlite"))) == 2
