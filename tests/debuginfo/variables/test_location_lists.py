"""Location lists of every version and kind, built entry by entry; expected ranges are those that were put in."""

from __future__ import annotations

import random

import pytest

from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.variables import location_lists
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget, ListUnit
from symd.errors import LimitExceeded, Malformed, SymdError
from tests.builders.dwarf import At, Base, Locations
from tests.builders.leb128 import uleb
from tests.debuginfo.variables.build import BASE, code, function, only, unit, variable, visible

REG5, REG6, REG7 = b"\x55", b"\x56", b"\x57"
NEWEST = ListUnit(5, 8, 4, 0x1000, lambda index: 0x2000 + 0x100 * index if index < 4 else None)


def listed(form: str, version: int, *entries: tuple, dwarf64: bool = False):
    """A variable with a location list in a function over the whole text."""
    found = variable("x", At("location", form, Locations(entries)))
    top = [At("loclists_base", "sec_offset", Base("loclists"))] if form == "loclistx" else []
    return code(unit(function("f", found), attributes=top), version=version, dwarf64=dwarf64)


@pytest.mark.parametrize(
    ("form", "version", "dwarf64"),
    [
        ("data4", 2, False),
        ("data4", 3, False),
        ("data8", 3, True),
        ("sec_offset", 4, False),
        ("sec_offset", 4, True),
    ],
)
def test_pairs_before_dwarf_5_count_from_the_units_low_pc(form, version, dwarf64):
    """DWARF 4, 2.6.2: offsets from the base address, until an entry selects another."""
    entries = (
        ("start_end", 0x10, 0x20, REG5),
        ("base_address", BASE + 0x200),
        ("start_end", 0x0, 0x10, REG6),
        ("start_end", 0x20, 0x20, REG7),
    )
    found = listed(form, version, *entries, dwarf64=dwarf64)
    assert only(found, 0x10).live == ((0x10, 0x20), (0x200, 0x210))
    assert [only(found, at).location for at in (0xF, 0x10, 0x1F, 0x20, 0x200)] == [None, "reg5", "reg5", None, "reg6"]


@pytest.mark.parametrize("form", ["sec_offset", "loclistx"])
@pytest.mark.parametrize("dwarf64", [False, True])
def test_every_kind_of_entry_of_dwarf_5(form, dwarf64):
    """DWARF 5, 7.7.3. The address table is made of the operands of the x kinds, here index 0 and 1."""
    entries = (
        ("offset_pair", 0x10, 0x20, REG5),
        ("base_address", BASE + 0x100),
        ("offset_pair", 0x0, 0x8, REG6),
        ("start_end", BASE + 0x200, BASE + 0x210, REG7),
        ("start_length", BASE + 0x220, 0x10, REG5),
    )
    found = listed(form, 5, *entries, dwarf64=dwarf64)
    assert only(found).live == ((0x10, 0x20), (0x100, 0x108), (0x200, 0x210), (0x220, 0x230))
    assert [only(found, at).location for at in (0x10, 0x104, 0x200, 0x22F, 0x230)] == [
        "reg5",
        "reg6",
        "reg7",
        "reg5",
        None,
    ]


def test_entries_that_take_addresses_from_debug_addr():
    """DW_LLE_base_addressx 1, offset_pair; startx_endx 0 2; startx_length 3; an index that is not there has no range."""
    data = b"\x01\x01\x04\x10\x20\x01\x55\x02\x00\x02\x01\x56\x03\x03\x08\x01\x57\x02\x00\x09\x01\x58\x09\x01\x02\x00"
    assert location_lists.read(DebugSections.of({".debug_loclists": data}), NEWEST, 0, ListEntryBudget()) == [
        ListEntry(0x2110, 0x2120, REG5),
        ListEntry(0x2000, 0x2200, REG6),
        ListEntry(0x2300, 0x2308, REG7),
    ]


def test_addresses_past_the_end_of_the_address_space_begin_at_its_start():
    """A base and an offset are added modulo 2**64: what reads them keeps them in 64 bits. A range over the end is none."""
    data = b"\x06" + b"\xff" * 8 + b"\x04\x10\x20\x01\x55" + b"\x08\xf0" + b"\xff" * 7 + b"\x18\x01\x56\x00"
    read = location_lists.read(DebugSections.of({".debug_loclists": data}), NEWEST, 0, ListEntryBudget())
    assert read == [ListEntry(0xF, 0x1F, REG5)]


@pytest.mark.parametrize(("width", "unit"), [(4, NEWEST), (8, NEWEST._replace(offset_size=8))])
def test_a_list_whose_number_the_table_does_not_have_is_none(width, unit):
    """DWARF 5, 7.29: offset_entry_count says how many offsets there are. What follows them are lists."""
    offsets = b"".join(at.to_bytes(width, "little") for at in (2 * width, 2 * width + 5))
    data = (2).to_bytes(4, "little") + offsets + b"\x04\x10\x20\x01\x55" * 2
    sections = DebugSections.of({".debug_loclists": data})
    found = [location_lists.offset_of(sections, unit, 4, index) for index in (0, 1)]
    assert found == [4 + 2 * width, 4 + 2 * width + 5]
    for base, index in ((4, 2), (0, 0), (3, 0), (4, 1 << 63), (len(data) + 4, 0)):
        with pytest.raises(Malformed):
            location_lists.offset_of(sections, unit, base, index)


