"""Which units some addresses need: those that claim them, all that claim nothing, and all units where it cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from symd.debuginfo.dwarf.units import UnitSelection
from tests.builders.dwarf import At, Base, Die, Ranges, Ref, Unit, build_dwarf
from tests.builders.line_program import Row, Shape, build_line_program
from tests.debuginfo.dwarf.decode import read_lines, read_scopes, units_for_addresses

VERSIONS = (2, 3, 4, 5)


def function(name: str, low: int, *more: At, label: str = "") -> Die:
    return Die("subprogram", [At("name", "string", name), At("low_pc", "addr", low), At("high_pc", "addr", low + 32), *more],
               (), label)  # fmt: skip


def unit(version: int, name: str, code: list[At], functions: list[Die], table: int | None = None) -> Unit:
    stmt_list = [] if table is None else [At("stmt_list", "sec_offset" if version >= 4 else "data4", table)]
    return Unit(Die("compile_unit", [At("name", "string", name), *stmt_list, *code], functions), version=version)


def low_high(low: int, high: int) -> list[At]:
    return [At("low_pc", "addr", low), At("high_pc", "addr", high)]


def selected(sections: dict[str, bytes], *addresses: int) -> UnitSelection | None:
    return units_for_addresses(sections, *addresses)


def names(selection: UnitSelection | None) -> list[str] | None:
    return None if selection is None else [one.name.decode() for one in selection.units.units]


def three(version: int) -> dict[str, bytes]:
    """Units at 0x1000 to 0x2000, at 0x3000 to 0x3100 and 0x5000 to 0x5100, and one that says nothing of its code."""
    based = [At("rnglists_base", "sec_offset", Base("rnglists"))] if version >= 5 else []
    form = "rnglistx" if version >= 5 else "sec_offset" if version == 4 else "data4"
    pieces = Ranges((("start_end", 0x3000, 0x3100), ("start_end", 0x5000, 0x5100)))
    return build_dwarf(
        [
            unit(version, "a", low_high(0x1000, 0x2000), [function("a", 0x1000)]),
            unit(version, "b", [*based, At("low_pc", "addr", 0), At("ranges", form, pieces)], [function("b", 0x3000)]),
            unit(version, "silent", [], [function("c", 0x9000)]),
        ]
    ).sections


@pytest.mark.parametrize("version", VERSIONS)
def test_units_that_claim_an_address_and_those_that_claim_nothing_are_chosen(version: int) -> None:
    sections = three(version)
    assert names(selected(sections, 0x1FFF)) == ["a", "silent"]
    assert names(selected(sections, 0x3000)) == ["b", "silent"]
    assert names(selected(sections, 0x50FF, 0x3001)) == ["b", "silent"]
    found = selected(sections, 0x5000)
    assert found is not None
    assert found.spans == [(0x3000, 0x3100), (0x5000, 0x5100)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_address_that_nobody_claims_needs_all(version: int) -> None:
    sections = three(version)
    for address in (0xFFF, 0x2000, 0x3100, 0x9000):
        assert selected(sections, address) is None
    assert selected(sections, 0x1000, 0x2000) is None
    assert selected(sections, 0x1000, 0x3000) is None, "nothing is left out"


def test_code_that_two_units_claim_needs_all() -> None:
    def sections(low: int, high: int) -> dict[str, bytes]:
        return build_dwarf(
            [
                unit(4, "a", low_high(0x1000, 0x2000), [function("a", 0x1000)]),
                unit(4, "b", low_high(low, high), [function("b", low)]),
                unit(4, "c", low_high(0x8000, 0x9000), [function("c", 0x8000)]),
            ]
        ).sections

    assert names(selected(sections(0x2000, 0x3000), 0x1000)) == ["a"]
    assert names(selected(sections(0x800, 0x1000), 0x1000)) == ["a"]
    for low, high in ((0x1FFF, 0x3000), (0x800, 0x1001), (0x1400, 0x1500)):
        assert selected(sections(low, high), 0x1100) is None
        assert names(selected(sections(low, high), 0x8000)) == ["c"]
    assert names(selected(sections(0x800, 0x3000), 0x1100)) == ["a", "b"], "both are asked"


def test_names_in_other_units_need_all() -> None:
    def sections(form: str) -> dict[str, bytes]:
        origin = Die("subprogram", [At("name", "string", "far"), At("inline", "data1", 1)], (), "far")
        near = Die("subprogram", [At("name", "string", "near"), At("inline", "data1", 1)], (), "near")
        caller = Die("inlined_subroutine", [At("abstract_origin", form, Ref("far" if form == "ref_addr" else "near")),
                                            At("low_pc", "addr", 0x1004), At("high_pc", "addr", 0x1008)])  # fmt: skip
        outer = Die("subprogram", [At("name", "string", "a"), *low_high(0x1000, 0x1020)], [caller])
        return build_dwarf(
            [
                unit(4, "a", low_high(0x1000, 0x2000), [near, outer]),
                unit(4, "b", low_high(0x3000, 0x4000), [origin, function("b", 0x3000)]),
            ]
        ).sections

    assert names(selected(sections("ref4"), 0x1004)) == ["a"]
    assert selected(sections("ref_addr"), 0x1004) is None


@pytest.mark.parametrize(
    ("begins", "outcome"),
    [(0x3000, ["a"]), (0x4000, ["a"]), (0x1800, None), (0, ["a"]), ((1 << 64) - 1, ["a"]), ((1 << 64) - 2, ["a"]), (8, None)],
)  # fmt: skip
def test_a_line_table_with_code_outside_its_unit_needs_all(begins: int, outcome: Any) -> None:
    tables = [
        build_line_program([[Row(low, line=7), Row(low + 0 if low >= 1 << 63 else low + 4, end_sequence=True)]],
                           shape=Shape(version=4))
        for low in (0x1000, begins)
    ]  # fmt: skip
    sections = build_dwarf(
        [
            unit(4, "a", low_high(0x1000, 0x2000), [function("a", 0x1000)], 0),
            unit(4, "b", low_high(0x3000, 0x4000), [function("b", 0x3000)], len(tables[0].data)),
        ]
    ).sections | {".debug_line": tables[0].data + tables[1].data}
    assert names(selected(sections, 0x1000)) == outcome


def test_a_line_table_that_two_units_share_needs_all() -> None:
    table = build_line_program(
        [[Row(low, line=7), Row(low + 4, end_sequence=True)] for low in (0x1000, 0x3000)], shape=Shape(version=4)
    )
    sections = build_dwarf(
        [
            unit(4, "a", low_high(0x1000, 0x2000), [function("a", 0x1000)], 0),
            unit(4, "b", low_high(0x3000, 0x4000), [function("b", 0x3000)], 0),
        ]
    ).sections | {".debug_line": table.data}
    assert selected(sections, 0x1000) is None


def test_the_units_chosen_decode_to_what_they_are_among_all() -> None:
    tables = [
        build_line_program([[Row(low, line=line), Row(low + 32, end_sequence=True)]], shape=Shape(version=4))
        for low, line in ((0x1000, 10), (0x3000, 30), (0x6000, 60))
    ]
    places = [sum(len(table.data) for table in tables[:number]) for number in range(3)]
    sections = build_dwarf(
        [
            unit(4, name, low_high(low, low + 0x1000), [function(name, low)], place)
            for name, low, place in (("a", 0x1000, places[0]), ("b", 0x3000, places[1]), ("c", 0x6000, places[2]))
        ]
    ).sections | {".debug_line": b"".join(table.data for table in tables)}
    chosen = selected(sections, 0x3000)
    assert chosen is not None
    lines = read_lines(sections, chosen.units)
    scopes = read_scopes(sections, lines, chosen.units)
    assert lines.line.tolist()[:1] == [30]
    assert lines.address.tolist() == [0x3000, 0x3020]
    assert [scopes.names[number] for number in scopes.name.tolist()] == ["b"]
    assert (scopes.range_start.tolist(), scopes.range_end.tolist()) == ([0x3000], [0x3020])


def test_a_unit_that_begins_at_0_makes_0_an_address_like_others() -> None:
    tables = [
        build_line_program([[Row(low, line=7), Row(low + 4, end_sequence=True)]], shape=Shape(version=4))
        for low in (0, 0)
    ]
    sections = build_dwarf(
        [
            unit(4, "a", low_high(0, 0x1000), [function("a", 0)], 0),
            unit(4, "b", low_high(0x3000, 0x4000), [function("b", 0x3000)], len(tables[0].data)),
        ]
    ).sections | {".debug_line": tables[0].data + tables[1].data}
    assert selected(sections, 0) is None


def test_without_units_there_is_nothing_to_choose() -> None:
    assert selected({}, 0) is None
