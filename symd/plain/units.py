"""The units of ``.debug_info`` (DWARF 5, 7.5.1): the one whose code an address is, provided that no other has a part in it."""

from __future__ import annotations

from symd.core.abbreviations import AbbreviationTable
from symd.core.dies import DieRows
from symd.core.range_lists import RangeRows, UnitParameters
from symd.model.plain_answers import NotPlain
from symd.plain.numbers import (
    ADDRESS_SIZE,
    ADDRX,
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
    DW_AT_low_pc,
    DW_AT_rnglists_base,
    DW_AT_specification,
    DW_AT_stmt_list,
    DW_AT_str_offsets_base,
    DW_FORM_addr,
    DW_FORM_implicit_const,
    DW_FORM_line_strp,
    DW_FORM_string,
    DW_FORM_strp,
    DW_TAG_inlined_subroutine,
    DW_TAG_subprogram,
    DW_UT_compile,
    sleb,
    text,
    uleb,
    unsigned,
    value,
)

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from symd.plain.image import Image

Spans = tuple[tuple[int, int], ...]
"""Addresses [start, end), none empty."""
_ELSEWHERE = (DW_AT_dwo_name, DW_AT_GNU_dwo_name, DW_AT_GNU_dwo_id, DW_AT_GNU_addr_base, DW_AT_GNU_ranges_base)
_MOST_UNITS = 512
"""Units, ranges that they state together, and line tables."""
_MOST_RANGES = 1 << 16
"""Ranges of one unit's DIEs together, and of all units."""
_MOST_ATTRIBUTES = 512
LARGEST = 1 << 20
"""Bytes of a unit's DIEs, and of its line table: larger ones take the reader of everything less time."""
_SET_ADDRESS = bytes((0, ADDRESS_SIZE + 1, 2))
"""DW_LNE_set_address, with the byte that begins extended opcodes and the length."""
_HEADER_OF_CONTRIBUTION = 8
"""Bytes in front of what a unit's ``*_base`` attributes name, where it has none, in DWARF 5; of range lists there are four more."""
_SCOPES = frozenset({DW_TAG_subprogram, DW_TAG_inlined_subroutine})
_ABBREVIATIONS = ".debug_abbrev"
Attribute = tuple[int, int, int]
"""(name, form, the value of an implicit_const)."""
Values = dict[int, tuple[int, "int | bytes"]]
"""By name the form and the value of each attribute of a DIE."""


