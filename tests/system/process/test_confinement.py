"""What a confined Python process may read: also packages that are links, as Nix and other installers lay them out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from symd.system.process import confinement


def test_packages_that_are_links_are_readable_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, folder = tmp_path / "elsewhere" / "package", tmp_path / "site-packages"
    elsewhere.mkdir(parents=True)
    folder.mkdir()
    (folder / "own").mkdir()
    (folder / "package").symlink_to(elsewhere)
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path / "gone" / "site-packages")])
    allowed = [path for path, _ in confinement.interpreter()]
    assert str(elsewhere) in allowed
    assert str(folder / "own") not in allowed
    assert str(elsewhere.parent) not in allowed