def test_the_default_location_holds_where_no_other_entry_does():
    entries = (("offset_pair", 0x10, 0x20, REG5), ("default_location", REG6))
    found = listed("sec_offset", 5, *entries)
    assert [only(found, at).location for at in (0x10, 0x20)] == ["reg5", "reg6"]
    assert only(found).live == ((0, 0x400),)


def test_overlapping_entries_are_places_that_all_hold_it():
    """DWARF 5, 2.6.2: an object may be in several places at once."""
    found = listed("sec_offset", 5, ("offset_pair", 0x10, 0x40, REG5), ("offset_pair", 0x20, 0x30, REG6))
    assert only(found, 0x20).location == "reg5; also reg6"


def test_an_empty_expression_says_that_the_variable_is_nowhere():
    found = listed("sec_offset", 5, ("offset_pair", 0x10, 0x20, b""), ("offset_pair", 0x20, 0x30, REG6))
    assert only(found, 0x10).optimized_out
    assert only(found, 0x10).live == ((0x20, 0x30),)


def test_a_block_in_dwarf_2_and_an_exprloc_in_dwarf_4_are_one_place_for_the_whole_scope():
    for form, version in (("block1", 2), ("block", 3), ("exprloc", 4), ("exprloc", 5)):
        found = code(unit(function("f", variable("x", At("location", form, REG5)), first=8, after=64)), version=version)
        assert (only(found, 8).location, only(found, 8).live) == ("reg5", ((8, 64),))


CONSTANTS = {
    "lit7": (b"\x37", 7),
    "const1u": (b"\x08\xf9", 0xF9),
    "const1s": (b"\x09\xf9", -7),
    "const4s": (b"\x0d\xf9\xff\xff\xff", -7),
    "const8u": (b"\x0e\x07\0\0\0\0\0\0\0", 7),
    "constu": (b"\x10\xac\x02", 300),
    "consts": (b"\x11\x79", -7),
}


@pytest.mark.parametrize(("expression", "value"), CONSTANTS.values(), ids=CONSTANTS)
def test_one_constant_alone_is_the_value_before_dwarf_4_and_an_address_from_then_on(expression, value):
    """LLVM leaves DW_OP_stack_value out before DWARF 4, which has no such operation."""
    for form, version in (("block1", 2), ("block1", 3), ("exprloc", 4), ("exprloc", 5)):
        found = only(code(unit(function("f", variable("x", At("location", form, expression)))), version=version), 8)
        address = f"memory at {value % (1 << 64):#x}"
        assert found.location == (f"constant {value}" if version < 4 else address)


@pytest.mark.parametrize("expression", [b"\x03" + bytes(8), b"\x37\x38", b"\x37\x06", b"\x11\x79\x23\x01"])
def test_what_does_more_than_push_a_number_stays_an_address_in_dwarf_2(expression):
    found = only(code(unit(function("f", variable("x", At("location", "block1", expression)))), version=2), 8)
    assert "constant" not in found.location


@pytest.mark.parametrize(
    "data",
    [b"", b"\x04\x10", b"\x0a\x00", b"\x04\x00\x10\x7f\x55", b"\x06\x00", b"\x04\x00\x10\x01\x55"],
    ids=["nothing", "cut operand", "unknown kind", "expression past the end", "cut address", "no end"],
)
def test_a_list_that_cannot_be_read_is_malformed(data):
    with pytest.raises(Malformed):
        location_lists.read(DebugSections.of({".debug_loclists": data}), NEWEST, 0, ListEntryBudget())


def test_a_list_outside_its_section_is_said_in_place_of_the_location():
    found = code(unit(function("f", variable("x", At("location", "sec_offset", 0x7000)))), version=4)
    assert only(found).location == "unreadable: .debug_loc+0x7000: a location list begins behind the section's end"
    assert only(found).live == ()


def test_a_list_without_end_is_cut_off():
    long = (b"\x04\x00\x10\x01\x55") * 11 + b"\0"
    assert len(location_lists.read(DebugSections.of({".debug_loclists": long}), NEWEST, 0, ListEntryBudget(11))) == 11
    with pytest.raises(LimitExceeded):
        location_lists.read(DebugSections.of({".debug_loclists": long}), NEWEST, 0, ListEntryBudget(10))


def test_mutated_lists_are_answered_or_refused():
    chance = random.Random(7)
    entries = (("offset_pair", 0x10, 0x20, REG5), ("start_end", BASE, BASE + 8, REG6), ("default_location", REG7))
    whole = b"\x04" + uleb(0x10) + uleb(0x20) + b"\x01\x55" + b"\x07" + bytes(16) + b"\x01\x56\x05\x01\x57\x00"
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for version in (4, 5):
            try:
                sections = {".debug_loclists": bytes(data), ".debug_loc": bytes(data)}
                location_lists.read(
                    DebugSections.of(sections), NEWEST._replace(version=version), chance.randrange(4), ListEntryBudget()
                )
            except SymdError:
                pass
    assert visible(listed("sec_offset", 5, *entries)).variables
