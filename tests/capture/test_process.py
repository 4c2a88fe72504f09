"""Running processes, and the files that those of other users name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from symd.capture.process import opened_for
from tests.open_files import open_files


def test_without_a_further_descriptor_none_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver tries it again and again until there is one."""
    (tmp_path / "file").write_bytes(b"x")

    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "dup", refuse)
    before = open_files()
    for _ in range(3):
        with pytest.raises(OSError, match="Too many open files"):
            opened_for(os.geteuid(), str(tmp_path / "file"))
    assert open_files() <= before
