"""Addresses that linkers write for code which they left out, and places that are not there: neither becomes an address of something else. The core compiled and as its
source stands."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest

from symd.config import DEFAULT_LIMITS
from symd.core.elf_tables import SymbolValues
from symd.debuginfo.dwarf.columns import read_lines, read_scopes
from symd.debuginfo.dwarf.sections import DebugSections, with_split
from symd.debuginfo.dwarf.units import read_units, units_for_addresses
from symd.errors import LimitExceeded, Unsupported
from symd.formats.budget import DebugBudget
from tests.core.uncompiled import uncompiled, without_compiled_core

ADDR, DATA4, UDATA, STRING, SEC_OFFSET = 0x01, 0x06, 0x0F, 0x08, 0x17
STRX, ADDRX, RNGLISTX, INDIRECT = 0x1A, 0x1B, 0x23, 0x16
NAME, STMT_LIST, LOW_PC, HIGH_PC, DECL_LINE, RANGES = 0x03, 0x10, 0x11, 0x12, 0x3B, 0x55
COMPILE_UNIT, SUBPROGRAM = 0x11, 0x2E
BEYOND = b"\xff" * 9 + b"\x01"
"""The largest number of 64 bits as a ULEB128."""
DEAD = (1 << 64) - 1


@pytest.fixture(autouse=True, params=["compiled", "uncompiled"])
def way(request):
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


def declared(code: int, tag: int, has_children: bool, *attributes: int) -> bytes:
    return bytes([code, tag, has_children, *attributes, 0, 0])


def unit(dies: bytes, version: int = 5, kind: int = 1, rest: bytes = b"") -> bytes:
    head = struct.pack("<HBBI", version, kind, 8, 0) if version >= 5 else struct.pack("<HIB", version, 0, 8)
    return struct.pack("<I", len(head) + len(rest) + len(dies)) + head + rest + dies


def ranges(lists: bytes, addresses: bytes = b"", version: int = 5) -> list[tuple[int, int]]:
    """The code of a function f with one list of ranges, in a unit without an address."""
    abbreviations = declared(1, COMPILE_UNIT, True) + declared(2, SUBPROGRAM, False, NAME, STRING, RANGES, SEC_OFFSET)
    name = ".debug_rnglists" if version >= 5 else ".debug_ranges"
    data = {
        ".debug_info": unit(b"\x01\x02f\0" + bytes(4) + b"\0", version),
        ".debug_abbrev": abbreviations + b"\0",
        ".debug_addr": bytes(8) + addresses,
        name: lists,
    }
    scopes = read_scopes(DebugSections.of(data), read_lines(DebugSections.of(data)))
    return list(zip(scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True))


@pytest.mark.parametrize("dead", [DEAD, DEAD - 1])
def test_what_counts_from_a_dead_base_is_no_code(dead):
    """A base address behind which nothing is left, then one with code."""
    pair, living = bytes([4, 0x10, 0x40]), b"\x05" + struct.pack("<Q", 0x1000) + bytes([4, 0, 8, 0])
    assert ranges(b"\x05" + struct.pack("<Q", dead) + pair + living) == [(0x1000, 0x1008)]
    assert ranges(b"\x01\0" + pair + living, struct.pack("<Q", dead)) == [(0x1000, 0x1008)]
    selection = struct.pack("<8Q", DEAD, dead, 0x10, 0x40, DEAD, 0x1000, 0, 8) + bytes(16)
    assert ranges(selection, version=4) == [(0x1000, 0x1008)]


def test_what_counts_from_a_base_that_is_not_there_is_no_code():
    """Neither from the base before it nor from that of the unit."""
    there, missing, pair = b"\x01\0", b"\x01\x09", bytes([4, 0x10, 0x40])
    assert ranges(there + pair + missing + pair + b"\0", struct.pack("<Q", 0x1000)) == [(0x1010, 0x1040)]


def test_addresses_of_four_bytes_wrap_at_four_bytes():
    """As the locations of variables do."""
    abbreviations = declared(1, COMPILE_UNIT, True, LOW_PC, ADDR)
    abbreviations += declared(2, SUBPROGRAM, False, NAME, STRING, RANGES, SEC_OFFSET) + b"\0"
    dies = b"\x01" + struct.pack("<I", 0x1000) + b"\x02f\0" + bytes(4) + b"\0"
    head = struct.pack("<HIB", 4, 0, 4)
    info = struct.pack("<I", len(head) + len(dies)) + head + dies
    lists = struct.pack("<4I", 0xFFFFFFF0, 0xFFFFFFF8, 0, 0)
    data = DebugSections.of({".debug_info": info, ".debug_abbrev": abbreviations, ".debug_ranges": lists})
    assert read_scopes(data, read_lines(data)).range_start.tolist() == [0xFF0]


def test_a_list_is_one_of_those_that_its_table_counts():
    abbreviations = declared(1, COMPILE_UNIT, True)
    abbreviations += declared(2, SUBPROGRAM, False, NAME, STRING, RANGES, RNGLISTX) + b"\0"
    lists = struct.pack("<IHBBII", 0, 5, 8, 0, 1, 4) + b"\x07" + struct.pack("<Q", 0x1000) + b"\x10\0"
    for number, found in ((0, [0x1000]), (1, [])):
        info = unit(b"\x01\x02f\0" + bytes([number]) + b"\0")
        data = DebugSections.of({".debug_info": info, ".debug_abbrev": abbreviations, ".debug_rnglists": lists})
        scopes = read_scopes(data, read_lines(data))
        assert scopes.range_start.tolist() == found
        assert bool(scopes.warnings) == (not found)


@pytest.mark.parametrize(("attribute", "form"), [(NAME, STRX), (LOW_PC, ADDRX)])
def test_a_number_that_leads_out_of_its_section_is_nothing(attribute, form):
    """However large it is, and whatever it counts from."""
    abbreviations = declared(1, COMPILE_UNIT, False, attribute, form) + b"\0"
    tables = {".debug_str_offsets": bytes(16), ".debug_addr": bytes(16), ".debug_str": b"\0"}
    for number in (BEYOND, b"\x40"):
        data = {".debug_info": unit(b"\x01" + number), ".debug_abbrev": abbreviations, **tables}
        (read,) = read_units(DebugSections.of(data)).units
        assert read.name == b""
        assert read.low_pc == (DEAD if attribute == LOW_PC else 0)


@pytest.mark.parametrize("kind", [0, 7, 0x80, 0xC3])
def test_a_unit_of_a_kind_that_is_not_known_is_left_out(kind):
    data = {".debug_info": unit(b"\x01", kind=kind), ".debug_abbrev": declared(1, COMPILE_UNIT, False) + b"\0"}
    read = read_units(DebugSections.of(data))
    assert not read.units
    assert f"unit type {kind:#x}" in read.warnings[0]


def test_an_indirect_form_of_two_values_is_refused():
    """What follows such a value would be read one value too early."""
    abbreviations = declared(1, COMPILE_UNIT, True)
    abbreviations += declared(2, SUBPROGRAM, False, LOW_PC, INDIRECT, DECL_LINE, UDATA) + b"\0"
    dies = b"\x01\x02" + b"\x81\x40" + b"\0" + struct.pack("<I", 4) + b"\x07" + b"\0"
    data = DebugSections.of({".debug_info": unit(dies) + unit(b"\x01\0"), ".debug_abbrev": abbreviations})
    assert any("names form 0x2001" in each for each in read_scopes(data, read_lines(data)).warnings)


def line_table(form: int, value: bytes) -> bytes:
    """A table of DWARF 5 whose files have a vendor's column."""
    tables = bytes([1, 1, STRING, 1]) + b"/d\0" + bytes([2, 1, STRING, 0x81, 0x40, form, 1]) + b"a.c\0" + value
    body = bytes([1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + tables
    rest = struct.pack("<HBBI", 5, 8, 0, len(body)) + body
    rest += bytes([0, 9, 2]) + struct.pack("<Q", 0x1000) + bytes([1, 2, 4, 0, 1, 1])
    return struct.pack("<I", len(rest)) + rest


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (0x0B, b"\1"),
        (0x0C, b"\1"),
        (0x17, bytes(4)),
        (0x1A, b"\x81\1"),
        (0x1D, bytes(4)),
        (0x25, b"\0"),
        (0x27, bytes(3)),
    ],
)
def test_a_vendors_column_of_files_is_passed_over(form, value):
    lines = read_lines(DebugSections.of({".debug_line": line_table(form, value)}))
    assert lines.files == ("", "/d/a.c")
    assert not lines.warnings


