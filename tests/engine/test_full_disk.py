"""An upload on a full disk: taken whole, or the store is as it was."""

import os
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import StoreUnavailable, SymdError
from symd.store import Store
from symd.store.catalogued import ModuleStore
from tests.small_disk import small_disk

DATA = (Path(__file__).parents[2] / "samples" / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()


def fill_but(disk: Path, free: int) -> None:
    """Leave so many bytes of the disk."""
    (disk / "fill").unlink(missing_ok=True)
    status = os.statvfs(disk)
    with (disk / "fill").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - free))


def files(root: Path) -> list[str]:
    folders = (root / name for name in ("modules", "index", "incoming"))
    return [path.name for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_an_upload_that_a_full_disk_refuses_leaves_nothing_wherever_it_is_refused(tmp_path: Path):
    disk, refused = tmp_path / "disk", 0
    with small_disk(disk, 16 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with Store(disk / "store") as store:
            engine = Engine(store, Limits())
            engine.remove(engine.add(DATA).sha256)  # what is made once is there
            for pages in range(0, 80, 2):
                fill_but(disk, pages << 12)
                try:
                    engine.remove(engine.add(DATA).sha256)
                except StoreUnavailable:
                    refused += 1
                digests = [record.sha256 for record in store.records()]  # a row may have found no room to go
                assert (store.missing(digests), files(store.root)) == (digests, []), f"{pages} pages were free"
            (disk / "fill").unlink()
        with Store(disk / "store") as store:
            assert (store.records(), files(store.root)) == ([], [])
    assert 0 < refused < 40


@pytest.mark.parametrize("admitting", [True, False])
def test_an_upload_whose_last_write_is_refused_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admitting: bool
):
    def refuse(*_arguments: object) -> None:
        raise StoreUnavailable("disk is full", where="catalogue", hint="free some space")

    with Store(tmp_path / "store") as store:
        engine = Engine(store, Limits())
        if admitting:
            monkeypatch.setattr(ModuleStore, "admit", refuse)
        else:
            monkeypatch.setattr("symd.store.rows.keep_index", refuse)
        with pytest.raises(SymdError, match="disk is full"):
            engine.add(DATA)
        assert (store.records(), files(store.root)) == ([], [])
