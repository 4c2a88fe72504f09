"""Columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from symd.model.columns import distinct


@given(st.lists(st.integers(0, (1 << 64) - 1)), st.sampled_from([1, 1 << 60]))
def test_distinct_entries_are_those_of_unique(values: list[int], coarse: int) -> None:
    column = np.array([value // coarse for value in values], np.uint64)
    found = distinct(column)
    assert found.dtype == column.dtype
    assert found.tolist() == np.unique(column).tolist()
