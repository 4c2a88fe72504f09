"""Turns, the sweep that removes what dead holders left, and folders for a while."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store.files import disk, sweep, turn
from symd.system.private_files import make_temporary_folder


def is_held(folder: Path, name: str) -> bool:
    try:
        with turn(folder, name, 0.0, lambda: StoreUnavailable("held")):
            return False
    except StoreUnavailable:
        return True


def test_a_sweep_leaves_a_turn_that_began_after_the_sweep_had_opened_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = ExitStack(), ExitStack()
    before.enter_context(turn(tmp_path, "index", 10.0, lambda: StoreUnavailable("held")))
    real = fcntl.flock

    def hand_over(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        before.close()
        after.enter_context(turn(tmp_path, "index", 10.0, lambda: StoreUnavailable("held")))
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


def test_what_stays_of_a_temporary_folder_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_temporary_folder(tmp_path, "x-")
    (folder.path / "file").touch()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", "file")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        folder.remove()
    assert (folder.path / "file").exists()
    make_temporary_folder(tmp_path, "x-").remove()
    assert not list(tmp_path.iterdir())


def test_a_signal_while_a_temporary_folder_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_handle: int, _operation: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_temporary_folder(tmp_path, "x-")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "limit"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max")])
def test_where_no_file_can_be_opened_any_more_the_limit_to_raise_is_named(
    number: int, limit: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailable) as caught, disk(tmp_path):
        raise OSError(number, os.strerror(number))
    assert limit in caught.value.hint
