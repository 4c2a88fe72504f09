"""Subsets and concatenations of location tables say of every location what the tables they come from say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.model.answers import Locations, Reason, concat, of_reasons, subset

TEXTS = ["", "vadd", "helper", "_Z6helperi", "/src/vadd.cl", "a name of nobody's"]
ROW = st.tuples(
    st.sampled_from(list(Reason)),
    *[st.integers(0, len(TEXTS) - 1)] * 4,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16),
    st.booleans(),
    st.integers(0, 30),
)


@st.composite
def tables(draw):
    """Parents come before or after the locations that they enclose, and never in a circle."""
    rows = [(0,) * 9, *draw(st.lists(ROW, max_size=12))]
    order = draw(st.permutations(range(1, len(rows))))
    parents = {number: ([0, *order[:place]])[rows[number][8] % (place + 1)] for place, number in enumerate(order)}
    columns = list(zip(*((*row[:8], parents.get(number, 0)) for number, row in enumerate(rows)), strict=True))
    reason, *texts, line, column, inlined, parent = columns
    return Locations(
        np.array(reason, np.uint8),
        *(np.array(each, np.uint32) for each in (*texts, line, column)),
        np.array(inlined, np.uint8),
        np.array(parent, np.uint32),
        TEXTS,
    )


def said(table, number):
    """All that a table says of a location, without its numbers."""
    return int(table.reason[number]), table.strings[table.kernel[number]], table.frames(number)


def enclosing(table, number):
    while number:
        yield number
        number = int(table.parent[number])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_subset_keeps_what_is_asked_and_what_encloses_it_and_nothing_else(data):
    table = data.draw(tables())
    numbers = np.array(data.draw(st.lists(st.integers(0, len(table) - 1), max_size=8)), np.uint32)
    part, renumbered = subset(table, numbers)
    wanted = sorted({0, *(each for number in numbers.tolist() for each in enclosing(table, number))})
    assert len(part) == len(wanted)
    assert [int(renumbered[number]) for number in wanted] == list(range(len(wanted)))
    assert [said(part, int(renumbered[number])) for number in wanted] == [said(table, number) for number in wanted]
    texts = [table.kernel, table.function, table.linkage_name, table.file]
    assert set(part.strings) == {"", *(TEXTS[column[number]] for column in texts for number in wanted)}
    assert len(set(part.strings)) == len(part.strings)


@pytest.mark.parametrize(("asked", "enclosing_them"), [(100, 100), (255, 200), (256, 200), (65_535, 10)])
def test_what_is_asked_has_numbers_as_narrow_as_it_alone_needs(asked, enclosing_them):
    """In the table what encloses stands first, and twice as much as is asked for."""
    count = 1 + 2 * enclosing_them + 2 * asked
    number, first = np.arange(count, dtype=np.uint32), 1 + 2 * enclosing_them
    flags, nothing = np.zeros(count, np.uint8), np.zeros(count, np.uint32)
    parent = np.where(number < first, 0, 1 + 2 * (number // 2 % enclosing_them)).astype(np.uint32)
    table = Locations(flags + 1, *[nothing] * 4, number, nothing, flags, parent, [""])
    numbers = number[first::2]
    part, renumbered = subset(table, np.repeat(numbers, 2))
    assert len(part) == 1 + asked + enclosing_them
    assert renumbered[numbers].max() < (256 if asked < 256 else 65_536)
    assert renumbered[0] == 0
    assert sorted(renumbered[renumbered > 0].tolist()) == list(range(1, len(part)))
    for each in (*numbers[:3].tolist(), *numbers[-3:].tolist()):
        assert said(part, int(renumbered[each])) == said(table, each)


@settings(max_examples=100, deadline=None)
@given(st.lists(tables(), min_size=1, max_size=4))
def test_tables_one_after_another_say_the_same_from_their_offsets_on(several):
    whole, offsets = concat(several)
    assert len(whole) == sum(map(len, several))
    assert len(set(whole.strings)) == len(whole.strings)
    assert whole.strings[0] == ""
    for table, offset in zip(several, offsets, strict=True):
        for number in range(len(table)):
            at = offset + number if number else 0
            assert said(whole, at) == said(table, number)


def test_the_table_of_reasons_holds_each_under_its_own_number():
    table = of_reasons()
    assert [int(table.reason[reason]) for reason in Reason] == [int(reason) for reason in Reason]
    assert len(table) == max(Reason) + 1
