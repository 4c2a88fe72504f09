"""A disk that refuses: one clear error, and the store as it was."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import ModuleNotFound, StoreUnavailable
from symd.store import Store, budgets
from symd.store.catalogue import Catalogue
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
    assert (root / "catalogue.sqlite").read_bytes() == damaged
    filled.unlink()
    with Store(root) as store:
        assert store.data(old) == b"old"
    assert "of which there was no copy" in caplog.text


@pytest.mark.parametrize("begin", ["reading", "reading_at_once"])
def test_an_error_of_the_disk_while_something_is_read_is_no_damage(tmp_path: Path, begin: str):
    """SQLite has ended the transaction then, which no COMMIT can."""
    catalogue = Catalogue(tmp_path / "catalogue.sqlite")
    with pytest.raises(StoreUnavailable), getattr(catalogue, begin)() as connection:
        without_room_to_sort(connection)
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


def refuse(*_arguments: object) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    raise error


def test_a_removal_that_the_catalogue_refuses_may_be_made_again(root: Path, monkeypatch: pytest.MonkeyPatch):
    """Its files are gone then, and it is missing, for this process and for the next."""
    with Store(root) as store:
        old, older = store.put(b"old"), store.put(b"older")
        monkeypatch.setattr("symd.store.rows.delete", refuse)
        for digest in (old, older):
            with pytest.raises(StoreUnavailable, match="disk is full"):
                store.remove(digest)
        monkeypatch.undo()
        assert store.missing([old]) == [old]
        with pytest.raises(ModuleNotFound):
            store.data(old)
        store.remove(old)
        assert [record.sha256 for record in store.records()] == [older]
    with Store(root) as store:
        assert (store.recovery.dropped, store.records(), files(root)) == (1, [], set())


def test_a_store_without_indexes_is_tidied_on_a_disk_that_is_nearly_full(tmp_path: Path):
    """What goes is room for the log of the transaction."""
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


def test_a_full_disk_is_emptied_by_removals(small_disk: Path):
    with Store(small_disk / "store") as store:
        digests = [store.put(os.urandom(100_000)) for _ in range(8)]
        fill(small_disk)
        with store._catalogue.reading():  # a connection that stays open: the log of writes is not removed
            for digest in digests:
                store.remove(digest)
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
