"""Batches that are answered together: of each its size is asked once, however many wait."""

from __future__ import annotations

import pyarrow as pa
import pytest

from symd import batch


class _Batch:
    """Of one row, and of as many bytes; counts who asks."""

    num_rows = 1

    def __init__(self, size: int) -> None:
        self._size = size
        self.asked = 0

    @property
    def nbytes(self) -> int:
        self.asked += 1
        return self._size


def test_each_batch_is_measured_once() -> None:
    several = [_Batch(8) for _ in range(100)]
    assert [len(each) for each in batch._together(several)] == [100]  # type: ignore[arg-type]
    assert {each.asked for each in several} == {1}


def test_rows_or_bytes_end_what_is_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_TOGETHER", 4)
    monkeypatch.setattr(batch, "BYTES_TOGETHER", 100)
    narrow, wide = (pa.record_batch({"a": pa.array([1] * count)}) for count in (2, 13))
    found = batch._together([narrow, narrow, narrow, wide, narrow])
    assert [[each.num_rows for each in some] for some in found] == [[2, 2], [2, 13], [2]]
    assert not list(batch._together([]))
