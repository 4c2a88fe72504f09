"""A disk that refuses: one clear error, and the store as it was."""

import errno
import fcntl
import hashlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import Malformed, StoreUnavailable
from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.store import Store, budgets, rows
from symd.store.catalogue import Catalogue, newest, opens_in_place
from symd.store.files import incoming_name
from symd.store.folder import StorePaths
from symd.store.inspection import inspect
from symd.store.recovery import replace_catalogue
from symd.store.removed_files import RemovedFiles
from tests.read_only_mount import make_writable, read_only_mount
from tests.small_disk import small_disk

LONG = 60.0
"""Seconds, against hanging."""
HARD_FILE_SIZE = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
LIMITED = """
import resource, sys
from pathlib import Path
from symd.errors import StoreUnavailable
from symd.store import Store

limit = int(sys.argv[2])
store = Store(Path(sys.argv[1]))
old = store.put(b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
refused = 0
for size in (100, 300_000, 200, 400_000):
    data = bytes([size % 251]) * size
    try:
        digest = store.put(data)
    except StoreUnavailable as error:
        refused += 1
        assert error.hint and error.where
    else:
        assert store.data(digest) == data
assert store.data(old) == b"old"
print(refused, len(store.records()))
"""


def files(root: Path) -> set[str]:
    """Once the look whether the disk takes bytes again, which has a file in incoming/ for a moment, is over."""
    deadline = time.monotonic() + LONG
    while True:
        found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.parent != root}
        if not any(name.startswith("incoming/") for name in found) or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def upload_in_pieces(store: Store, count: int) -> None:
    with store.writer() as upload:
        for _ in range(count):
            upload.write(os.urandom(1 << 16))


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        pytest.param(250_000, "2 3", id="the file is refused"),
        pytest.param(1, "4 1", id="the file and the catalogue are refused"),
    ],
)
def test_a_file_size_limit_refuses_what_is_too_large_and_nothing_else(root: Path, limit: int, outcome: str):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(root), str(limit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == outcome
    assert [line for line in done.stderr.splitlines() if not line.startswith("noting when modules were used: ")] == []
    with Store(root) as store:
        assert store.recovery.leftovers == 0
        assert f"{len(store.records())}" == outcome.split()[1]


@pytest.fixture(name="small_disk")
def disk_of_2_mib(tmp_path: Path) -> Iterator[Path]:
    """Needs the right to mount."""
    with small_disk(tmp_path / "disk", 2 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        yield tmp_path / "disk"


def test_a_full_disk_leaves_the_store_as_before_and_it_goes_on_once_there_is_room(small_disk: Path):
    root = small_disk / "store"
    with Store(root) as store:
        old = store.put(b"old")
        store.put_index(old, 1, b"index")
        before = files(root), store.records()
        with pytest.raises(StoreUnavailable, match="free some space"):
            store.put(os.urandom(3 << 20))
        with pytest.raises(StoreUnavailable, match="free some space"):
            upload_in_pieces(store, 100)
        with pytest.raises(StoreUnavailable, match="free some space"):
            store.put_index(old, 1, os.urandom(3 << 20))
        assert (files(root), store.records()) == before
        assert store.index(old, 1) == b"index"
        store.put(os.urandom(100_000))
        assert len(store.records()) == 2


def test_a_catalogue_without_room_takes_its_file_back(small_disk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budgets, "LABEL_LENGTH", 4000)
    root = small_disk / "store"
    refused = 0
    with Store(root) as store:
        for number in range(2000):
            try:
                store.put(b"%d" % number, label="x" * 4000)
            except StoreUnavailable:
                refused += 1
                break
        assert refused
        known = {record.sha256 for record in store.records(limit=10_000)}
        assert {Path(name).name for name in files(root)} == known


def fill(disk: Path) -> Path:
    """Write a file until there is no byte left."""
    path = disk / "fill"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0
    return path


def test_a_store_is_opened_and_read_where_no_byte_is_free_and_takes_modules_once_there_is_room(small_disk: Path):
    """SQLite cannot even read a catalogue where it cannot make its own files beside it."""
    root = small_disk / "store"
    with Store(root) as store:
        old = store.put(b"old")
        store.put_index(old, 1, b"index")
        position = store.module_log.end()
    filled = fill(small_disk)
    with Store(root) as store:
        assert (store.data(old), store.index(old, 1)) == (b"old", b"index")
        assert [record.sha256 for record in store.records()] == [old]
        assert store.module_log.end() == position
        with pytest.raises(StoreUnavailable, match="free some space"):
            store.put(b"new")
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.remove(old)
        filled.unlink()
        new = store.put(b"new")
        assert {record.sha256 for record in store.records()} == {old, new}
    with Store(root) as store:
        assert store.data(new) == b"new"


def test_what_an_upload_left_that_was_killed_is_room(small_disk: Path):
    root = small_disk / "store"
    with Store(root) as store:
        old = store.put(b"old")
    (root / "incoming" / "incoming-0123456789abcdef").write_bytes(bytes(200_000))
    fill(small_disk)
    with Store(root) as store:
        assert store.recovery.leftovers == 1
        new = store.put(b"new")
        assert {record.sha256 for record in store.records()} == {old, new}


def damage(root: Path) -> bytes:
    """The first bytes of the catalogue are others; all of it."""
    with (root / "catalogue.sqlite").open("r+b") as file:
        file.write(b"no catalogue" * 100)
    return (root / "catalogue.sqlite").read_bytes()


def test_a_damaged_catalogue_on_a_full_disk_is_replaced_once_there_is_room(
    small_disk: Path, caplog: pytest.LogCaptureFixture
):
    root = small_disk / "store"
    with Store(root) as store:
        old = store.put(b"old")
    damaged = damage(root)
    filled = fill(small_disk)
    with pytest.raises(
        StoreUnavailable, match=r"the catalogue is damaged \(.*\), and cannot be replaced: .*(full|no space)"
    ):
        Store(root)
    assert newest(root).read_bytes() == damaged
    filled.unlink()
    with Store(root) as store:
        assert store.data(old) == b"old"
    assert "of which there was no copy" in caplog.text


def test_a_damaged_catalogue_that_may_only_be_read_is_an_error(tmp_path: Path):
    root, place = tmp_path / "store", tmp_path / "read-only"
    with Store(root) as store:
        old = store.put(b"old")
    damage(root)
    with read_only_mount(root, place) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with pytest.raises(StoreUnavailable, match=r"is damaged \(.*\), and cannot be replaced: .*read-only"):
            Store(place)
        make_writable(place)
        with Store(place) as store:
            assert store.data(old) == b"old"


def test_of_an_older_schema_no_copy_is_read(small_disk: Path):
    """It would have to be taken to today's, which cannot be written."""
    root = small_disk / "store"
    with Store(root) as store:
        store.put(b"old")
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.executescript("DROP TABLE module_log; PRAGMA user_version = 5;")
    fill(small_disk)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        Store(root)


def test_once_there_is_room_files_and_rows_are_brought_in_step(small_disk: Path):
    root = small_disk / "store"
    with Store(root) as store:
        digest = store.put(b"old")
    lost = hashlib.sha256(b"lost").hexdigest()
    place = root / "modules" / lost[:2] / lost
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"lost")
    filled = fill(small_disk)
    with Store(root) as store:
        assert [record.sha256 for record in store.records()] == [digest]
        filled.unlink()
        end = time.monotonic() + LONG
        while len(store.records()) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert store.data(lost) == b"lost"


def test_two_who_read_a_copy_turn_back_to_the_file_together(small_disk: Path, monkeypatch: pytest.MonkeyPatch):
    root = small_disk / "store"
    Catalogue(root.mkdir(mode=0o700) or root).close()
    filled = fill(small_disk)
    catalogue = Catalogue(root)
    assert catalogue.unwritable is not None
    filled.unlink()
    meeting, opens = threading.Barrier(2), opens_in_place

    def together(path: Path) -> bool:
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.5)
        return opens(path)

    monkeypatch.setattr("symd.store.catalogue.opens_in_place", together)

    def counted() -> int:
        with catalogue.reading() as connection:
            return connection.execute("SELECT count(*) FROM modules").fetchone()[0]

    with ThreadPoolExecutor(2) as pool:
        assert [each.result() for each in [pool.submit(counted), pool.submit(counted)]] == [0, 0]
    assert (catalogue.unwritable, catalogue.path.parent) == (None, root)
    catalogue.close()


