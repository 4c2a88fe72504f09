"""A disk that refuses: one clear error, and the store as it was."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import DataLoss, StoreUnavailable
from symd.store import Store
from tests.small_disk import small_disk

LIMITED = """
import resource, sys
from pathlib import Path
from symd.errors import DataLoss, StoreUnavailable
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
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.parent != root}


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
    assert (done.stdout.strip(), done.stderr) == (outcome, "")
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


def test_a_catalogue_without_room_takes_its_file_back(small_disk: Path):
    root = small_disk / "store"
    refused = 0
    with Store(root, Limits(label_length=4000)) as store:
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


def test_a_copy_that_is_damaged_is_not_made_anew(small_disk: Path):
    root = small_disk / "store"
    with Store(root) as store:
        store.put(b"old")
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("UPDATE modules SET sha256 = 'nothing'")
        connection.commit()
    kept = (root / "catalogue.sqlite").read_bytes()
    fill(small_disk)
    with pytest.raises(DataLoss, match="damaged"):
        Store(root)
    assert (root / "catalogue.sqlite").read_bytes() == kept


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
