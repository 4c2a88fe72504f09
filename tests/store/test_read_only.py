"""A store that may only be read is opened and answers; what would write is refused by name, until it may be written again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store
from symd.store.maintenance import copy
from tests.read_only_mount import make_writable, read_only_mount
from tests.small_disk import small_disk

REPOSITORY = Path(__file__).parents[2]
LONG = 30.0
UNPRIVILEGED = """
import os, sys, time
from pathlib import Path
from symd.errors import StoreUnavailable
from symd.store import Store

os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
root = Path(sys.argv[1]) / "store"
with Store(root) as store:
    old = store.put(b"old")
root.chmod(0o500)
with Store(root) as store:
    assert store.data(old) == b"old"
    assert [record.sha256 for record in store.records()] == [old]
    store.writability.check()
    assert not store.writability.is_writable
    try:
        store.put(b"new")
    except StoreUnavailable as error:
        assert "folder can be written" in error.hint, error
    else:
        raise AssertionError("it was taken")
    root.chmod(0o700)
    end = time.monotonic() + 30
    while not store.writability.is_writable and time.monotonic() < end:
        time.sleep(0.02)
    store.put(b"new")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def read_only(root: Path, tmp_path: Path) -> Iterator[Path]:
    """A store with one module, as it is mounted elsewhere. Needs the right to mount."""
    with Store(root) as store:
        store.put_index(store.put(b"old"), 1, b"index")
    place = tmp_path / "read-only"
    with read_only_mount(root, place) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        yield place


def assert_is_read_and_not_written(store: Store) -> None:
    (old,) = [record.sha256 for record in store.records()]
    assert (store.missing([old]), store.data(old), store.index(old, 1)) == ([], b"old", b"index")
    for write in (lambda: store.put(b"new"), lambda: store.remove(old), lambda: store.relabel(old, "label")):
        with pytest.raises(StoreUnavailable, match="read-only file system"):
            write()
    store.writability.check()
    assert not store.writability.is_writable


def wait_until_writable(store: Store) -> None:
    end = time.monotonic() + LONG
    while not store.writability.is_writable and time.monotonic() < end:
        time.sleep(0.02)
    assert store.writability.is_writable


def test_what_may_only_be_read_is_read_and_takes_modules_once_it_may_be_written(read_only: Path) -> None:
    with Store(read_only) as store:
        assert_is_read_and_not_written(store)
        make_writable(read_only)
        wait_until_writable(store)
        new = store.put(b"new")
        assert new in {record.sha256 for record in store.records()}


def test_what_an_upload_left_stays_and_hinders_nobody(root: Path, read_only: Path) -> None:
    left = root / "incoming" / "incoming-0123456789abcdef"
    left.write_bytes(b"left")
    with Store(read_only) as store:
        assert store.recovery.leftovers == 0
        assert_is_read_and_not_written(store)
    assert left.exists()


def test_a_backup_without_the_folders_that_need_none_is_read(root: Path, read_only: Path) -> None:
    (root / "incoming").rmdir()
    (root / "catalogue.lock").unlink()
    with Store(read_only) as store:
        assert_is_read_and_not_written(store)
        make_writable(read_only)
        wait_until_writable(store)
        assert (root / "incoming").is_dir()
        assert store.put(b"new")


def test_of_a_store_that_another_daemon_writes_what_is_not_in_its_file_yet_is_read_too(
    root: Path, read_only: Path
) -> None:
    """SQLite keeps the last writes in a file beside the catalogue."""
    with Store(root) as other, Store(read_only) as before:
        new = other.put(b"new")
        assert new not in {record.sha256 for record in before.records()}
        with Store(read_only) as store:
            assert store.data(new) == b"new"


def test_what_may_only_be_read_is_copied(root: Path, read_only: Path, tmp_path: Path) -> None:
    assert copy(read_only, tmp_path / "copy").modules == 1
    assert (tmp_path / "copy" / "catalogue.sqlite").stat().st_mode & 0o777 == 0o600
    with Store(root) as other:
        new = other.put(b"new")
        assert copy(read_only, tmp_path / "another").modules == 2
    with Store(tmp_path / "another") as copied:
        assert copied.data(new) == b"new"


def test_a_copy_that_has_no_room_names_its_own_disk(read_only: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 64 << 10) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with pytest.raises(StoreUnavailable, match="no space left") as raised:
            copy(read_only, tmp_path / "small" / "copy")
    assert raised.value.where.startswith(str(tmp_path / "small" / "copy"))


def test_without_the_right_to_mount_it_is_tried_with_what_the_system_says(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(root) as store:
        store.put_index(store.put(b"old"), 1, b"index")
    opened = os.open

    def refusing(path: object, flags: int, *mode: int, **more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and Path(str(path)).is_relative_to(root):
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *mode, **more)

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr("symd.store.catalogue.may_write", lambda _path: False)
    with Store(root, durable=False) as store:
        assert_is_read_and_not_written(store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_without_the_right_to_write_is_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        command = [sys.executable, "-c", UNPRIVILEGED, folder]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LONG, check=False)
        assert done.returncode == 0, done.stderr
