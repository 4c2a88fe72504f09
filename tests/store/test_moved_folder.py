"""A store's folder that is moved away, removed or replaced while it is used: nothing is taken in that would be lost, and it goes on when the
folder is back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.model.contexts import Alias
from symd.store import Store, rows
from symd.store.catalogue import newest
from symd.store.folder import StorePaths
from symd.store.recovery import replace_catalogue

LONG = 30.0


def away_of(root: Path) -> Path:
    return root.with_name("away")


def moved(root: Path) -> None:
    root.rename(away_of(root))


def replaced_by_nothing(root: Path) -> None:
    moved(root)
    root.mkdir(mode=0o700)


def replaced_by_a_backup(root: Path) -> None:
    moved(root)
    shutil.copytree(away_of(root), root, ignore=shutil.ignore_patterns("incoming-*"))


def put_back(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    away_of(root).rename(root)


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")} if root.exists() else set()


ACCIDENTS = pytest.mark.parametrize("accident", [moved, replaced_by_nothing, replaced_by_a_backup])


@ACCIDENTS
def test_a_folder_that_is_away_refuses_writes_by_name_and_takes_them_when_it_is_back(
    root: Path, accident: Callable[[Path], None]
) -> None:
    with Store(root, durable=False) as store:
        old = store.put(b"old")
        store.put_index(old, 1, b"index")
        mapped = store.data(old)
        with store.writer() as begun:
            begun.write(b"begun before")
            accident(root)
            before = files(root)
            with pytest.raises(StoreUnavailable, match="the store's folder was"):
                begun.commit()
        for write in (
            lambda: store.put(b"new"),
            lambda: store.put_index(old, 2, b"another"),
            lambda: store.relabel(old, "label"),
            lambda: store.remove(old),
            lambda: store.aliases.add([Alias("build-id", "1", old)]),
        ):
            with pytest.raises(StoreUnavailable, match=r"the store's folder was .*\(put it back, or restart") as raised:
                write()
            assert raised.value.where == str(root)
        assert (bytes(mapped), files(root)) == (b"old", before)
        store.writability.check()
        assert not store.writability.is_writable
        put_back(root)
        store.writability.check()
        assert store.writability.is_writable
        new = store.put(b"new")
    with Store(root) as store:
        assert {record.sha256 for record in store.records()} == {old, new}
        assert [store.data(digest) for digest in (old, new)] == [b"old", b"new"]


def test_a_folder_that_was_removed_is_not_taken_for_a_new_one(root: Path) -> None:
    """Which often has the number of the old one: files and folders that are gone give theirs away."""
    with Store(root, durable=False) as store:
        digest = store.put(b"old")
        shutil.rmtree(root)
        with pytest.raises(StoreUnavailable, match="moved away or removed"):
            store.put(b"new")
        StorePaths(root).create(durable=False)
        with pytest.raises(StoreUnavailable, match="replaced by another"):
            store.put(b"new")
        with pytest.raises(StoreUnavailable, match="replaced by another"):
            store.data(digest)
        with pytest.raises(StoreUnavailable, match="replaced by another"):
            store.missing([digest])


def test_a_catalogue_that_is_replaced_by_hand_is_named(root: Path) -> None:
    with Store(root, durable=False) as store:
        old = store.put(b"old")
        catalogue = root / "catalogue.sqlite"
        catalogue.rename(root / "kept")
        shutil.copyfile(root / "kept", catalogue)
        with pytest.raises(StoreUnavailable, match="the store's catalogue was replaced"):
            store.put(b"new")
        (root / "kept").replace(catalogue)
        new = store.put(b"new")
        assert {record.sha256 for record in store.records()} == {old, new}


def test_no_connection_is_made_to_another_catalogue(root: Path) -> None:
    with Store(root, durable=False) as store, store._catalogue.reading():  # which is the only one that is open
        store.put(b"old")
        with store._catalogue.reading():
            replaced_by_a_backup(root)
            with pytest.raises(StoreUnavailable, match="replaced by another"), store._catalogue.reading():
                pass
            put_back(root)
        with store._catalogue.reading() as connection:
            assert connection.execute("SELECT count(*) FROM modules").fetchone() == (1,)


@pytest.mark.parametrize("step", ["insert", "COMMIT"])
def test_a_folder_that_goes_in_the_middle_of_a_write_loses_nothing_that_was_acknowledged(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with Store(root) as store:
        old = store.put(b"old")
        insert, check, checks = rows.insert, store._catalogue.check_in_place, []

        def going(connection: object, record: object) -> None:
            insert(connection, record)
            if step == "insert":
                replaced_by_a_backup(root)
            checks.append(0)

        def checked() -> None:
            if checks and step == "COMMIT":
                checks.append(0)
                if len(checks) == 3:  # the first comes before the COMMIT, this one after it
                    checks.clear()
                    replaced_by_a_backup(root)
            check()

        monkeypatch.setattr("symd.store.rows.insert", going)
        monkeypatch.setattr(store._catalogue, "check_in_place", checked)
        with pytest.raises(StoreUnavailable, match="replaced by another"):
            store.put(b"new")
        monkeypatch.undo()
        assert becomes(store, writable=False)
        put_back(root)
        assert becomes(store, writable=True)
        assert store.data(old) == b"old"
        for record in store.records():
            assert bytes(store.data(record.sha256))
        new = store.put(b"new")
        assert {record.sha256 for record in store.records()} == {old, new}


def becomes(store: Store, *, writable: bool) -> bool:
    end = time.monotonic() + LONG
    while store.writability.is_writable is not writable and time.monotonic() < end:
        time.sleep(0.02)
    return store.writability.is_writable is writable


def wait_for_looks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until housekeeping has come around twice."""
    looks, check, end = [], store.writability.check, time.monotonic() + LONG
    monkeypatch.setattr(store.writability, "check", lambda: (looks.append(0), check()))
    while len(looks) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(looks) >= 3


