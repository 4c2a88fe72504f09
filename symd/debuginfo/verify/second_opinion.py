"""Line rows, scopes and variables as pyelftools reads them, one value at a time, from relocated debug sections by their
ELF names. ``comparison`` lists its known differences.

pyelftools reads the units of a ``.dwo`` file and knows nothing of the object that they belong to, so that of split
DWARF the lines alone are read here.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from elftools.common.exceptions import DWARFError
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.locationlists import LocationExpr, LocationParser
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.dwarf.structs import DWARFStructs

from symd.debuginfo.verify.comparison import (
    BLOCK_LOCATION,
    PROGRAM_START,
    LocationEntry,
    Met,
    VerifiedLine,
    VerifiedScope,
    VerifiedVariable,
)
from symd.formats.budget import DebugBudget
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
FUNCTIONS = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")
INLINED_CALL = FUNCTIONS[1]
VARIABLES = ("DW_TAG_variable", "DW_TAG_formal_parameter")
NAME_STEPS = 32
"""References that are followed from a DIE to its name; more are a cycle."""
_READ_STEPS = 2
"""What pyelftools takes to read one value."""
TYPE_STEPS = 16
"""Types that are followed from a variable's."""


class CountedStream(io.BytesIO):
    """The content of a section, of which every single value that is read, also one of no bytes, counts in
    ``budget``."""

    def __init__(self, data: bytes, name: str, budget: DebugBudget | None) -> None:
        super().__init__(data)
        self._name, self._budget = name, budget

    def read(self, size: int | None = -1, /) -> bytes:
        if self._budget is not None:
            self._budget.spend(_READ_STEPS, self._name)
        return super().read(size)


class DebugContents(dict[str, bytes]):
    """Sections by their ELF names, and the ``budget`` within which pyelftools may read them."""

    budget: DebugBudget | None = None


def open_dwarf(sections: Mapping[str, bytes], address_size: int = 8) -> DWARFInfo:
    """The sections as pyelftools takes them."""
    budget = sections.budget if isinstance(sections, DebugContents) else None

    def descriptor(name: str) -> DebugSectionDescriptor | None:
        data, name = sections.get(f".debug_{name}"), f".debug_{name}"
        if data is None:
            return None
        return DebugSectionDescriptor(CountedStream(data, name, budget), name, 0, len(data), 0)

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


def read_lines(sections: Mapping[str, bytes], address_size: int = 8) -> list[list[VerifiedLine]]:
    """The rows of every table, in order."""
    return list(read_tables(sections, address_size, Counter()).values())


def read_tables(sections: Mapping[str, bytes], address_size: int, met: Met) -> dict[int, list[VerifiedLine]]:
    """The rows of every table, by the table's offset in ``.debug_line``."""
    dwarf = open_dwarf(sections, address_size)
    return {offset: _rows(program) for offset, program in _programs(dwarf, sections, address_size, met)}


def _programs(
    dwarf: DWARFInfo, sections: Mapping[str, bytes], address_size: int, met: Met
) -> Iterator[tuple[int, LineProgram]]:
    for offset, dwarf_format in tables(sections):
        wide = dwarf_format == 64
        at = offset + (12 if wide else 4)
        version = int.from_bytes(sections[".debug_line"][at : at + 2], "little")
        structs = DWARFStructs(True, dwarf_format, address_size, version)
        program = dwarf._parse_line_program_at_offset(offset, structs)  # noqa: SLF001 - some tables belong to no unit
        after_length = at + (4 if version >= 5 else 2) + (8 if wide else 4)
        start = after_length + program["header_length"]
        if program.program_start_offset != start:
            met[PROGRAM_START] += 1
            program.program_start_offset = start
        yield offset, program


def _rows(program: LineProgram) -> list[VerifiedLine]:
    states = [entry.state for entry in program.get_entries() if entry.state is not None]
    rows = []
    for state in states:
        flags = sum(int(flag) for register, flag in FLAGS.items() if getattr(state, register))
        file = _file(program, state.file)
        rows.append(VerifiedLine(state.address % 2**64, file, state.line % 2**32, state.column % 2**32, flags))
    return rows


