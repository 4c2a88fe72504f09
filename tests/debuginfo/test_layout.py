"""The linear layout of unlinked objects.

Line sequences of functions that a linker dropped start in no text of it.
"""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.folded_sequences import NOTHING_FOLDED
from symd.debuginfo.reading import _place_rows, _Reading
from symd.debuginfo.relocation import FIRST_BASE, FIRST_BASE_32, GAP, LinearLayout, linear_layout
from symd.debuginfo.text_ranges import section_of
from symd.errors import Malformed
from symd.formats.budget import DebugBudget
from symd.model.code import CodeObject, Section


def text(index: int, size: int) -> Section:
    return Section(index, f".text.k{index}", 1, 0x6, 0, size, b"")


def unlinked(*sizes: int) -> CodeObject:
    return CodeObject("", "zebin", None, b"", tuple(text(n, size) for n, size in enumerate(sizes, 1)), linked=False)


def test_every_text_section_has_addresses_of_its_own() -> None:
    found = linear_layout(unlinked(0x10, 0x20000, 0))
    starts, ends = found.base, found.base + found.size
    assert np.all(ends[:-1] < starts[1:])
    assert int(starts[0]) >= FIRST_BASE
    section, offset, held = section_of(found, np.array([starts[1] + np.uint64(8), 0, 0x1000], np.uint64))
    assert (int(section[0]), int(offset[0]), held.tolist()) == (2, 8, [True, False, False])


def test_sizes_that_no_address_space_holds_are_refused() -> None:
    with pytest.raises(Malformed):
        linear_layout(unlinked(1 << 63, 1 << 63, 1 << 63))


def test_text_of_a_32_bit_image_has_addresses_of_32_bits() -> None:
    narrow = unlinked(0x10, 0x20000)._replace(address_bits=32)
    starts = linear_layout(narrow).base.tolist()
    assert FIRST_BASE_32 == starts[0] < starts[1] < 1 << 32
    with pytest.raises(Malformed, match="32 bits"):
        linear_layout(unlinked(1 << 31, 1 << 31)._replace(address_bits=32))


def test_one_address_is_held_by_the_section_that_holds_it_among_others() -> None:
    for found in (linear_layout(unlinked(0x10, 0x20000, 0)), linear_layout(unlinked())):
        edges = [int(at) for base, size in zip(found.base, found.size, strict=True) for at in (base, base + size)]
        asked = [0, (1 << 64) - 1, *(at + by for at in edges for by in (-1, 0, 8, GAP, GAP + 1))]
        section, offset, held = section_of(found, np.array(asked, np.uint64))
        every = zip(section.tolist(), offset.tolist(), held.tolist(), strict=True)
        assert [found.one_section_of(at) for at in asked] == [(s, o) if known else None for s, o, known in every]


TEXT = LinearLayout(array("I", [3]), array("Q", [0x20000]), array("Q", [0x100]))


@pytest.mark.parametrize("dropped", [0, 0x10, 0x9000000])
@pytest.mark.parametrize("first", [True, False])
def test_rows_of_a_dropped_function_are_left_out(dropped: int, first: bool) -> None:
    """Each sequence has a row and its end."""
    starts = [dropped, 0x20040] if first else [0x20040, dropped]
    address = np.array([each for start in starts for each in (start, start + 8)], np.uint64)
    count = len(address)
    reading = _Reading(unlinked(), DebugBudget.of(unlinked()))
    reading.layout, reading.folded = TEXT, NOTHING_FOLDED
    reading.lines = LineColumns(
        address,
        np.ones(count, np.uint32),
        np.arange(count, dtype=np.uint32),
        np.zeros(count, np.uint32),
        np.zeros(count, np.uint8),
        np.array([2, 4]),
        np.zeros(2, np.uint32),
    )
    _place_rows([reading])
    rows = reading.rows
    assert rows.section.tolist() == [3, 3]
    assert rows.offset.tolist() == [0x40, 0x48]
    assert rows.line.tolist() == ([2, 3] if first else [0, 1])
