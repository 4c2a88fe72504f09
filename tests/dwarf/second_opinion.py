"""Line rows and scopes as pyelftools reads them, one value at a time: what the bulk decoder is compared with."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.dwarf.structs import DWARFStructs

from symd.model.debug_info import RowFlag

SECTIONS = (
    "info", "aranges", "abbrev", "frame", "str", "loc", "ranges", "line", "pubtypes", "pubnames", "addr",
    "str_offsets", "line_str", "loclists", "rnglists", "sup", "types",
)  # fmt: skip
FLAGS = {
    "is_stmt": RowFlag.IS_STMT,
    "basic_block": RowFlag.BASIC_BLOCK,
    "end_sequence": RowFlag.END_SEQUENCE,
    "prologue_end": RowFlag.PROLOGUE_END,
    "epilogue_begin": RowFlag.EPILOGUE_BEGIN,
}
NAME_STEPS = 32


class Line(NamedTuple):
    """A row; ``file`` is the entry of the table's own list, or None. ``flags`` of an end_sequence row do not say
    is_stmt, since pyelftools clears it there."""

    address: int
    file: bytes | None
    line: int
    column: int
    flags: int


class Scope(NamedTuple):
    """``parent`` is a number in the list of scopes, or None. ``call_file`` is the file register as it stands."""

    parent: int | None
    name: str
    linkage_name: str
    inlined: bool
    call_file: int
    call_line: int
    call_column: int
    ranges: tuple[tuple[int, int], ...]


def open_dwarf(sections: Mapping[str, bytes], address_size: int = 8) -> DWARFInfo:
    """The sections as pyelftools takes them."""

    def descriptor(name: str) -> DebugSectionDescriptor | None:
        data = sections.get(f".debug_{name}")
        return None if data is None else DebugSectionDescriptor(io.BytesIO(data), f".debug_{name}", 0, len(data), 0)

    known = {f"debug_{name}_sec": descriptor(name) for name in SECTIONS}
    return DWARFInfo(DwarfConfig(True, "x64", address_size), eh_frame_sec=None, gnu_debugaltlink_sec=None, **known)


def tables(sections: Mapping[str, bytes]) -> Iterator[tuple[int, int]]:
    """Offset and DWARF format (32 or 64) of every table of .debug_line."""
    data, at = sections[".debug_line"], 0
    while at < len(data):
        wide = data[at : at + 4] == b"\xff\xff\xff\xff"
        yield at, 64 if wide else 32
        at += (
            12 + int.from_bytes(data[at + 4 : at + 12], "little")
            if wide
            else 4 + int.from_bytes(data[at : at + 4], "little")
        )


def read_lines(sections: Mapping[str, bytes], address_size: int = 8) -> list[list[Line]]:
    """The rows of every table, in order."""
    dwarf = open_dwarf(sections, address_size)
    found = []
    for offset, dwarf_format in tables(sections):
        version = int.from_bytes(sections[".debug_line"][offset + (12 if dwarf_format == 64 else 4) :][:2], "little")
        structs = DWARFStructs(True, dwarf_format, address_size, version)
        found.append(_rows(dwarf._parse_line_program_at_offset(offset, structs)))
    return found


def _rows(program: LineProgram) -> list[Line]:
    states = [entry.state for entry in program.get_entries() if entry.state is not None]
    base = 0 if program["version"] >= 5 else 1
    files = [getattr(entry, "name", None) for entry in program["file_entry"]]
    rows = []
    for state in states:
        number = state.file - base
        name = files[number] if 0 <= number < len(files) else None
        flags = sum(int(flag) for register, flag in FLAGS.items() if getattr(state, register))
        rows.append(
            Line(
                state.address % 2**64,
                name.encode() if isinstance(name, str) else name,
                state.line % 2**32,
                state.column % 2**32,
                flags,
            )
        )
    return rows


def read_scopes(sections: Mapping[str, bytes], address_size: int = 8) -> list[Scope]:
    """Every function and inlined call that states ranges, and those around inlined calls, in the order of the tree."""
    dwarf = open_dwarf(sections, address_size)
    units = [
        unit for unit in dwarf.iter_CUs() if unit.header.get("unit_type") not in ("DW_UT_type", "DW_UT_split_type")
    ]
    found: list[tuple[DIE, int | None]] = []
    for unit in units:
        found += _scope_dies(unit, len(found))
    by_offset = {die.offset: die for die, _ in found}
    stated = [_states_ranges(die) for die, _ in found]
    kept = set()
    for number, states in enumerate(stated):
        at: int | None = number if states else None
        while at is not None and at not in kept:
            kept.add(at)
            at = found[at][1]
    numbers = {old: new for new, old in enumerate(sorted(kept))}
    return [_scope(dwarf, found[old][0], found[old][1], numbers, by_offset) for old in sorted(kept)]


def _scope_dies(unit: CompileUnit, first: int) -> list[tuple[DIE, int | None]]:
    """The functions and inlined calls of one unit; an inlined call with the number of what is around it."""
    found: list[tuple[DIE, int | None]] = []
    around: list[int | None] = [None]
    at, end = unit.cu_die_offset, unit.cu_offset + unit["unit_length"] + unit.structs.initial_length_field_size()
    while at < end:
        die = unit._get_cached_DIE(at)
        at += die.size
        inner = around[-1]
        if die.is_null():
            around.pop()
        elif die.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
            found.append((die, around[-1] if die.tag == "DW_TAG_inlined_subroutine" else None))
            inner = first + len(found) - 1
        if not die.is_null() and die.has_children:
            around.append(inner)
        if len(around) == 1:
            break
    return found


def _states_ranges(die: DIE) -> bool:
    return "DW_AT_ranges" in die.attributes or {"DW_AT_low_pc", "DW_AT_high_pc"} <= set(die.attributes)


def _scope(
    dwarf: DWARFInfo, die: DIE, parent: int | None, numbers: Mapping[int, int], by_offset: Mapping[int, DIE]
) -> Scope:
    def call(name: str) -> int:
        attribute = die.attributes.get(f"DW_AT_call_{name}")
        return attribute.value if attribute else 0

    return Scope(
        None if parent is None else numbers[parent],
        _name(die, ("DW_AT_name",), by_offset, NAME_STEPS),
        _name(die, ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"), by_offset, NAME_STEPS),
        die.tag == "DW_TAG_inlined_subroutine",
        call("file"),
        call("line"),
        call("column"),
        tuple((low, high) for low, high in _ranges(dwarf, die) if low < high),
    )


def _name(die: DIE, attributes: tuple[str, ...], by_offset: Mapping[int, DIE], steps: int) -> str:
    for attribute in attributes:
        if attribute in die.attributes:
            value = die.attributes[attribute].value
            return "" if value is None else value.decode("utf-8", "replace")
    for reference in ("DW_AT_specification", "DW_AT_abstract_origin"):
        if reference in die.attributes and steps:
            link = die.attributes[reference]
            base = 0 if link.form == "DW_FORM_ref_addr" else die.cu.cu_offset
            target = by_offset.get(base + link.raw_value)
            found = _name(target, attributes, by_offset, steps - 1) if target else ""
            if found:
                return found
    return ""


def _ranges(dwarf: DWARFInfo, die: DIE) -> Iterator[tuple[int, int]]:
    values: dict[str, Any] = die.attributes
    if "DW_AT_low_pc" in values and "DW_AT_high_pc" in values:
        low, high = values["DW_AT_low_pc"].value, values["DW_AT_high_pc"].value
        yield low, high if values["DW_AT_high_pc"].form.startswith("DW_FORM_addr") else low + high
    elif "DW_AT_ranges" in values:
        top = die.cu.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        lists = dwarf.range_lists()
        assert lists is not None
        for entry in lists.get_range_list_at_offset(values["DW_AT_ranges"].value, die.cu):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                shift = 0 if entry.is_absolute else base
                yield entry.begin_offset + shift, entry.end_offset + shift
