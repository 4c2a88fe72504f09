"""What is done for an open store now and then: what fails is told once."""

import hashlib
import threading
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store, housekeeping, recovery
from tests.store.conftest import Opened

LONG = 60
"""Seconds after which a test gives up."""


def test_uses_that_cannot_be_noted_at_the_end_are_told(
    open_store: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("the catalogue refused")

    monkeypatch.setattr(store.usage, "write", refuse)
    store.close()
    assert [each.getMessage() for each in caplog.records] == ["noting when modules were used: the catalogue refused"]


def test_what_fails_again_and_again_is_told_once_while_other_work_succeeds(
    root: Path, open_store: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a folder, whose housekeeping does much. Another store of this process, of a fixture that lives longer, is not refused."""
    refusals = []
    enough = threading.Event()
    recover_others = housekeeping.Housekeeping._recover

    def refuse(of: housekeeping.Housekeeping) -> None:
        if of._paths.root != root:
            return recover_others(of)
        refusals.append(None)
        if len(refusals) == 5:
            enough.set()
        raise StoreUnavailable("the disk refused")

    monkeypatch.setattr(housekeeping, "PERIOD", 0.001)
    monkeypatch.setattr(housekeeping, "RECOVERY_PERIOD", 0.0)
    monkeypatch.setattr(housekeeping.Housekeeping, "_recover", refuse)
    store = open_store()
    assert enough.wait(LONG)
    store.close()
    assert [each.getMessage() for each in caplog.records] == ["bringing files and rows in step: the disk refused"]


def test_the_end_leaves_files_that_wait_to_be_hashed_to_the_next_start(
    root: Path, open_store: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To hash them may take hours."""
    monkeypatch.setattr(housekeeping, "PERIOD", 0.001)
    store = open_store()
    assert isinstance(store, Store)
    digests = {_laid(root, store, b"module %d" % number) for number in range(5)}
    begun, hashed, real = threading.Event(), [], recovery.sha256_of

    def hash_until_the_end(path: Path) -> str:
        begun.set()
        assert store._housekeeping._ended.wait(LONG)
        hashed.append(path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "sha256_of", hash_until_the_end)
        store._catalogue.is_recovered = False
        assert begun.wait(LONG)
        store.close()
        assert len(hashed) == 1
    assert not store._catalogue.is_recovered
    assert open_store().missing(sorted(digests)) == []


def _laid(root: Path, store: Store, data: bytes) -> str:
    """Put a module's file there without a row; its digest."""
    digest = hashlib.sha256(data).hexdigest()
    path = store._paths.module(digest)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return digest
