"""A store is copied while a daemon writes to it, and the copy is served in its place."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

import pytest

from symd import Client
from symd.errors import InvalidInput, StoreUnavailable
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Reason
from symd.model.contexts import Alias, Context
from symd.store import Store
from symd.store.maintenance import copy
from tests.daemon.processes import serving

SAMPLE = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"


def variant(number: int) -> bytes:
    """A module that differs from the others."""
    return SAMPLE.read_bytes() + bytes(8 * number)


def symd(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "symd", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_copy_made_beside_a_busy_daemon_is_served_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "restored").mkdir(mode=0o700)
    backup = tmp_path / "restored" / "store"
    over, acknowledged = threading.Event(), []

    def go_on_writing(client: Client) -> None:
        for number in count(100):
            if over.is_set():
                return
            digest = client.add(variant(number), f"late {number}").sha256
            if number % 3 == 0:
                client.remove(digest)

    with serving(tmp_path) as daemon, Client(daemon.address) as client:
        for number in range(5):
            digest = client.add(variant(number), f"label {number}").sha256
            client.aliases.add([Alias("build-id", f"{number}", digest)])
            acknowledged.append(digest)
        context = client.contexts.add(Context(process=7))
        writer = threading.Thread(target=go_on_writing, args=(client,))
        writer.start()
        copied = symd("store", "copy", "--store", daemon.store, backup)
        over.set()
        writer.join()
    assert (copied.returncode, copied.stderr) == (0, "")
    assert backup.stat().st_mode & 0o777 == 0o700
    checked = symd("store", "check", "--store", backup)
    assert (checked.returncode, checked.stdout.count("\n")) == (0, 1), checked.stdout
    with serving(tmp_path / "restored") as daemon, Client(daemon.address) as client:
        records = {record.sha256: record for record in client.modules()}
        assert [records[digest].label for digest in acknowledged] == [f"label {number}" for number in range(5)]
        assert [client.aliases.resolve("build-id", f"{number}").module for number in range(5)] == acknowledged
        assert client.contexts.get(context)
        for digest in records:
            assert client.symbolize_one(digest, ByAddress(ObjectAddress(0x40))).reason is Reason.EXACT


def test_a_damaged_module_is_left_out_by_name_and_nothing_is_overwritten(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, Client(daemon.address) as client:
        good, bad = (client.add(variant(number)).sha256 for number in range(2))
    store = tmp_path / "store"
    (store / "modules" / bad[:2] / bad).write_bytes(b"other bytes")
    copied = symd("store", "copy", "--store", store, tmp_path / "copy")
    assert copied.returncode == 1
    assert copied.stdout.startswith(f"modules/{bad} is damaged and was left out")
    assert f"\ncopied 1 module, {len(variant(0))} bytes; indexes were not copied" in copied.stdout
    assert (tmp_path / "copy" / "modules" / good[:2] / good).read_bytes() == variant(0)
    again = symd("store", "copy", "--store", store, tmp_path / "copy")
    assert (again.returncode, again.stdout) == (2, "")
    assert "there is something already" in again.stderr
    assert symd("store", "copy", "--store", tmp_path / "nowhere", tmp_path / "other").returncode == 2
    assert not (tmp_path / "other").exists()


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store:
        store.put(b"a module")
    with pytest.raises(InvalidInput, match="would lie in the store"):
        copy(tmp_path / "store", tmp_path / "store" / "copy")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("symd.store.maintenance.os.fsync", full)
    with pytest.raises(StoreUnavailable, match="no space left"):
        copy(tmp_path / "store", tmp_path / "copy")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert copy(tmp_path / "store", tmp_path / "copy").modules == 1
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("step", ["opened", "read"])
def test_a_module_that_the_disk_does_not_give_is_named_and_not_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with Store(tmp_path / "store") as store:
        digest = store.put(b"a module")
    path = tmp_path / "store" / "modules" / digest[:2] / digest

    def failing(*_arguments: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    if step == "opened":
        monkeypatch.setattr("symd.store.maintenance.open_file", failing)
    else:  # the system refuses to read what is open for writing alone
        monkeypatch.setattr("symd.store.maintenance.open_file", lambda each: os.open(each, os.O_WRONLY))
    with pytest.raises(StoreUnavailable) as raised:
        copy(tmp_path / "store", tmp_path / "copy")
    assert (raised.value.where, raised.value.metadata["file"]) == (str(path), str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with Store(root) as store:
        digest, other = store.put(b"module"), store.put(b"another")
        path = root / "modules" / digest[:2] / digest
        path.unlink()
        os.mkfifo(path)
        assert copy(root, tmp_path / "copy").modules == 1
    with Store(tmp_path / "copy") as copied:
        assert [record.sha256 for record in copied.records()] == [other]
