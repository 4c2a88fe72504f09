"""A store of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with Store(root) as opened:
        yield opened
