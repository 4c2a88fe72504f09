"""Source files are read below their root alone, whatever links and names say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symd.system import symlinks
from symd.system.symlinks import read_below

LARGEST = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "root" / "deep" / "er" / "k.cl").write_bytes(b"source")
    (tmp_path / "root" / "k.cl").write_bytes(b"shallow")
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "root"


def read(root: Path, *parts: str) -> bytes | None:
    return read_below(str(root), os.path.join(root, *parts), LARGEST)  # noqa: PTH118 - keeps ".." and links as they are


def test_a_file_below_the_root_is_read(root: Path) -> None:
    assert read(root, "k.cl") == b"shallow"
    assert read(root, "deep", "er", "k.cl") == b"source"
    assert read(root, "deep", "..", "k.cl") == b"shallow"


def test_the_root_may_be_a_link_and_links_inside_it_are_followed(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    (root / "again").symlink_to("deep/er")
    assert read(link, "again", "k.cl") == b"source"


@pytest.mark.parametrize("parts", [("..", "secret"), ("deep", "..", "..", "secret"), ("/etc/passwd",), (".",), ("..",)])
def test_names_do_not_lead_out(root: Path, parts: tuple[str, ...]) -> None:
    assert read(root, *parts) is None


def test_links_do_not_lead_out(root: Path) -> None:
    (root / "file").symlink_to("../secret")
    (root / "absolute").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to("..")
    (root / "deep" / "twice").symlink_to("../folder")
    for parts in (("file",), ("absolute",), ("folder", "secret"), ("deep", "twice", "secret")):
        assert read(root, *parts) is None


def test_hidden_files_and_folders_hold_no_sources(root: Path) -> None:
    """Tokens are in them, and the names come from modules and links that others made. A root that is named inside of one holds sources."""
    (root / "deep" / ".env").write_bytes(b"secret")
    (root / ".folder").mkdir()
    (root / ".folder" / "k.cl").write_bytes(b"source")
    (root / "file.h").symlink_to("deep/.env")
    (root / "other.h").symlink_to(".folder/k.cl")
    assert read(root, "file.h") is None
    (root / "linked").symlink_to(".folder")
    assert read(root, "other.h") is read(root, ".folder", "k.cl") is read(root, "linked", "k.cl") is None
    assert read(root / ".folder", "k.cl") == b"source"


def test_a_link_that_is_put_there_while_it_reads_leads_nowhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is swapped between resolving the name and walking it."""
    opened = symlinks.opened_below

    def swapped(top: Path, path: Path) -> int:
        (root / "deep").rename(root / "was")
        (root / "deep").symlink_to(root.parent)
        (root.parent / "er").mkdir()
        (root.parent / "er" / "k.cl").write_bytes(b"secret")
        return opened(top, path)

    monkeypatch.setattr(symlinks, "opened_below", swapped)
    assert read(root, "deep", "er", "k.cl") is None


def test_only_regular_files_are_read_and_nothing_waits(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert read(root, "pipe") is None
    assert read(root, "deep") is None
    assert read_below("/dev", "/dev/zero", LARGEST) is None


def test_large_and_missing_and_forbidden_files_are_none(root: Path) -> None:
    (root / "large").write_bytes(bytes(LARGEST + 1))
    (root / "fits").write_bytes(bytes(LARGEST))
    (root / "round").symlink_to("round")
    assert read(root, "large") is None
    assert read(root, "fits") == bytes(LARGEST)
    for name in ("missing", "round", "k.cl/below", "a" * 5000, "nul\0"):
        assert read(root, name) is None
    assert read_below(str(root / "nowhere"), str(root / "nowhere" / "k.cl"), LARGEST) is None
