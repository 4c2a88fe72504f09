"""A store that may only be read is opened and answers; what would write is refused by name, until it may be written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store
from symd.store.maintenance import copy
from tests.read_only_mount import read_only_mount
from tests.small_disk import small_disk

REPOSITORY = Path(__file__).parents[2]
LONG = 30.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def read_only(root: Path, tmp_path: Path) -> Iterator[Path]:
    """A store with one module, as it is mounted elsewhere. Needs the right to mount."""
    with Store(root) as store:
        store.put_index(store.put(b"old"), 1, b"index")
    place = tmp_path / "read-only"
    with read_only_mount(root, place) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        yield place


def test_what_may_only_be_read_is_copied(root: Path, read_only: Path, tmp_path: Path) -> None:
    assert copy(read_only, tmp_path / "copy").modules == 1
    assert (tmp_path / "copy" / "catalogue.sqlite").stat().st_mode & 0o777 == 0o600
    with Store(root) as other:
        new = other.put(b"new")
        assert copy(read_only, tmp_path / "another").modules == 2
    with Store(tmp_path / "another") as copied:
        assert copied.data(new) == b"new"


def test_a_copy_that_has_no_room_names_its_own_disk(read_only: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 64 << 10) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with pytest.raises(StoreUnavailable, match="no space left") as raised:
            copy(read_only, tmp_path / "small" / "copy")
    assert raised.value.where.startswith(str(tmp_path / "small" / "copy"))
