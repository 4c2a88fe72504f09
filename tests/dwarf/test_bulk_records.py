"""Records passed many at once, against records whose places are known because the test wrote them."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from symd.dwarf import LineColumns, Units, bulk_records, range_lists
from symd.dwarf.bulk_records import Layouts, Records
from symd.dwarf.forms import ValueLayout
from tests.builders.leb128 import uleb
from tests.dwarf.decode import read_scopes, read_units

CODES = (0, 1, 2, 5, 60, 127, 128, 200, 300)


def _value(chance: random.Random, layout: int) -> bytes:
    noise = chance.randbytes
    if layout == ValueLayout.LEB:
        return uleb(chance.getrandbits(chance.choice((3, 7, 14, 32, 64))))
    if layout == ValueLayout.STRING:
        return noise(chance.randrange(20)).replace(b"\0", b"x") + b"\0"
    if layout == ValueLayout.BLOCK:
        size = chance.choice((0, 1, 5, 200))
        return uleb(size) + noise(size)
    if layout in (ValueLayout.BLOCK1, ValueLayout.BLOCK2, ValueLayout.BLOCK4):
        size = chance.choice((0, 3, 250))
        return size.to_bytes(
            {ValueLayout.BLOCK1: 1, ValueLayout.BLOCK2: 2, ValueLayout.BLOCK4: 4}[ValueLayout(layout)], "little"
        ) + noise(size)
    return noise(layout)


def _table(chance: random.Random) -> dict[int, Layouts]:
    kinds = (
        1,
        3,
        4,
        16,
        ValueLayout.LEB,
        ValueLayout.STRING,
        ValueLayout.BLOCK,
        ValueLayout.BLOCK1,
        ValueLayout.BLOCK2,
        ValueLayout.BLOCK4,
    )
    return {
        code: bulk_records.merged(chance.choice(kinds) for _ in range(chance.randrange(6)))
        for code in chance.sample(CODES, chance.randint(1, len(CODES)))
    }


def _written(chance: random.Random, table: Mapping[int, Layouts], count: int) -> tuple[bytes, list[int]]:
    """Random records and where each begins."""
    data, places = bytearray(), []
    for _ in range(count):
        places.append(len(data))
        code = chance.choice(list(table))
        data += uleb(code) + b"".join(_value(chance, layout) for layout in table[code])
    return bytes(data), places


@pytest.mark.parametrize("seed", range(40))
def test_records_of_several_stretches_are_found_where_they_were_written(seed, monkeypatch):
    chance = random.Random(seed)
    monkeypatch.setattr(bulk_records, "_SEED_DISTANCE", chance.choice((8, 64, 512)))
    tables = [_table(chance) for _ in range(3)]
    data, expected, begin, end, which = bytearray(), [], [], [], []
    for number in [chance.randrange(3) for _ in range(chance.randint(1, 6))]:
        data += chance.randbytes(chance.randrange(3))
        stretch, places = _written(chance, tables[number], chance.choice((0, 1, 30, 2000)))
        begin.append(len(data))
        expected.append([begin[-1] + place for place in places])
        data += stretch
        end.append(len(data))
        which.append(number)
    if begin[0] == end[-1]:
        return
    of_tables = Records(np.frombuffer(bytes(data), np.uint8), tables)
    found = of_tables.split(np.array(begin), np.array(end), of_tables.base[which])
    if found is not None:
        assert [places.tolist() for places in found] == expected
    elif any(len(sizes) for table in tables for sizes in table.values()):
        pytest.skip("too regular to guess")


def _subprograms(body: bytes) -> dict[str, bytes]:
    """A unit of DWARF 4 with a root (1) around functions (2: low_pc, high_pc of 4 bytes) that stand in ``body``."""
    unit = b"\x04\0" + bytes(4) + b"\x08" + b"\x01" + body + b"\0"
    table = b"\x01\x11\x01\0\0" + b"\x02\x2e\0\x11\x01\x12\x06\0\0" + b"\0"
    return {".debug_info": len(unit).to_bytes(4, "little") + unit, ".debug_abbrev": table}


@pytest.mark.parametrize("steps", [1, 10_000])
def test_a_tree_on_which_guesses_lead_far_or_nowhere_is_read_all_the_same(steps, monkeypatch):
    """Every byte is 2, so that a function of 13 bytes seems to begin at each of them, and chains pass each other by."""
    monkeypatch.setattr(bulk_records, "_MEETING_STEPS", steps)
    count = 20_000
    body = b"\x02" * 13 * count
    data = np.frombuffer(body, np.uint8)
    same = Records(data, [{2: (12,)}])
    found = same.split(np.array([0]), np.array([len(data)]), same.base[[0]])
    if steps == 1:
        assert found is None
    else:
        assert found is not None
        assert [places.tolist() for places in found] == [list(range(0, 13 * count, 13))]
    scopes = read_scopes(_subprograms(body), LineColumns.empty())
    assert len(scopes) == count
    assert scopes.warnings == ()


def test_units_far_apart_and_unit_numbers_with_gaps_are_read():
    one = _subprograms(b"\x02" + (16).to_bytes(8, "little") + (4).to_bytes(4, "little"))
    sections = one | {".debug_info": one[".debug_info"] * 3}
    units = read_units(sections)
    some = Units((units.units[0], units.units[2]), units.abbreviation_tables)
    scopes = read_scopes(sections, LineColumns.empty(), some)
    assert scopes.unit.tolist() == [0, 2]


def _listed(lists: bytes, offsets: list[int]) -> dict[str, bytes]:
    """A unit of DWARF 5 whose functions have these offsets as DW_AT_ranges."""
    body = b"\x01" + b"".join(b"\x02" + offset.to_bytes(4, "little") for offset in offsets) + b"\0"
    unit = b"\x05\0\x01\x08" + bytes(4) + body
    table = b"\x01\x11\x01\0\0" + b"\x02\x2e\0\x55\x17\0\0" + b"\0"
    return {
        ".debug_info": len(unit).to_bytes(4, "little") + unit,
        ".debug_abbrev": table,
        ".debug_rnglists": lists,
    }


@pytest.mark.parametrize("few", [0, 16, 10**9])
@pytest.mark.parametrize("seed", range(6))
def test_range_lists_of_any_length_and_order_are_those_that_were_written(seed, few, monkeypatch):
    monkeypatch.setattr(range_lists, "_LISTS_READ_ALONE", few)
    chance = random.Random(seed)
    data, offsets, expected = bytearray(chance.randbytes(7)), [], []
    for number in range(60):
        offsets.append(len(data))
        base = 0
        for _ in range(chance.choice((0, 1, 2, 3, 40))):
            start, size = chance.getrandbits(30) + 1, chance.randint(1, 300)
            kind = chance.choice((4, 5, 6, 7))
            if kind == 5:
                base = start
                data += b"\x05" + base.to_bytes(8, "little")
                continue
            if kind == 4:
                data += b"\x04" + uleb(start) + uleb(start + size)
                start += base
            elif kind == 6:
                data += b"\x06" + start.to_bytes(8, "little") + (start + size).to_bytes(8, "little")
            else:
                data += b"\x07" + start.to_bytes(8, "little") + uleb(size)
            expected.append((number, start, start + size))
        data += b"\0"
    order = list(range(60))
    chance.shuffle(order)
    scopes = read_scopes(_listed(bytes(data), [offsets[number] for number in order]), LineColumns.empty())
    found = zip(scopes.range_scope.tolist(), scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True)
    assert sorted((order[scope], start, end) for scope, start, end in found) == sorted(expected)


def test_the_example_of_the_module(monkeypatch):
    """Guesses four bytes apart in eight bytes: the second begins at a value."""
    monkeypatch.setattr(bulk_records, "_SEED_DISTANCE", 4)
    data = np.frombuffer(bytes([1, 2, 2, 1, 1, 2, 1, 0]), np.uint8)
    records = Records(data, [{1: (1,), 2: ()}])
    found = records.split(np.array([0]), np.array([8]), np.array([0]))
    assert found is not None
    assert [at.tolist() for at in found] == [[0, 2, 3, 5, 6]]
