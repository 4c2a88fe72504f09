"""The units of ``.debug_info`` (DWARF 5, 7.5.1): the one whose code an address is, provided that no other has a part in it."""

from __future__ import annotations

from symd.model.plain_answers import NotPlain
from symd.plain.abbreviations import Abbreviation, Values, read_one, read_table, read_values
from symd.plain.numbers import (
    ADDRESS_SIZE,
    ADDRX,
    CONSTANTS,
    OFFSET_SIZE,
    OFFSETS,
    STRX,
    UNIT_REFERENCES,
    DW_AT_abstract_origin,
    DW_AT_addr_base,
    DW_AT_comp_dir,
    DW_AT_dwo_name,
    DW_AT_GNU_addr_base,
    DW_AT_GNU_dwo_id,
    DW_AT_GNU_dwo_name,
    DW_AT_GNU_ranges_base,
    DW_AT_high_pc,
    DW_AT_low_pc,
    DW_AT_ranges,
    DW_AT_rnglists_base,
    DW_AT_specification,
    DW_AT_stmt_list,
    DW_AT_str_offsets_base,
    DW_FORM_addr,
    DW_FORM_line_strp,
    DW_FORM_rnglistx,
    DW_FORM_string,
    DW_FORM_strp,
    DW_UT_compile,
    text,
    uleb,
    unsigned,
)
from symd.plain.range_lists import Spans, read_new, read_old

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Literal

    from symd.plain.image import Image

_ELSEWHERE = (DW_AT_dwo_name, DW_AT_GNU_dwo_name, DW_AT_GNU_dwo_id, DW_AT_GNU_addr_base, DW_AT_GNU_ranges_base)
_MOST_UNITS = 512
"""Units, ranges that they state together, and line tables."""
_MOST_ENTRIES = 1 << 16
"""Entries of the range lists of one unit together."""
LARGEST = 1 << 20
"""Bytes of a unit's DIEs, and of its line table: larger ones take the reader of everything less time."""
_SET_ADDRESS = bytes((0, ADDRESS_SIZE + 1, 2))
"""DW_LNE_set_address, with the byte that begins extended opcodes and the length."""
_HEADER_OF_CONTRIBUTION = 8
"""Bytes in front of what a unit's ``*_base`` attributes name, where it has none, in DWARF 5; of range lists there are four more."""