@ACCIDENTS
def test_a_folder_that_is_back_is_brought_in_step_by_itself(root: Path, accident: Callable[[Path], None]) -> None:
    with Store(root) as store:
        kept, lost = store.put(b"kept"), store.put(b"lost")
        accident(root)
        assert becomes(store, writable=False)
        (away_of(root) / "modules" / lost[:2] / lost).unlink()
        put_back(root)
        assert becomes(store, writable=True)
        end = time.monotonic() + LONG
        while len(store.records()) > 1 and time.monotonic() < end:
            time.sleep(0.02)
        assert [record.sha256 for record in store.records()] == [kept]


def test_what_is_put_in_the_folders_place_is_left_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its catalogue looks damaged, and was replaced."""
    with Store(root) as store:
        store.put(b"old")
        moved(root)
        StorePaths(root).create(durable=False)
        (root / "catalogue.sqlite").write_bytes(b"no database")
        (root / "catalogue-2.sqlite").write_bytes(b"nor this")
        before = files(root)
        assert becomes(store, writable=False)
        assert [len(store.records())] == [1]
        store._catalogue.damaged = root / "catalogue.sqlite"  # as who met wrong bytes there says
        store._catalogue.renew()
        wait_for_looks(store, monkeypatch)
        assert files(root) == before
        put_back(root)
        assert becomes(store, writable=True)
        assert store.put(b"new")


def test_who_did_not_see_a_catalogue_that_was_replaced_twice_turns_to_the_newest(root: Path) -> None:
    with Store(root, durable=False) as store:
        old = store.put(b"old")
        for _ in range(2):
            replace_catalogue(StorePaths(root), newest(root), "test", durable=False)
        new = store.put(b"new")
        assert store._catalogue.path == root / "catalogue-3.sqlite"
    with Store(root) as store:
        assert {record.sha256 for record in store.records()} == {old, new}
