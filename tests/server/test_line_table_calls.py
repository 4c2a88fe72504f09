"""SymbolService.GetLineTable: rows are decoded a chunk at a time, so that clients that read slowly cost the daemon no table each."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import Busy
from symd.model.line_tables import LineTable, RowsInParts
from symd.rpc.wire import line_tables
from symd.server.messages import BytesInFlight
from symd.server.rpc import question_services
from symd.store import Store
from symd.v1 import line_table_pb2 as t
from symd.v1.symbol_service_pb2 import GetLineTableRequest
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.test_listing_calls import SHADE

WORK_QUEUE = SimpleNamespace(run_for=lambda _call, work: work(), each_for=lambda _call, items: iter(items))
"""A work queue that does what it is asked for where it is asked."""
WORK_QUEUES: Any = defaultdict(lambda: WORK_QUEUE)
CALL: Any = SimpleNamespace(client="one", is_active=lambda: True, add_callback=lambda _callback: True)


class Watched:
    """A table that keeps the numbers of rows that were asked for at a time."""

    def __init__(self, table: RowsInParts, sizes: list[int]) -> None:
        self._table, self._sizes = table, sizes
        self.path, self.target = table.path, table.target
        self.text_sections, self.strings = table.text_sections, table.strings

    def __len__(self) -> int:
        return len(self._table)

    def part(self, start: int, end: int) -> LineTable:
        found = self._table.part(start, end)
        self._sizes.append(len(found))
        return found


def test_rows_are_decoded_when_their_chunk_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(line_tables, "ROWS", 16)
    sizes: list[int] = []
    with Store(tmp_path / "store", Limits()) as store, Engine(store) as engine:
        digest = engine.add(SHADE).sha256
        (expected,) = engine.lines(digest)
        watched = SimpleNamespace(
            is_open=engine.is_open,
            stored_lines=lambda *asked: [Watched(each, sizes) for each in engine.stored_lines(*asked)],
        )
        service: Any = SimpleNamespace(engine=watched, work_queues=WORK_QUEUES)
        request, chunks, rows = GetLineTableRequest(module=f"modules/{digest}"), [], 0
        for chunk in question_services.get_line_table(service, request, CALL):
            chunks.append(chunk)
            rows += chunk.rows.count
            assert sum(sizes) == rows
    (found,) = line_tables.from_chunks(chunks)
    assert len(sizes) > 1
    assert max(sizes) == 16
    assert list(found.strings) == list(expected.strings)
    assert list(found.text_sections) == list(expected.text_sections)
    for column in line_tables.COLUMNS:
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))


def test_lines_of_ptx_are_counted_until_they_are_taken():
    """The PTX lines of a module are made in one piece."""
    engine, flight = FakeEngine(), BytesInFlight(Limits(client_bytes_in_flight=1 << 20))
    engine.add(GOOD)
    service: Any = SimpleNamespace(engine=engine, flight=flight, work_queues=WORK_QUEUES)
    request = GetLineTableRequest(module=f"modules/{DIGEST}", level=t.LINE_LEVEL_PTX)
    with pytest.raises(Busy, match="this client"):
        list(question_services.get_line_table(service, request, CALL))