def _file(program: LineProgram, register: int) -> str | None:
    """The entry of the table's own list that a file register means."""
    number = register - (0 if program["version"] >= 5 else 1)
    entries = program["file_entry"]
    name = getattr(entries[number], "name", None) if 0 <= number < len(entries) else None
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


class _TreeDie(NamedTuple):
    """A DIE, and the number in the list of all of the DIE around it; None for a unit's first."""

    die: DIE
    around: int | None


def _trees(dwarf: DWARFInfo) -> list[_TreeDie]:
    """All DIEs of all units but type units, in order."""
    found: list[_TreeDie] = []
    for unit in dwarf.iter_CUs():
        if unit.header.get("unit_type") not in ("DW_UT_type", "DW_UT_split_type"):
            found += _tree(unit, len(found))
    return found


def _tree(unit: CompileUnit, first: int) -> list[_TreeDie]:
    found: list[_TreeDie] = []
    around: list[int | None] = [None]
    top = unit.get_top_DIE()
    at, end = unit.cu_die_offset, unit.cu_offset + unit["unit_length"] + unit.structs.initial_length_field_size()
    while at < end:
        die = top if at == top.offset else DIE(unit, top.stream, at)
        at += die.size
        if die.is_null():
            around.pop()
        else:
            found.append(_TreeDie(die, around[-1]))
            if die.has_children:
                around.append(first + len(found) - 1)
        if len(around) == 1:
            break
    return found


def read_scopes(sections: Mapping[str, bytes], address_size: int = 8) -> list[VerifiedScope]:
    """Every function and inlined call that states ranges, those around inlined calls, and the inlined calls in these,
    in the order of the tree."""
    dwarf = open_dwarf(sections, address_size)
    programs = dict(_programs(dwarf, sections, address_size, Counter())) if ".debug_line" in sections else {}
    placed = _trees(dwarf)
    by_offset = {each.die.offset: each.die for each in placed}
    parents = {number: _parent(placed, number) for number, each in enumerate(placed) if each.die.tag in FUNCTIONS}
    kept: set[int] = set()
    for number in parents:
        at: int | None = number if _states_ranges(placed[number].die) else None
        while at is not None and at not in kept:
            kept.add(at)
            at = parents[at]
    kept |= {number for number in parents if _inside(number, kept, parents)}
    numbers = {old: new for new, old in enumerate(sorted(kept))}
    return [_scope(dwarf, placed[old].die, parents[old], numbers, by_offset, programs) for old in numbers]


def _inside(number: int, kept: set[int], parents: Mapping[int, int | None]) -> bool:
    at = parents[number]
    while at is not None and at not in kept:
        at = parents[at]
    return at is not None


def _parent(placed: Sequence[_TreeDie], number: int) -> int | None:
    """The nearest function or inlined call around an inlined call."""
    if placed[number].die.tag != INLINED_CALL:
        return None
    at = placed[number].around
    while at is not None and placed[at].die.tag not in FUNCTIONS:
        at = placed[at].around
    return at


def _states_ranges(die: DIE) -> bool:
    return "DW_AT_ranges" in die.attributes or {"DW_AT_low_pc", "DW_AT_high_pc"} <= set(die.attributes)