def split_units(order: tuple[int, ...]) -> DebugSections:
    """Skeletons, and a package whose index lists their units in this order; each has a function that says its name elsewhere."""
    abbreviations = declared(1, COMPILE_UNIT, False, 0x76, STRING) + declared(2, COMPILE_UNIT, True)
    abbreviations += declared(3, SUBPROGRAM, False, NAME, STRING)
    abbreviations += declared(4, SUBPROGRAM, False, 0x31, 0x13, LOW_PC, ADDR, HIGH_PC, DATA4) + b"\0"
    identities = [struct.pack("<Q", number) for number in (1, 2)]
    units = [
        unit(
            b"\x02\x03f%d\0\x04" % number + struct.pack("<IQI", 21, 0x1000 * number, 16) + b"\0",
            5,
            5,
            identities[number - 1],
        )
        for number in (1, 2)
    ]
    at = [(0, len(units[0])), (len(units[0]), len(units[1]))]
    index = struct.pack("<HHIII", 5, 0, 2, 2, 4) + struct.pack("<4Q", 1, 2, 0, 0) + struct.pack("<4I", 1, 2, 0, 0)
    index += struct.pack("<2I", 1, 3) + b"".join(struct.pack("<2I", at[number][0], 0) for number in order)
    index += b"".join(struct.pack("<2I", at[number][1], len(abbreviations)) for number in order)
    package = {".debug_info.dwo": b"".join(units), ".debug_abbrev.dwo": abbreviations, ".debug_cu_index": index}
    skeletons = b"".join(unit(b"\x01x.dwo\0", 5, 4, each) for each in identities)
    return with_split(DebugSections.of({".debug_info": skeletons, ".debug_abbrev": abbreviations}), [package])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_package_may_list_its_units_in_any_order(order):
    data = split_units(order)
    scopes = read_scopes(data, read_lines(data))
    assert sorted(scopes.names[name] for name in scopes.name.tolist()) == ["f1", "f2"]


