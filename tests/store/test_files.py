"""Turns, and the sweep that removes what dead holders left."""

from __future__ import annotations

import fcntl
from contextlib import ExitStack
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store.files import sweep, turn


def is_held(folder: Path, name: str) -> bool:
    try:
        with turn(folder, name, 0.0, StoreUnavailable):
            return False
    except StoreUnavailable:
        return True


def test_a_sweep_leaves_a_turn_that_began_after_the_sweep_had_opened_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = ExitStack(), ExitStack()
    before.enter_context(turn(tmp_path, "index"))
    real = fcntl.flock

    def hand_over(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        before.close()
        after.enter_context(turn(tmp_path, "index"))
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", hand_over)
    assert sweep(tmp_path) == 0
    with after:
        assert is_held(tmp_path, "index")
    assert not is_held(tmp_path, "index")
    assert not list(tmp_path.iterdir())


def test_what_a_dead_holder_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / "incoming-index").touch()
    assert sweep(tmp_path) == 1
    assert not list(tmp_path.iterdir())