def _scope(
    dwarf: DWARFInfo,
    die: DIE,
    parent: int | None,
    numbers: Mapping[int, int],
    by_offset: Mapping[int, DIE],
    programs: Mapping[int, LineProgram],
) -> VerifiedScope:
    def call(name: str) -> int:
        attribute = die.attributes.get(f"DW_AT_call_{name}")
        return attribute.value if attribute else 0

    table = die.cu.get_top_DIE().attributes.get("DW_AT_stmt_list")
    program = programs.get(table.value) if table else None
    return VerifiedScope(
        None if parent is None else numbers[parent],
        _name(die, ("DW_AT_name",), by_offset, NAME_STEPS),
        _name(die, ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"), by_offset, NAME_STEPS),
        die.tag == INLINED_CALL,
        _file(program, call("file")) if program and "DW_AT_call_file" in die.attributes else None,
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
        base = _low_pc(die)
        lists: Any = dwarf.range_lists()
        if lists is None:
            raise DWARFError("there is no section of range lists")
        for entry in lists.get_range_list_at_offset(values["DW_AT_ranges"].value, die.cu):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                shift = 0 if entry.is_absolute else base
                yield entry.begin_offset + shift, entry.end_offset + shift


def read_variables(sections: Mapping[str, bytes], address_size: int, met: Met) -> list[VerifiedVariable]:
    """Every variable and parameter of every unit, in the order of the trees."""
    dwarf = open_dwarf(sections, address_size)
    placed = _trees(dwarf)
    by_offset = {each.die.offset: each.die for each in placed}
    lists = dwarf.location_lists()
    return [
        VerifiedVariable(
            each.die.offset,
            each.die.tag.removeprefix("DW_TAG_"),
            _name(each.die, ("DW_AT_name",), by_offset, NAME_STEPS),
            placed[each.around].die.offset,
            _type(each.die, by_offset),
            _locations(each.die, by_offset, lists, met),
        )
        for each in placed
        if each.die.tag in VARIABLES and each.around is not None
    ]


def _holder(die: DIE, attribute: str, by_offset: Mapping[int, DIE]) -> DIE | None:
    """The DIE, or the one that it completes, that has an attribute."""
    at: DIE | None = die
    for _ in range(NAME_STEPS):
        if at is None or attribute in at.attributes:
            return at
        at = _target(at, "DW_AT_specification", by_offset) or _target(at, "DW_AT_abstract_origin", by_offset)
    return None


def _target(die: DIE, attribute: str, by_offset: Mapping[int, DIE]) -> DIE | None:
    link = die.attributes.get(attribute)
    if link is None or not link.form.startswith("DW_FORM_ref") or link.form == "DW_FORM_ref_sig8":
        return None
    return by_offset.get((0 if link.form == "DW_FORM_ref_addr" else die.cu.cu_offset) + link.raw_value)


def _type(variable: DIE, by_offset: Mapping[int, DIE]) -> tuple[str, ...]:
    chain: list[str] = []
    holder = _holder(variable, "DW_AT_type", by_offset)
    at = None if holder is None else _target(holder, "DW_AT_type", by_offset)
    while at is not None and len(chain) < TYPE_STEPS:
        tag = at.tag.removeprefix("DW_TAG_") if isinstance(at.tag, str) else hex(at.tag or 0)
        name = _name(at, ("DW_AT_name",), {}, 0)
        chain.append(f"{tag} {name}" if name else tag)
        at = _target(at, "DW_AT_type", by_offset)
    return tuple(chain)


def _locations(variable: DIE, by_offset: Mapping[int, DIE], lists: Any, met: Met) -> tuple[LocationEntry, ...]:
    holder = _holder(variable, "DW_AT_location", by_offset)
    if holder is None:
        return ()
    attribute = holder.attributes["DW_AT_location"]
    version = holder.cu["version"]
    if version >= 4 and attribute.form.startswith("DW_FORM_block"):
        met[BLOCK_LOCATION] += 1
        return (LocationEntry(None, None, bytes(attribute.value)),)
    if not LocationParser.attribute_has_location(attribute, version):
        return ()
    found = LocationParser(lists).parse_from_attribute(attribute, version, holder)
    if isinstance(found, LocationExpr):
        return (LocationEntry(None, None, bytes(found.loc_expr)),)
    return tuple(_listed(found, _low_pc(holder)))


def _listed(entries: Iterable[Any], base: int) -> Iterator[LocationEntry]:
    """The entries of a list that are not empty, as linear addresses; ``base`` is the unit's low_pc."""
    for entry in entries:
        if hasattr(entry, "base_address"):
            base = entry.base_address
        elif entry.begin_offset == entry.end_offset == -1:
            yield LocationEntry(None, None, bytes(entry.loc_expr))
        else:
            shift = 0 if entry.is_absolute else base
            start, end = entry.begin_offset + shift, entry.end_offset + shift
            if start < end:
                yield LocationEntry(start, end, bytes(entry.loc_expr))


def _low_pc(die: DIE) -> int:
    attribute = die.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    return int(attribute.value) if attribute else 0