def test_symbols_of_more_sections_than_a_symbol_can_say_are_refused(way):
    del way
    table = struct.pack("<IBBHQQ", 0, 3, 0, 0xFFFF, 0x10, 0)
    for values in (SymbolValues, uncompiled("elf_tables").SymbolValues):
        with pytest.raises(Unsupported, match="65,279 sections"):
            values(table, ".symtab", 64, {})


def many_units(count: int, stmt_list: int, table: int) -> DebugSections:
    abbreviations = declared(1, COMPILE_UNIT, False, LOW_PC, ADDR, HIGH_PC, DATA4, STMT_LIST, SEC_OFFSET) + b"\0"
    info = b"".join(
        unit(b"\x01" + struct.pack("<QII", 0x1000 * (number + 1), 16, stmt_list * number), 4) for number in range(count)
    )
    lines = b"\xf0" * table
    budget = DebugBudget(DEFAULT_LIMITS, len(info) + len(lines))
    return DebugSections.of({".debug_info": info, ".debug_abbrev": abbreviations, ".debug_line": lines}, budget)


def test_units_of_one_line_table_are_not_chosen_from():
    data = many_units(3, 0, 1 << 12)
    assert units_for_addresses(data, read_units(data), [0x1008]) is None


def test_line_tables_that_overlap_are_searched_within_the_budget():
    """Each claims all bytes behind it."""
    data = many_units(4000, 1, 1 << 20)
    with pytest.raises(LimitExceeded, match="work_ratio"):
        units_for_addresses(data, read_units(data), [0x1008])