def test_a_connection_to_a_file_that_was_replaced_is_used_no_more(tmp_path: Path):
    """Also where it is given back while the catalogue turns to the new file."""
    paths = StorePaths(tmp_path / "store")
    paths.create(durable=False)
    catalogue = Catalogue(paths.root)
    with catalogue.reading():
        pass
    with catalogue.reading() as idle:
        replace_catalogue(paths, catalogue.path, "test")
        catalogue.renew()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        idle.execute("SELECT 1")
    with catalogue.reading() as connection:
        assert connection.execute("PRAGMA database_list").fetchone()[2] == str(newest(paths.root))
    catalogue.close()


@pytest.mark.parametrize("begin", ["reading", "reading_at_once"])
def test_an_error_of_the_disk_while_something_is_read_is_no_damage(tmp_path: Path, begin: str):
    """SQLite has ended the transaction then, which no COMMIT can."""
    catalogue = Catalogue(tmp_path)
    with pytest.raises(StoreUnavailable), getattr(catalogue, begin)() as connection:
        without_room_to_sort(connection)
    assert catalogue.damaged is None
    catalogue.close()


def without_room_to_sort(connection: sqlite3.Connection) -> None:
    """Raises what SQLite does where the disk refuses."""
    connection.execute("PRAGMA cache_size=10")
    connection.execute("PRAGMA temp_store=FILE")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
            " SELECT hex(randomblob(40)) AS h, (SELECT count(*) FROM modules) FROM n ORDER BY h"
        ).fetchall()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_the_copy_is_in_the_temporary_folder_where_shared_memory_is_not_to_be_had(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("symd.store.connection._SHARED_MEMORY", small_disk)
    root = small_disk / "store"
    with Store(root) as store:
        old = store.put(b"old")
    fill(small_disk)
    with Store(root) as store:
        assert store.data(old) == b"old"


def refuse(*_arguments: object) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    raise error


def test_what_a_refused_upload_would_have_evicted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with Store(tmp_path / "store", Limits(store_size=5000)) as store:
        old = store.put(bytes(3000))
        store.put_index(old, 1, b"index")
        before = files(store.root), store.records()
        monkeypatch.setattr("symd.store.rows.insert", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.put(b"new" * 1000)
        assert (files(store.root), store.records()) == before
        monkeypatch.undo()
        new = store.put(b"new" * 1000)
        assert [record.sha256 for record in store.records()] == [new]
        assert files(store.root) == {f"modules/{new[:2]}/{new}"}


def test_a_removal_that_is_refused_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with Store(tmp_path / "store") as store:
        old = store.put(b"old")
        store.put_index(old, 1, b"index")
        before = files(store.root), store.records()
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.remove(old)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.refuse(old, 1, Malformed("bad", where="w"))
        assert (files(store.root), store.records()) == before
        assert (store.missing([old]), store.data(old), store.index(old, 1)) == ([], b"old", b"index")
        monkeypatch.undo()
        store.remove(old)
        assert (files(store.root), store.records()) == (set(), [])


def refuse_renames(monkeypatch: pytest.MonkeyPatch, to: Path, times: int) -> None:
    """As a disk without room for the entry of a folder does."""
    rename, left = Path.rename, [times]

    def refused(path: Path, target: Path) -> Path:
        if target == to and left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)


def test_a_file_that_the_disk_does_not_take_back_at_once_is_put_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(tmp_path / "store") as store:
        old = store.put(b"old")
        refuse_renames(monkeypatch, StorePaths(store.root).module(old), 1)
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.remove(old)
        assert (store.data(old), files(store.root)) == (b"old", {f"modules/{old[:2]}/{old}"})


@pytest.mark.parametrize("in_the_same_process", [True, False])
def test_a_file_that_the_disk_does_not_take_back_is_put_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_same_process: bool
):
    monkeypatch.setattr("symd.store.removed_files._PAUSE_SECONDS", 0.0)
    with Store(tmp_path / "store") as store:
        old = store.put(b"old", label="the old one")
        place = StorePaths(store.root).module(old)
        refuse_renames(monkeypatch, place, 1000)
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.remove(old)
        monkeypatch.undo()
        end = time.monotonic() + (LONG if in_the_same_process else 0)
        while not place.exists() and time.monotonic() < end:
            time.sleep(0.05)
    with Store(tmp_path / "store") as store:
        assert (store.recovery.dropped, store.record(old).label, store.data(old)) == (0, "the old one", b"old")
        assert list(StorePaths(store.root).incoming.iterdir()) == []


