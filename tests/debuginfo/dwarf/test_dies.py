"""Small units whose places are easily taken for another's: by which unit, by which object, by which DIE."""

from __future__ import annotations

import pytest

from symd.config import DEFAULT_LIMITS
from symd.debuginfo.dwarf.columns import read_lines, read_scopes, unit_ranges
from symd.debuginfo.dwarf.forms import AbbreviationTables, Widths
from symd.debuginfo.dwarf.sections import DebugSection, DebugSections
from symd.debuginfo.dwarf.units import (
    BlocksOf,
    external_functions,
    outside_of_functions,
    read_units,
    units_for_addresses,
)
from symd.debuginfo.variables.location_lists import listed_ranges
from symd.errors import LimitExceeded
from symd.formats.budget import DebugBudget

ROOT = b"\x01\x11\x01\x11\x01\x12\x06\0\0"
FUNCTION = b"\x02\x2e\0\x03\x08\x11\x01\x12\x06\0\0"


def code(low: int, size: int) -> bytes:
    return low.to_bytes(8, "little") + size.to_bytes(4, "little")


def unit(dies: bytes, version: int = 4) -> bytes:
    header = b"\x05\0\x01\x08" + bytes(4) if version == 5 else b"\x04\0" + bytes(4) + b"\x08"
    return (len(header) + len(dies)).to_bytes(4, "little") + header + dies


def sections(info: bytes, abbreviations: bytes, **others: bytes) -> DebugSections:
    named = {f".debug_{name}": data for name, data in others.items()}
    return DebugSections.of({".debug_info": info, ".debug_abbrev": abbreviations + b"\0", **named})


def test_a_unit_without_a_die_does_not_move_the_code_of_those_after_it():
    units = [b"\x01" + code(low, 256) + b"\x02f\0" + code(low, 256) + b"\0" for low in (0x1000, 0x2000)]
    data = sections(unit(b"\0") + unit(units[0]) + unit(units[1]), ROOT + FUNCTION)
    read = read_units(data)
    assert unit_ranges(data, read.units).which.tolist() == [1, 2]
    chosen = units_for_addresses(data, read, [0x1010])
    assert chosen is not None
    assert [each.low_pc for each in chosen.units.units] == [0, 0x1000]


def test_the_base_that_a_skeleton_says_is_not_for_its_own_list():
    """GCC's -gsplit-dwarf with DWARF 4: DW_AT_GNU_ranges_base counts in the split unit alone."""
    lists = b"".join(
        low.to_bytes(8, "little") + (low + 16).to_bytes(8, "little") + bytes(16) for low in (0x1000, 0x2000)
    )
    data = sections(unit(b"\x01" + (0).to_bytes(4, "little")), b"\x01\x11\0\x55\x17\0\0", ranges=lists)
    (skeleton,) = read_units(data).units
    assert unit_ranges(data, (skeleton.changed(ranges_base=32),)).start.tolist() == [0x1000]


def test_a_base_that_no_section_has_leaves_addresses_as_they_are():
    base = b"\x01" + ((1 << 64) - 1).to_bytes(8, "little") + b"\x02f\0" + code(0x10, 16) + b"\0"
    data = sections(unit(base, 5), b"\x01\x11\x01\x73\x07\0\0" + FUNCTION, addr=bytes(16))
    assert read_scopes(data, read_lines(data)).range_start.tolist() == [0x10]


def test_a_block_without_children_has_its_own_code():
    functions = b"\x02" + code(0x10, 64) + b"\x03" + code(0x100, 8) + b"\0" + b"\x02" + code(0x1000, 16) + b"\0"
    tags = b"\x01\x11\x01\0\0\x02\x2e\x01\x11\x01\x12\x06\0\0\x03\x0b\0\x11\x01\x12\x06\0\0"
    data = sections(unit(b"\x01" + functions + b"\0"), tags)
    units = read_units(data)
    assert outside_of_functions([BlocksOf(data, units.units, listed_ranges(data, units))]) == [[(0x100, 0x108)]]


@pytest.mark.parametrize("is_external", [0, 1])
def test_a_function_is_external_where_the_flag_says_so(is_external):
    function = b"\x02f\0" + bytes([is_external]) + code(0x10, 16)
    data = sections(unit(b"\x01" + function + b"\0"), b"\x01\x11\x01\0\0\x02\x2e\0\x03\x08\x3f\x0c\x11\x01\x12\x06\0\0")
    assert external_functions(data, read_units(data)) == [("f",) if is_external else ()]


def test_a_table_that_goes_on_behind_what_may_be_read_is_refused_for_that():
    table = b"\x01\x2e\0\x03\x08\0\0" + b"\x82" + b"\x80" * (1 << 16) + b"\0"
    budget = DebugBudget(DEFAULT_LIMITS._replace(work_ratio=1), 1)
    budget.spend(budget.steps_left - 200, "")
    tables = AbbreviationTables(DebugSection(".debug_abbrev", {".debug_abbrev": table}), budget)
    with pytest.raises(LimitExceeded, match="work_ratio"):
        tables.table(0, Widths(8, 4, 4))


@pytest.mark.parametrize("dies", [2, 20])
def test_a_list_whose_number_has_no_end_is_not_looked_through_for_each_die(dies):
    """A scan through the rest of the section counts as if it had been read."""
    lists = b"\x04" + b"\x80" * (1 << 17)
    info = unit(b"\x01" + (b"\x02f\0" + bytes(4)) * dies + b"\0", 5)
    data = sections(info, b"\x01\x11\x01\0\0\x02\x2e\0\x03\x08\x55\x17\0\0", rnglists=lists)
    if dies == 2:
        assert "2 references out of range sections" in read_scopes(data, read_lines(data)).warnings[0]
    else:
        with pytest.raises(LimitExceeded, match="overlap without end"):
            read_scopes(data, read_lines(data))
