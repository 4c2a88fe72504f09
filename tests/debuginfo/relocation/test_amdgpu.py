"""Relocatable AMDGPU objects: our relocated sections, decoded by pyelftools, against llvm-dwarfdump, which relocates the
object itself (with every section at 0), and against the object that lld links."""

from __future__ import annotations

import io
import re
import struct

import numpy as np
import pytest
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from symd.debuginfo.relocation import FIRST_BASE, LinearLayout, amdgpu, linear_layout
from symd.debuginfo.text_ranges import section_of
from symd.debuginfo.verify import second_opinion
from symd.errors import Malformed, Unsupported
from symd.model.code import CodeObject, Section
from tests import tools
from tests.formats.containers.amd import objects

OBJECTS = ["v4-gfx900.o", "v4-gfx900-sections.o", "v4-gfx900-sections-dwarf4-zlib.o", "v2-scale.o", "v4-scale.o"]
NAMES = [
    "info",
    "aranges",
    "abbrev",
    "frame",
    "eh_frame",
    "str",
    "loc",
    "ranges",
    "line",
    "pubtypes",
    "pubnames",
    "addr",
    "str_offsets",
    "line_str",
    "loclists",
    "rnglists",
    "sup",
    "altlink",
    "types",
]


def decoder(sections: dict[str, bytes]) -> DWARFInfo:
    """pyelftools over section bytes; the descriptors are in the order of its constructor."""
    found = [
        DebugSectionDescriptor(io.BytesIO(data), name, 0, len(data), 0) if data else None
        for name, data in ((name, sections.get(f".debug_{name}", b"")) for name in NAMES)
    ]
    return DWARFInfo(DwarfConfig(little_endian=True, machine_arch="AMDGPU", default_address_size=8), *found)


def relocated(code: CodeObject) -> tuple[dict[str, bytes], LinearLayout]:
    layout = linear_layout(code)
    return amdgpu(code, layout), layout


def our_rows(code: CodeObject) -> list[tuple[int, int, int, int]]:
    """(section, offset, line, column) in table order; the ends of sequences too."""
    sections, layout = relocated(code)
    result = []
    info = decoder(sections)
    for unit in info.iter_CUs():
        for entry in info.line_program_for_CU(unit).get_entries():
            if entry.state:
                section, offset, found = section_of(layout, np.array([entry.state.address], np.uint64))
                assert found[0], hex(entry.state.address)
                result.append((int(section[0]), int(offset[0]), entry.state.line, entry.state.column))
    return result


def their_rows(name: str) -> list[tuple[int, int, int]]:
    """(address, line, column) that llvm-dwarfdump prints."""
    text = tools.output(tools.require("llvm-dwarfdump-14"), "--debug-line", objects.path(name))
    found = re.findall(r"^(0x[0-9a-f]{16}) +(\d+) +(\d+) +\d+ ", text, re.MULTILINE)
    return [(int(address, 16), int(line), int(column)) for address, line, column in found]


@pytest.mark.parametrize("name", OBJECTS)
def test_line_rows_are_those_of_dwarfdump(name):
    rows = our_rows(objects.code(name))
    assert len(rows) > 5
    assert [row[1:] for row in rows] == their_rows(name)


@pytest.mark.parametrize("name", ["v4-gfx900-sections.o", "v4-gfx900-sections-dwarf4-zlib.o"])
def test_sequences_that_all_begin_at_0_go_to_their_own_functions(name):
    """march is declared on line 3 of the source, shade on 17, clear on 28."""
    code = objects.code(name)
    firsts: dict[str, int] = {}
    for section, _, line, _ in our_rows(code):
        firsts.setdefault(code.sections[section].name, line)
    assert firsts == {".text.march": 4, ".text.shade": 18, ".text.clear": 29}