def test_a_start_on_a_disk_that_refuses_to_put_a_file_back_keeps_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(tmp_path / "store") as store:
        old = store.put(b"old", label="the old one")
        place = StorePaths(store.root).module(old)
        place.rename(StorePaths(store.root).incoming / f"incoming-removed-{old}-0123456789abcdef")
    refuse_renames(monkeypatch, place, 1000)
    with Store(tmp_path / "store") as store:
        assert store.record(old).label == "the old one"
        monkeypatch.undo()
        end = time.monotonic() + LONG
        while store.missing([old]) and time.monotonic() < end:
            time.sleep(0.05)
        assert store.data(old) == b"old"


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_removal_whose_process_was_killed_is_done_or_not_done_at_all(tmp_path: Path, is_committed: bool):
    with Store(tmp_path / "store") as store:
        old = store.put(b"old", label="the old one")
        paths = StorePaths(store.root)
        paths.module(old).rename(paths.incoming / f"incoming-removed-{old}-0123456789abcdef")
        if is_committed:
            with store._catalogue.writing() as connection:
                rows.delete(connection, [Digest(old)])
    with Store(tmp_path / "store") as store:
        assert [record.label for record in store.records()] == ([] if is_committed else ["the old one"])
        assert store.missing([old]) == ([old] if is_committed else [])
        assert list(paths.incoming.iterdir()) == []


