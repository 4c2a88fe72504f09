"""A store that may only be read is opened and answers; what would write is refused by name, until it may be written again."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store
from symd.store.maintenance import copy
from tests.read_only_mount import make_writable, read_only_mount
from tests.small_disk import small_disk

REPOSITORY = Path(__file__).parents[2]
NOT_ALLOWED = """
import os, sys
from pathlib import Path
from symd.errors import StoreUnavailable
from symd.store import Store
os.chown(sys.argv[1], 65534, 65534)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
root = Path(sys.argv[1]) / "store"
with Store(root) as store:
    old = store.put(b"old")
root.chmod(0o500)
with Store(root) as store:
    assert store.data(old) == b"old"
    assert not store.writability.is_writable
    try:
        store.put(b"new")
    except StoreUnavailable as error:
        assert "folder be written" in error.hint, error
    else:
        raise AssertionError("it was taken")
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
        with pytest.raises(StoreUnavailable, match=r"[Rr]ead-only"):
            write()
    assert not store.writability.is_writable


def test_what_may_only_be_read_is_answered_and_not_written(root: Path, read_only: Path) -> None:
    left = root / "incoming" / "incoming-0123456789abcdef"
    left.write_bytes(b"left")
    with Store(read_only) as store:
        assert_is_read_and_not_written(store)
    assert left.exists()
    make_writable(read_only)
    with Store(read_only) as store:
        assert store.data(store.put(b"new")) == b"new"


def test_a_backup_without_the_folders_that_need_none_is_read(root: Path, read_only: Path) -> None:
    (root / "incoming").rmdir()
    (root / "catalogue.lock").unlink()
    with Store(read_only) as store:
        assert_is_read_and_not_written(store)


def test_of_a_store_that_another_daemon_writes_what_is_not_in_its_file_yet_is_read_too(
    root: Path, read_only: Path
) -> None:
    """SQLite keeps the last writes in a file beside the catalogue."""
    with Store(root) as other:
        new = other.put(b"new")
        with Store(read_only) as store:
            assert store.data(new) == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_store_whose_user_may_not_write_is_answered() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's is for its own user alone
        command = [sys.executable, "-c", NOT_ALLOWED, folder]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_is_no_store_yet_and_cannot_be_made_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with read_only_mount(tmp_path / "empty", tmp_path / "place") as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with pytest.raises(StoreUnavailable, match=r"[Rr]ead-only"):
            Store(tmp_path / "place")


def test_a_full_disk_is_answered_from(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 1 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        root = tmp_path / "small" / "store"
        with Store(root) as store:
            old = store.put(b"old")
        with suppress(OSError), (tmp_path / "small" / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        with Store(root) as store:
            assert store.data(old) == b"old"
            with pytest.raises(StoreUnavailable):
                store.put(b"new")
            assert not store.writability.is_writable
        (tmp_path / "small" / "filler").unlink()
        with Store(root) as store:
            assert store.data(store.put(b"new")) == b"new"


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