class Sections:
    """The debug sections of an image, each read when it is first asked for."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._known: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        if name not in self._known:
            self._known[name] = self.image.section(name)
        return self._known[name]


class CompileUnit:
    """``.debug_info[offset:end]``, its DIEs from ``dies`` on; ``values`` are those of the first. Places count from the beginning of the
    section."""

    def __init__(self, sections: Sections, offset: int) -> None:
        self.sections, self.offset = sections, offset
        info = sections[".debug_info"]
        length, self.version = unsigned(info, offset, 4), unsigned(info, offset + 4, 2)
        self.end = offset + 4 + length
        if length >= 0xFFFFFFF0 or self.end > len(info) or not 3 <= self.version <= 5:
            raise NotPlain
        at, size_at = (offset + 8, offset + 7) if self.version >= 5 else (offset + 6, offset + 10)
        if info[size_at] != ADDRESS_SIZE or (self.version >= 5 and info[offset + 6] != DW_UT_compile):
            raise NotPlain
        self.abbreviations = unsigned(info, at, OFFSET_SIZE)
        self.dies = at + 4 if self.version >= 5 else at + 5
        code, at = uleb(info, self.dies)
        self.values, _ = read_values(info, at, read_one(sections[".debug_abbrev"], self.abbreviations, code))
        if any(name in self.values for name in _ELSEWHERE):
            raise NotPlain
        header = _HEADER_OF_CONTRIBUTION if self.version >= 5 else 0
        self._strings = self._base(DW_AT_str_offsets_base, header)
        self._addresses = self._base(DW_AT_addr_base, header)
        self._entries_left = _MOST_ENTRIES
        self._address_table: memoryview[int] | None = None
        self._list_table: memoryview[int] | None = None
        self._lists = self._base(DW_AT_rnglists_base, header + 4 if header else 0)
        self.low_pc = self.address(*self.values[DW_AT_low_pc]) if DW_AT_low_pc in self.values else 0
        form, table = self.values.get(DW_AT_stmt_list, (0, 0))
        if form not in OFFSETS:
            raise NotPlain
        self.line_table = _number(table)

    def _base(self, name: int, otherwise: int) -> int:
        _, found = self.values.get(name, (0, otherwise))
        return _number(found)

    def table(self) -> dict[int, Abbreviation]:
        """Its abbreviations."""
        return read_table(self.sections[".debug_abbrev"], self.abbreviations)

    def _entries(self, section: str, base: int, item: Literal["I", "Q"]) -> memoryview[int]:
        """A table of offsets or addresses in another section."""
        data = memoryview(self.sections[section])[base:]
        size = OFFSET_SIZE if item == "I" else ADDRESS_SIZE
        return data[: len(data) // size * size].cast(item)

    def address(self, form: int, value: int | bytes) -> int:
        """What a value of class address says."""
        if form in ADDRX:
            if self._address_table is None:
                self._address_table = self._entries(".debug_addr", self._addresses, "Q")
            return self._address_table[_number(value)]
        if form != DW_FORM_addr:
            raise NotPlain
        return _number(value)

    def string(self, form: int, value: int | bytes) -> bytes:
        """What a value of class string says."""
        if form == DW_FORM_string and isinstance(value, bytes):
            return value
        at = _number(value)
        if form == DW_FORM_line_strp:
            return text(self.sections[".debug_line_str"], at)
        if form in STRX:
            at = unsigned(self.sections[".debug_str_offsets"], self._strings + at * OFFSET_SIZE, OFFSET_SIZE)
        elif form != DW_FORM_strp:
            raise NotPlain
        return text(self.sections[".debug_str"], at)

    def list_offset(self, form: int, value: int | bytes) -> int:
        """Where a range list is in the section of its version."""
        at = _number(value)
        if form == DW_FORM_rnglistx:
            if self._list_table is None:
                self._list_table = self._entries(".debug_rnglists", self._lists, "I")
            return self._list_table[at] + self._lists
        if form not in OFFSETS:
            raise NotPlain
        return at

    def spans_at(self, offset: int) -> Spans:
        """The addresses of a range list."""
        if self.version < 5:
            found = read_old(self.sections[".debug_ranges"], offset, self.low_pc)
        else:
            found = read_new(self.sections[".debug_rnglists"], offset, self)
        self._entries_left -= len(found) + 1
        if self._entries_left < 0:
            raise NotPlain
        return found

    def span(self, start: int, form: int, high: int | bytes) -> Spans:
        """From an address to what DW_AT_high_pc says."""
        end = start + _number(high) if form in CONSTANTS else self.address(form, high)
        if end >= 1 << 64:
            raise NotPlain
        return ((start, end),) if start < end else ()

    def spans(self, values: Values) -> Spans:
        """The addresses that a DIE states: from its first to the one after its last, or a list of such."""
        if DW_AT_low_pc in values and DW_AT_high_pc in values:
            return self.span(self.address(*values[DW_AT_low_pc]), *values[DW_AT_high_pc])
        return self.spans_at(self.list_offset(*values[DW_AT_ranges])) if DW_AT_ranges in values else ()

    @property
    def directory(self) -> bytes:
        """Where it was compiled."""
        return self.string(*self.values[DW_AT_comp_dir]) if DW_AT_comp_dir in self.values else b""

    def refers_elsewhere(self) -> bool:
        """Whether a name may stand in another unit than the function."""
        return any(
            name in (DW_AT_abstract_origin, DW_AT_specification) and form not in UNIT_REFERENCES
            for abbreviation in self.table().values()
            for name, form, _ in abbreviation.attributes
        )


def _number(value: int | bytes) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise NotPlain
    return value


def unit_of(sections: Sections, address: int) -> tuple[CompileUnit, Spans]:
    """The only unit that says it has the address, and all that it says it has. Raises NotPlain where another one may have to do with it:
    the same rule as in ``dwarf.unit_selection``."""
    units, at = [], 0
    while at < len(sections[".debug_info"]):
        units.append(CompileUnit(sections, at))
        at = units[-1].end
        if len(units) > _MOST_UNITS:
            raise NotPlain
    spans = [unit.spans(unit.values) for unit in units]
    holders = [number for number, each in enumerate(spans) if any(start <= address < end for start, end in each)]
    if len(holders) != 1 or not all(spans) or sum(map(len, spans)) > _MOST_UNITS:
        raise NotPlain
    chosen = holders[0]
    if units[chosen].end - units[chosen].offset > LARGEST:
        raise NotPlain
    tables = sorted(unit.line_table for unit in units)
    if tables != _line_tables(sections) or units[chosen].refers_elsewhere():
        raise NotPlain
    begin = 0 if all(start > 0 for each in spans for start, _ in each) else None
    for number, (unit, theirs) in enumerate(zip(units, spans, strict=True)):
        if number != chosen and (_overlap(theirs, spans[chosen]) or not _begins_inside(sections, unit, theirs, begin)):
            raise NotPlain
    return units[chosen], spans[chosen]


def _overlap(some: Spans, others: Spans) -> bool:
    return any(start < end2 and start2 < end for start, end in some for start2, end2 in others)


def _line_tables(sections: Sections) -> list[int]:
    """Where the tables of ``.debug_line`` begin."""
    found, at = [], 0
    end = sections.image.section_size(".debug_line")
    while at < end:
        found.append(at)
        at += 4 + unsigned(sections.image.part(".debug_line", at, at + 4), 0, 4)
        if len(found) > _MOST_UNITS:
            raise NotPlain
    if at != end:
        raise NotPlain
    return found


def _begins_inside(sections: Sections, unit: CompileUnit, spans: Spans, dropped: int | None) -> bool:
    """Whether every sequence of the unit's line table begins in the unit's ranges, or where linkers put what they dropped. Bytes that look
    like DW_LNE_set_address count as one."""
    start = unit.line_table
    length = unsigned(sections.image.part(".debug_line", start, start + 4), 0, 4)
    table = sections.image.part(".debug_line", start, start + 4 + length)
    at = table.find(_SET_ADDRESS)
    while at >= 0:
        at += len(_SET_ADDRESS)
        address = int.from_bytes(table[at : at + ADDRESS_SIZE], "little")
        if address not in (dropped, (1 << 64) - 1, (1 << 64) - 2) and not any(a <= address <= b for a, b in spans):
            return False
        at = table.find(_SET_ADDRESS, at)
    return True