OPENING = """
import sys
from pathlib import Path
from symd.store import Store

with Store(Path(sys.argv[1])) as store:
    print(store.recovery.leftovers, store.recovery.dropped, len(store.records()))
"""


def opened_by_another_process(root: Path) -> str:
    command = [sys.executable, "-c", OPENING, str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def beside_the_next_undoing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let ``act`` come between a transaction that was refused and its files' way back."""
    put_back = RemovedFiles.put_back

    def first(removed: RemovedFiles) -> bool:
        monkeypatch.undo()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, HARD_FILE_SIZE))
        act()
        return put_back(removed)

    monkeypatch.setattr(RemovedFiles, "put_back", first)


def refuse_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be written from when the rows are deleted: SQLite keeps the pages in memory until the COMMIT."""
    delete = rows.delete

    def delete_the_last_that_is_written(connection: sqlite3.Connection, digests: Iterable[Digest]) -> None:
        delete(connection, digests)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, HARD_FILE_SIZE))

    monkeypatch.setattr(rows, "delete", delete_the_last_that_is_written)


def refuse_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_WRITE"
        raise error

    monkeypatch.setattr(rows, "delete", refused)


def may_write(root: Path) -> bool:
    """Once nobody does who looks whether files and rows are in step, for a second at most."""
    with closing(sqlite3.connect(newest(root), timeout=LONG)) as other:
        other.execute("BEGIN IMMEDIATE")
        return True


@pytest.mark.parametrize("refusal", [refuse_the_commit, refuse_a_statement])
def test_a_process_that_opens_the_store_takes_nothing_of_a_removal_that_is_being_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Callable[[pytest.MonkeyPatch], None]
):
    """Neither files for leftovers nor their rows for rows without a file. The opening goes on, whatever becomes of the removal."""
    opened: list[object] = []
    with Store(tmp_path / "store") as store:
        old = store.put(b"old", label="the old one")
        store.put_index(old, 1, b"index")
        store.aliases.add([Alias("build-id", "1", old)])
        before = files(store.root), store.records()
        refusal(monkeypatch)
        beside_the_next_undoing(
            monkeypatch, lambda: opened.extend([may_write(store.root), opened_by_another_process(store.root)])
        )
        with pytest.raises(StoreUnavailable, match="disk"):
            store.remove(old)
        assert opened == [True, "0 0 1"]
        assert (files(store.root), store.records()) == before
        assert (store.data(old), store.index(old, 1)) == (b"old", b"index")
        assert store.aliases.resolve("build-id", "1") is not None
        store.remove(old)
        assert (files(store.root), store.records()) == (set(), [])


def test_a_removal_waits_for_one_that_is_being_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What has been removed does not come back."""
    removals: list[threading.Thread] = []

    def begin_another() -> None:
        removals.append(threading.Thread(target=store.remove, args=[old]))
        removals[0].start()
        removals[0].join(0.3)  # where it did not wait it would be done

    with Store(tmp_path / "store") as store:
        old = store.put(b"old")
        refuse_a_statement(monkeypatch)
        beside_the_next_undoing(monkeypatch, begin_another)
        with pytest.raises(StoreUnavailable, match="disk"):
            store.remove(old)
        removals[0].join()
        assert (files(store.root), store.records()) == (set(), [])


