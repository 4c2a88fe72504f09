"""``symd batch`` and ``symd.BatchSymbolizer`` over a real S3 with a real PostgreSQL."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import symd
from symd.cli import command_line
from symd.engine.engine import Engine
from tests.object_server import BUCKET
from tests.store.shared.conftest import prefix_of
from tests.store.shared.replicas import OBJECT

SAMPLES = pa.table({"module": ["shade"] * 3, "address": [0x1978, 0x1978, 0x10]})


@pytest.fixture
def url(engine_of: Callable[[str], Engine], request: pytest.FixtureRequest) -> str:
    """An object storage that has the module with its index."""
    engine_of("daemon").add(OBJECT.read_bytes(), "shade")
    return f"s3://{BUCKET}/{prefix_of(request)}"


def test_a_store_in_an_object_storage_answers_and_its_index_is_fetched(
    url: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, cache = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "cache"
    pq.write_table(SAMPLES, source)
    monkeypatch.setenv("SYMD_CATALOGUE", database)
    assert command_line.invoke(["batch", "--store", url, "--cache", str(cache), str(source), str(out)]) == 0
    with symd.BatchSymbolizer(f"shade={OBJECT}") as own:
        assert pq.read_table(out)["frames"].to_pylist() == own(SAMPLES)["frames"].to_pylist()
    fetched = [path.suffix for path in (cache / "files").rglob("*") if path.is_file()]
    assert fetched == [".idx"], "the module's own bytes are needed only where its index is made"


def test_a_function_over_it_can_be_sent_to_other_processes(url: str, database: str, tmp_path: Path) -> None:
    there = symd.BatchSymbolizer(store=url, catalogue=database, cache=tmp_path / "cache")
    with pickle.loads(pickle.dumps(there)) as batch:  # noqa: S301 - our own
        assert batch(SAMPLES)["reason"].to_pylist() == ["EXACT", "EXACT", "OUTSIDE_TEXT"]
