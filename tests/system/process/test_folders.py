"""Folders of children: gone with their child, swept when nobody is left who would remove them, never before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from symd.system.private_files import child_folder, sweep

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from symd.system.private_files import child_folder
with child_folder("driver") as folder:
    (folder / "input").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_folder_is_there_for_its_child_alone(temporary: Path) -> None:
    with child_folder("driver") as folder:
        assert folder.parent == temporary
        assert (folder.stat().st_mode & 0o777, list(folder.iterdir())) == (0o700, [])
        (folder / "made").mkdir()
        (folder / "made" / "file").write_text("x")
    assert not list(temporary.iterdir())


def test_what_a_killed_process_left_is_swept_and_nothing_else(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        with child_folder("tool") as mine:
            assert sweep() == 0, "both are held"
            holder.kill()
            assert holder.wait() == -signal.SIGKILL
            assert left.exists()
            (temporary / "symd-driver-the_file").touch()
            (temporary / "symd-driver-the_link").symlink_to(mine)
            others = {"another", "symd-tool-notes", "symd-driver-my-notes", "symd-daemon-mine"}
            for each in others:
                (temporary / each).mkdir()
            assert sweep() == 1
            assert {path.name for path in temporary.iterdir()} == {
                mine.name, "symd-driver-the_file", "symd-driver-the_link", *others,
            }  # fmt: skip
            assert mine.exists()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may sweep between any two calls of the one that makes a folder."""
    swept = []
    make, stat = tempfile.mkdtemp, Path.stat

    def sweep_once(call: str) -> None:
        if call not in swept:
            swept.append(call)
            assert sweep() == 1

    def made(**options: str) -> str:
        path = make(**options)
        sweep_once("mkdtemp")
        return path

    def asked(path: Path, **options: bool) -> os.stat_result:
        status = stat(path, **options)
        if path.name.startswith("symd-tool-") and not options:  # not the sweep's own
            sweep_once("stat")
        return status

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    monkeypatch.setattr(Path, "stat", asked)
    with child_folder("tool") as folder:
        assert swept == ["mkdtemp", "stat"]
        assert folder.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_is_his(temporary: Path) -> None:
    other = temporary / "symd-driver-of_other"
    other.mkdir()
    os.chown(other, 65534, 65534)
    assert sweep() == 0
    assert other.exists()


def test_however_deep_and_unreadable_it_is_removed(temporary: Path) -> None:
    with child_folder("driver") as folder:
        before = os.open(".", os.O_RDONLY)
        try:
            os.chdir(folder)
            for _ in range(3000):
                Path("d").mkdir()
                Path("file").touch()
                os.chdir("d")
            Path("closed").mkdir()
            Path("closed/file").touch()
            Path("closed").chmod(0)
        finally:
            os.fchdir(before)
            os.close(before)
    assert not list(temporary.iterdir())
