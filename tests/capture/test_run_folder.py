"""Folders of runs that were killed are removed by the next run, once nobody loads libraries from there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture.run_folder import RunFolder, make_run_folder, remove_abandoned


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield


def made(*, killed: bool) -> RunFolder:
    """A folder that is an hour old."""
    folder = make_run_folder()
    if killed:
        os.close(folder.lock)
    os.utime(folder.outer, (0, 0))
    return folder


def test_the_folder_of_a_killed_run_is_removed_and_that_of_a_living_one_is_not() -> None:
    killed, living = made(killed=True), made(killed=False)
    remove_abandoned()
    assert (killed.outer.exists(), living.outer.exists()) == (False, True)
    living.end()
    assert not living.outer.exists()


def test_one_that_is_about_to_be_locked_is_left() -> None:
    new = Path(tempfile.mkdtemp(prefix="symd-run-"))
    remove_abandoned()
    assert new.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_it_stays_while_a_process_has_it_in_its_environment(killed: bool) -> None:
    folder = made(killed=killed)
    environment = {"LD_PRELOAD": f"{folder.inner}/nothing.so"}
    with subprocess.Popen(["sleep", "100"], env=environment, stderr=subprocess.DEVNULL) as child:
        remove_abandoned() if killed else folder.end()
        assert folder.inner.exists()
        child.kill()
    os.utime(folder.outer, (0, 0))
    remove_abandoned()
    assert not folder.outer.exists()
