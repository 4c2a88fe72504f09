"""A machine on which no folder for temporary files can be written, as in a container with a file system that is read-only."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.capture.run_folder import make_run_folder
from symd.child import folders
from symd.child.process import ProcessLimits
from symd.child.tool import run_tool
from symd.config import Limits
from symd.errors import StoreUnavailable, ToolFailed
from symd.private_files import temporary_place
from symd.store.store import Store

SAID = "no folder for temporary files can be written (set TMPDIR to a folder that you may write in, such as /dev/shm)"
LIMITS = ProcessLimits(60.0, 1 << 32, 1 << 20)


def _run() -> object:
    return run_tool(["/bin/true"], LIMITS)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("asked", [temporary_place, lambda: Store.temporary(Limits()), make_run_folder, _run])
def test_what_needs_one_says_what_to_set(asked: Callable[[], object]) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        asked()
    assert str(caught.value) == SAID


@pytest.mark.usefixtures("nowhere")
def test_a_daemon_s_recovery_finds_nothing_left_there() -> None:
    assert folders.sweep() == 0


def test_a_tool_for_which_its_folder_has_no_room_is_an_error_of_that_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(ToolFailed) as caught:
        _run()
    assert str(caught.value) == "true: it cannot be started: no space left on device"