def test_behind_a_process_that_stands_still_while_it_undoes_a_removal_others_go_on_and_mend_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("symd.store.removed_files._MENDING_SECONDS", 0.05)
    monkeypatch.setattr("symd.store.removed_files._REMOVAL_SECONDS", 0.05)
    with Store(tmp_path / "store") as store:
        lost, kept = store.put(b"lost"), store.put(b"kept")
        incoming = StorePaths(store.root).incoming
    leftover = StorePaths(store.root).module(lost).rename(incoming / incoming_name())
    held = os.open(incoming, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with Store(store.root) as other:
        assert (other.recovery.leftovers, other.recovery.dropped, len(other.records())) == (0, 0, 2)
        assert [finding.kind for finding in inspect(store.root).findings] == []
        new = other.put(b"new")
        with pytest.raises(StoreUnavailable, match="not put back"):
            other.remove(kept)
        assert (other.data(kept), other.data(new), leftover.exists()) == (b"kept", b"new", True)
        os.close(held)
        end = time.monotonic() + LONG
        while (leftover.exists() or len(other.records()) > 2) and time.monotonic() < end:
            time.sleep(0.05)
        assert {record.sha256 for record in other.records()} == {kept, new}
        assert not leftover.exists()
        other.remove(kept)


def test_a_store_without_indexes_is_tidied_on_a_disk_that_is_nearly_full(tmp_path: Path):
    """One transaction that removes them all has no room for its log."""
    disk = tmp_path / "disk"
    with small_disk(disk, 12 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with Store(disk / "store") as store:
            for _ in range(1200):
                store.put(os.urandom(4000), label="x" * 200)
        (disk / "fill").write_bytes(bytes(shutil.disk_usage(disk).free - (320 << 10)))
        with Store(disk / "store", Limits(store_size=400_000)) as store:
            assert len(store.collect(1).modules) == 1100
            assert len(store.records(limit=2000)) == len(files(store.root)) == 100


def test_a_removal_on_a_full_disk_is_done_or_not_done_at_all(small_disk: Path):
    root = small_disk / "store"
    with Store(root) as store:
        digests = [store.put(b"%d" % number, label="x" * 200) for number in range(20)]
        mapped = [store.data(digest) for digest in digests]
        filled = fill(small_disk)
        with store._catalogue.reading_at_once() as reader:  # the log of writes cannot be written over
            reader.execute("SELECT count(*) FROM modules").fetchone()
            refused = set(filter(lambda digest: is_refused(partial(store.remove, digest)), digests))
        assert refused
        assert set(store.missing(digests)) == set(digests) - refused
        assert {Path(name).name for name in files(root) if name != "fill"} == refused
        filled.unlink()
        for digest in refused:
            store.remove(digest)
        assert (store.records(), files(root)) == ([], set())
        assert len(mapped) == len(digests)


def test_a_full_disk_is_emptied_by_removals(small_disk: Path):
    with Store(small_disk / "store") as store:
        digests = [store.put(os.urandom(100_000)) for _ in range(8)]
        fill(small_disk)
        with store._catalogue.reading():  # a connection that stays open: the log of writes is not removed
            for digest in digests:
                store.remove(digest)
        assert store.records() == []


def is_refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except StoreUnavailable:
        return True
    return False


def test_what_eviction_at_a_start_would_have_removed_stays_where_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(tmp_path / "store") as store:
        store.put(bytes(3000))
        before = files(store.root), store.records()
    with Store(tmp_path / "store", Limits(store_size=10)) as store:
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.collect(1)
        assert (files(store.root), store.records()) == before


def test_an_eviction_that_is_refused_when_some_went_says_so_and_gives_their_room_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(tmp_path / "store") as store:
        for number in range(20):
            store.put(b"%d" % number * 1000, label="x" * 200)
    delete, compacted = rows.delete, []

    def delete_eight(connection: sqlite3.Connection, digests: list[Digest]) -> None:
        if len(store.records()) < 20:
            refuse()
        delete(connection, digests)

    with Store(tmp_path / "store", Limits(store_size=10)) as store:
        monkeypatch.setattr("symd.store.rows.delete", delete_eight)
        monkeypatch.setattr(store._catalogue, "compact", lambda: compacted.append(True))
        with pytest.raises(
            StoreUnavailable, match=r"disk is full; removed before: 8 modules and 0 indexes of older"
        ) as caught:
            store.collect(1)
        assert (caught.value.metadata["removed_modules"], len(store.records()), compacted) == ("8", 12, [True])


def test_the_indexes_of_what_is_collected_are_room_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also where the eviction is refused then: they are made again."""
    with Store(tmp_path / "store") as store:
        old = store.put(bytes(3000))
        store.put_index(old, 1, bytes(1000))
    with Store(tmp_path / "store", Limits(store_size=10)) as store:
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.collect(1)
        assert (store.data(old), store.index(old, 1)) == (bytes(3000), None)
        assert files(store.root) == {f"modules/{old[:2]}/{old}"}
        end = time.monotonic() + LONG
        while store.figures().index_bytes and time.monotonic() < end:
            time.sleep(0.05)
        assert store.figures().index_bytes == 0


def test_rows_of_files_that_went_before_a_transaction_was_refused_go_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store(tmp_path / "store") as store:
        old = store.put(b"old")
        put_back = RemovedFiles._put_back_once

        def lose(removed: RemovedFiles) -> None:
            """While the lock is held, for which whoever brings files and rows in step waits."""
            put_back(removed)
            StorePaths(store.root).module(old).unlink(missing_ok=True)

        monkeypatch.setattr(RemovedFiles, "_put_back_once", lose)
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        with pytest.raises(StoreUnavailable, match="disk is full"):
            store.remove(old)
        monkeypatch.undo()
        end = time.monotonic() + LONG
        while store.records() and time.monotonic() < end:
            time.sleep(0.05)
        assert store.records() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_named(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreUnavailable, match="can be written"):
        Store(tmp_path / "store")
    tmp_path.chmod(0o700)


def test_a_store_below_a_file_is_refused_with_its_place(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="file"):
        Store(tmp_path / "file" / "store")
