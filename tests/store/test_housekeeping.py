"""What is done for an open store now and then: what fails is told once."""

import threading
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import housekeeping
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
    tell_others = housekeeping.Housekeeping._tell_changes

    def refuse(of: housekeeping.Housekeeping) -> None:
        if of._paths.root != root:
            return tell_others(of)
        refusals.append(None)
        if len(refusals) == 5:
            enough.set()
        raise StoreUnavailable("the disk refused")

    monkeypatch.setattr(housekeeping, "PERIOD", 0.001)
    monkeypatch.setattr(housekeeping.Housekeeping, "_tell_changes", refuse)
    store = open_store()
    assert enough.wait(LONG)
    store.close()
    assert [each.getMessage() for each in caplog.records] == ["reading what others changed: the disk refused"]
