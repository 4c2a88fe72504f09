"""Line sequences of functions that a linker dropped start in no text, and say nothing of those that do."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.reading import _rows

TEXT = LinearLayout(array("I", [3]), array("Q", [0x20000]), array("Q", [0x100]))


@pytest.mark.parametrize("dropped", [0, 0x10, 0x9000000])
@pytest.mark.parametrize("first", [True, False])
def test_rows_of_a_dropped_function_are_left_out(dropped: int, first: bool) -> None:
    """Each sequence has a row and its end."""
    starts = [dropped, 0x20040] if first else [0x20040, dropped]
    address = np.array([each for start in starts for each in (start, start + 8)], np.uint64)
    count = len(address)
    rows = _rows(
        LineColumns(
            address,
            np.ones(count, np.uint32),
            np.arange(count, dtype=np.uint32),
            np.zeros(count, np.uint32),
            np.zeros(count, np.uint8),
            np.array([2, 4]),
            np.zeros(2, np.uint32),
        ),
        TEXT,
        None,
    )
    assert rows.section.tolist() == [3, 3]
    assert rows.offset.tolist() == [0x40, 0x48]
    assert rows.line.tolist() == ([2, 3] if first else [0, 1])