@pytest.mark.parametrize("name", ["v4-gfx900.o", "v4-gfx900-sections.o", "v4-gfx900-sections-dwarf4-zlib.o"])
def test_subprograms_begin_at_the_symbols_of_their_names(name):
    code = objects.code(name)
    sections, layout = relocated(code)
    places = {one.name: layout.base_of(one.section_index) + one.offset for one in code.functions}
    found = {}
    for unit in decoder(sections).iter_CUs():
        for die in unit.iter_DIEs():
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                found[die.attributes["DW_AT_name"].value.decode()] = die.attributes["DW_AT_low_pc"].value
    assert found == places


def test_rows_relative_to_their_functions_are_those_of_the_linked_object():
    """v4-gfx900.co is the same compile, linked: .text is laid out alike."""
    linked = objects.code("v4-gfx900.co")
    base = linked.section(".text").address
    assert [row[1:] for row in our_rows(objects.code("v4-gfx900.o"))] == [
        (address - base, line, column) for address, line, column in their_rows("v4-gfx900.co")
    ]


@pytest.mark.parametrize("name", [name for name in OBJECTS if "scale" not in name])
def test_every_range_of_a_function_or_inlined_call_is_moved_into_text(name):
    """The objects that assemblers made have lines alone."""
    sections, layout = relocated(objects.code(name))
    ranges = [span for scope in second_opinion.read_scopes(sections) for span in scope.ranges]
    assert ranges
    start, end = np.array(ranges, np.uint64).T
    assert (start >= FIRST_BASE).all()
    section, offset, found = section_of(layout, start)
    assert found.all()
    sizes = dict(zip(layout.section.tolist(), layout.size.tolist(), strict=True))
    assert all(
        o + e - s <= sizes[n] for n, o, s, e in zip(*(c.tolist() for c in (section, offset, start, end)), strict=True)
    )


def changed(code: CodeObject, name: str, **fields: object) -> CodeObject:
    return code._replace(sections=tuple(one.changed(**fields) if one.name == name else one for one in code.sections))


def relocation(offset: int, kind: int, symbol: int, addend: int = 0) -> bytes:
    return struct.pack("<QIIq", offset, kind, symbol, addend)


@pytest.mark.parametrize(
    ("entry", "error", "says"),
    [
        (relocation(0, 5, 1), Unsupported, "type 5"),
        (relocation(1 << 40, 3, 1), Malformed, "leaves the section"),
        (relocation(0, 3, 9999), Malformed, "symbol 9999"),
        (b"short", Malformed, "multiple"),
    ],
)
def test_what_cannot_be_applied_is_refused(entry, error, says):
    code = changed(objects.code("v4-gfx900.o"), ".rela.debug_line", content=entry)
    with pytest.raises(error, match=says):
        relocated(code)


def test_a_32_bit_place_for_a_code_address_is_refused():
    code = objects.code("v4-gfx900.o")
    symbols = code.section(".symtab").data
    text = next(at for at in range(len(symbols) // 24) if symbols[24 * at + 6 : 24 * at + 8] == b"\x02\0")
    with pytest.raises(Unsupported, match="32-bit"):
        relocated(changed(code, ".rela.debug_line", content=relocation(0, 6, text)))


def test_debug_sections_of_one_name_are_put_end_to_end():
    """Two .debug_str, and a place in .debug_info that means byte 2 of the second."""
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<IBBHQQ", 0, 3, 0, 2, 0, 0)
    sections = (
        Section(0, "", 0, 0, 0, 0, b""),
        Section(1, ".debug_str", 1, 0, 0, 4, b"abc\0"),
        Section(2, ".debug_str", 1, 0, 0, 4, b"def\0"),
        Section(3, ".debug_info", 1, 0, 0, 8, bytes(8)),
        Section(4, ".rela.debug_info", 4, 0, 0, 24, relocation(4, 6, 1, 2), 5, 3),
        Section(5, ".symtab", 2, 0, 0, len(symbols), symbols),
    )
    code = CodeObject("", "amdgpu", None, b"", sections, linked=False)
    found = amdgpu(code, linear_layout(code))
    assert found[".debug_str"] == b"abc\0def\0"
    assert found[".debug_info"] == bytes(4) + struct.pack("<I", 4 + 2)