class Sections:
    """The debug sections of an image, each read when it is first asked for."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._known: dict[str, bytes] = {}

    def __getitem__(self, name: str) -> bytes:
        if name not in self._known:
            self._known[name] = self.image.section(name)
        return self._known[name]

    def size(self, name: str) -> int:
        """The bytes of one of them, which is not read for it."""
        return self.image.section_size(name)


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
        self._abbreviations = unsigned(info, at, OFFSET_SIZE)
        self.dies = at + 4 if self.version >= 5 else at + 5
        code, at = uleb(info, self.dies)
        self.first = self.table(1)
        self.values = self._values(at, self.first.place(code))
        if any(name in self.values for name in _ELSEWHERE):
            raise NotPlain
        header = _HEADER_OF_CONTRIBUTION if self.version >= 5 else 0
        self._strings = self._base(DW_AT_str_offsets_base, header)
        self._addresses = self._base(DW_AT_addr_base, header)
        self._lists = self._base(DW_AT_rnglists_base, header + 4 if header else 0)
        form, table = self.values.get(DW_AT_stmt_list, (0, 0))
        if form not in OFFSETS:
            raise NotPlain
        self.line_table = _number(table)

    def _base(self, name: int, otherwise: int) -> int:
        _, found = self.values.get(name, (0, otherwise))
        return _number(found)

    def table(self, most: int) -> AbbreviationTable:
        """Its abbreviations, ``most`` of them at least where there are so many."""
        section = self.sections[_ABBREVIATIONS]
        if self._abbreviations > len(section):
            raise NotPlain
        found = AbbreviationTable(
            section, _ABBREVIATIONS, self._abbreviations, len(section), ADDRESS_SIZE, OFFSET_SIZE, OFFSET_SIZE
        )
        _plainly(found.read, most)
        return found

    def _values(self, at: int, place: int) -> Values:
        """The attributes of a DIE whose values begin at ``at``, and whose declaration has its tag at ``place``. Of several of one name the first counts."""
        if place < 0:
            raise NotPlain
        found: Values = {}
        for name, form, constant in _attributes(self.sections[_ABBREVIATIONS], place):
            this, at = value(self.sections[".debug_info"], at, form, constant)
            found.setdefault(name, (form, this))
        return found

    def parameters(self, number: int) -> UnitParameters:
        """What the core is told of it."""
        form, low = self.values.get(DW_AT_low_pc, (DW_FORM_addr, 0))
        low = _number(low)
        if form in ADDRX:
            low = unsigned(self.sections[".debug_addr"], self._addresses + ADDRESS_SIZE * low, ADDRESS_SIZE)
        elif form != DW_FORM_addr:
            raise NotPlain
        return UnitParameters(
            number,
            self.offset,
            self.dies,
            self.end,
            self.version,
            ADDRESS_SIZE,
            OFFSET_SIZE,
            low,
            self._strings,
            self._addresses,
            self._lists,
            0,
        )

    def scopes(self) -> DieRows:
        """Its functions and inlined calls."""
        found = _rows(self.sections, (self,))
        _plainly(found.read, self.parameters(0), self.table(0))
        _check_ranges(found)
        return found

    def text_of(self, key: int) -> bytes:
        """The string that a key of the core says the place of."""
        section = (".debug_info", ".debug_str", ".debug_line_str")[(key >> 60) - 1]
        return text(self.sections[section], key & ((1 << 60) - 1))

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

    @property
    def directory(self) -> bytes:
        """Where it was compiled."""
        return self.string(*self.values[DW_AT_comp_dir]) if DW_AT_comp_dir in self.values else b""

    def refers_elsewhere(self) -> bool:
        """Whether a name may stand in another unit than the function."""
        return any(
            name in (DW_AT_abstract_origin, DW_AT_specification) and form not in UNIT_REFERENCES
            for place in self.table(0).all_places()
            for name, form, _ in _attributes(self.sections[_ABBREVIATIONS], place)
        )


def _attributes(section: bytes, place: int) -> Iterator[Attribute]:
    """The attributes of the declaration whose tag stands at ``place`` of ``.debug_abbrev``."""
    _, at = uleb(section, place)
    at += 1
    for _ in range(_MOST_ATTRIBUTES):
        name, at = uleb(section, at)
        form, at = uleb(section, at)
        constant = 0
        if form == DW_FORM_implicit_const:
            constant, at = sleb(section, at)
        if not (name or form):
            return
        yield name, form, constant
    raise NotPlain


def _rows(sections: Sections, units: tuple[CompileUnit, ...]) -> DieRows:
    """A reader of functions and inlined calls of units."""
    old = any(unit.version < 5 for unit in units)
    new = any(unit.version >= 5 for unit in units)
    lists = sections[".debug_rnglists"] if new else b""
    ranges = RangeRows(
        sections[".debug_ranges"] if old else b"",
        lists,
        sections[".debug_addr"],
        check_rows=_check_rows,
    )
    return DieRows(sections[".debug_info"], sections[".debug_str_offsets"], lists, ranges, _SCOPES, with_children=False)


def _check_rows(count: int) -> None:
    if count > _MOST_RANGES:
        raise NotPlain


def _check_ranges(rows: DieRows) -> None:
    """Nothing was left out."""
    rows.trim()
    if rows.ranges.damaged or rows.ranges.missing or rows.missing_lists or rows.missing_offsets:
        raise NotPlain


def _plainly(read: Callable[..., None], *arguments: object) -> None:
    """Have the core read something; what it refuses is not plain."""
    try:
        read(*arguments)
    except Exception as error:
        raise NotPlain from error


def _spans(units: tuple[CompileUnit, ...]) -> list[Spans]:
    """The addresses that the first DIE of each unit states."""
    rows = _rows(units[0].sections, units)
    for number, unit in enumerate(units):
        _plainly(rows.read, unit.parameters(number), unit.first, True)
    _check_ranges(rows)
    found: list[list[tuple[int, int]]] = [[] for _ in units]
    for which, start, stop in zip(rows.ranges.which, rows.ranges.start, rows.ranges.stop, strict=True):
        found[which].append((start, stop))
    return [tuple(each) for each in found]


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
    spans = _spans(tuple(units)) if units else []
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
