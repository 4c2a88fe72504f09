"""Decodes the attributes of many DIEs at once, abbreviation by abbreviation: only those that say what a scope is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import forms
from symd.dwarf.abbreviations import Abbreviation, Attribute
from symd.dwarf.bulk_read import Positions, sleb_at, uleb_at, unsigned_at
from symd.dwarf.constants import At, Form
from symd.dwarf.forms import ValueLayout
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.strings import IN_INFO, IN_STRINGS, NO_STRING, STRING_SECTIONS, string_key
from symd.dwarf.units import Unit
from symd.model.columns import U8, U64

_IMPLICIT_CONST, _SDATA = int(Form.DW_FORM_implicit_const), int(Form.DW_FORM_sdata)
_ADDR, _REF_ADDR, _RNGLISTX = int(Form.DW_FORM_addr), int(Form.DW_FORM_ref_addr), int(Form.DW_FORM_rnglistx)
_STRING_SECTIONS: dict[int, int] = {Form.DW_FORM_string: IN_INFO, **STRING_SECTIONS}
"""Where the strings of each form stand."""
NO_REFERENCE = -1
NO_FILE = 0xFFFFFFFF


class UnitColumns(NamedTuple):
    """What the DIEs' units say, in the order of the units."""

    offset: U64
    address_size: U64
    offset_size: U64
    str_offsets_base: U64
    addr_base: U64
    rnglists_base: U64
    ranges_base: U64
    low_pc: U64
    version: U64

    @classmethod
    def of(cls, units: Sequence[Unit]) -> UnitColumns:
        table = [
            (
                unit.offset,
                unit.widths.address,
                unit.widths.offset,
                unit.str_offsets_base,
                unit.addr_base,
                unit.rnglists_base,
                unit.ranges_base if unit.contributions else 0,
                unit.low_pc,
                unit.version,
            )
            for unit in units
        ]
        return cls(*np.array(table, np.uint64).reshape(len(units), 9).T)


class ScopeAttributes(NamedTuple):
    """One entry a DIE: ``name``, ``linkage_name`` as ``strings.string_key``; ``origin``, ``specification`` as offsets
    in ``.debug_info`` or NO_REFERENCE; ``low``, ``high`` (an address, or a size where ``high_is_size``); ``ranges`` an
    offset in ``.debug_ranges`` or ``.debug_rnglists``; the ``has_*`` masks; the call site as it stands, without one
    NO_FILE and zeros; where the function is declared, likewise, and whether it is declared only."""

    name: U64
    linkage_name: U64
    origin: NDArray[np.int64]
    specification: NDArray[np.int64]
    low: U64
    high: U64
    high_is_size: NDArray[np.bool_]
    has_low: NDArray[np.bool_]
    has_high: NDArray[np.bool_]
    ranges: U64
    has_ranges: NDArray[np.bool_]
    call_file: U64
    call_line: U64
    call_column: U64
    decl_file: U64
    decl_line: U64
    is_declaration: NDArray[np.bool_]

    @classmethod
    def blank(cls, count: int) -> ScopeAttributes:
        def number() -> U64:
            return np.zeros(count, np.uint64)

        def mark() -> NDArray[np.bool_]:
            return np.zeros(count, np.bool_)

        def reference() -> NDArray[np.int64]:
            return np.full(count, NO_REFERENCE, np.int64)

        return cls(
            number(), number(), reference(), reference(), number(), number(), mark(), mark(), mark(), number(), mark(),
            np.full(count, NO_FILE, np.uint64), number(), number(), np.full(count, NO_FILE, np.uint64), number(), mark(),
        )  # fmt: skip


class _Values(NamedTuple):
    """One attribute of some DIEs: ``which`` DIEs, their units, and the values as they stand."""

    which: Positions
    unit: Positions
    form: int
    raw: U64


class AttributeReader:
    """Reads the attributes of DIEs whose extent has been checked. ``missing`` counts indexes and offsets that lead
    out of their section, by section; ``units`` is what the units say."""

    def __init__(self, sections: DebugSections, u8: U8, units: Sequence[Unit]) -> None:
        self._sections = sections
        self._u8 = u8
        self.units = UnitColumns.of(units)
        self._ends_of_strings: Positions | None = None
        self.missing: dict[str, int] = {}

    def read(
        self, abbreviations: list[Abbreviation], abbreviation: NDArray[np.int32], at: Positions, unit: Positions
    ) -> ScopeAttributes:
        """The attributes of DIEs with these abbreviation numbers, first attribute bytes and unit numbers."""
        found = ScopeAttributes.blank(len(at))
        # 16-bit numbers are sorted by radix.
        order = np.argsort(
            abbreviation.astype(np.int16) if len(abbreviations) < 1 << 15 else abbreviation, kind="stable"
        )
        for which in np.split(order, np.flatnonzero(np.diff(abbreviation[order])) + 1) if len(order) else []:
            self._read_abbreviation(abbreviations[int(abbreviation[which[0]])], which, at[which], unit[which], found)
        return found

    def _read_abbreviation(
        self, abbreviation: Abbreviation, which: Positions, at: Positions, unit: Positions, found: ScopeAttributes
    ) -> None:
        wanted = [number for number, attribute in enumerate(abbreviation.attributes) if attribute.name in _TAKERS]
        seen: set[int] = set()
        for attribute in abbreviation.attributes[: wanted[-1] + 1 if wanted else 0]:
            take = _TAKERS.get(attribute.name)
            if take is not None and attribute.name not in seen:
                seen.add(attribute.name)
                take(self, _Values(which, unit, attribute.form, self._raw(attribute, at)), found)
            if attribute.layout:
                at = self._after_value(attribute.layout, at)

    def stated(self, name: int, abbreviation: Abbreviation, at: Positions) -> tuple[int, U64] | None:
        """(the form, the values as they stand) of the first attribute of this name in DIEs of one abbreviation, whose attributes
        begin at ``at``; strings and blocks as their own position. None where they have none."""
        for attribute in abbreviation.attributes:
            if attribute.name == name:
                return attribute.form, self._raw(attribute, at)
            if attribute.layout:
                at = self._after_value(attribute.layout, at)
        return None

    def _raw(self, attribute: Attribute, at: Positions) -> U64:
        """Values as they stand; strings and blocks as their own position."""
        if attribute.form == _IMPLICIT_CONST:
            return np.full(len(at), attribute.constant, np.int64).view(np.uint64)
        if attribute.form == _SDATA:
            return sleb_at(self._u8, at)[0]
        if attribute.layout == ValueLayout.LEB:
            return uleb_at(self._u8, at)[0]
        if 0 <= attribute.layout <= 8:
            return unsigned_at(self._u8, at, attribute.layout) if attribute.layout else np.ones(len(at), np.uint64)
        return at.astype(np.uint64)

    def _after_value(self, layout: int, at: Positions) -> Positions:
        if layout >= 0:
            return at + layout
        if layout == ValueLayout.LEB:
            return uleb_at(self._u8, at)[1]
        if layout == ValueLayout.STRING:
            if self._ends_of_strings is None:
                self._ends_of_strings = np.flatnonzero(self._u8 == 0)
            return self._ends_of_strings[np.searchsorted(self._ends_of_strings, at)] + 1
        if layout == ValueLayout.BLOCK:
            size, after = uleb_at(self._u8, at)
        else:
            width = forms.BLOCK_LENGTH[ValueLayout(layout)]
            size, after = unsigned_at(self._u8, at, width), at + width
        return after + size.astype(np.int64)

    def take_name(self, values: _Values, found: ScopeAttributes) -> None:
        found.name[values.which] = self._strings(values)

    def take_linkage_name(self, values: _Values, found: ScopeAttributes) -> None:
        places, before = self._strings(values), found.linkage_name[values.which]
        found.linkage_name[values.which] = np.where(before == NO_STRING, places, before)

    def take_origin(self, values: _Values, found: ScopeAttributes) -> None:
        found.origin[values.which] = self._references(values)

    def take_specification(self, values: _Values, found: ScopeAttributes) -> None:
        found.specification[values.which] = self._references(values)

    def take_low_pc(self, values: _Values, found: ScopeAttributes) -> None:
        found.low[values.which], found.has_low[values.which] = self._addresses(values)

    def take_low_pc_offset(self, values: _Values, found: ScopeAttributes) -> None:
        found.low[values.which] += values.raw

    def take_ranges(self, values: _Values, found: ScopeAttributes) -> None:
        found.ranges[values.which], found.has_ranges[values.which] = self._range_lists(values)

    def take_call_file(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.call_file[values.which] = values.raw

    def take_call_line(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.call_line[values.which] = values.raw

    def take_call_column(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.call_column[values.which] = values.raw

    def take_decl_file(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.decl_file[values.which] = values.raw

    def take_decl_line(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.decl_line[values.which] = values.raw

    def take_declaration(self, values: _Values, found: ScopeAttributes) -> None:
        found.is_declaration[values.which] = values.raw != 0

    def take_high_pc(self, values: _Values, found: ScopeAttributes) -> None:
        if values.form in forms.CONSTANTS:
            found.high[values.which], found.has_high[values.which] = values.raw, True
            found.high_is_size[values.which] = True
        else:
            found.high[values.which], found.has_high[values.which] = self._addresses(values)

    def _strings(self, values: _Values) -> U64:
        section = _STRING_SECTIONS.get(values.form)
        if section is not None:
            return string_key(section, self.string_offsets(section, values.raw, values.unit))
        if values.form in forms.STRX_FORMS:
            units = self.units
            offset, known = self.entries(
                self._sections.string_offsets, units.str_offsets_base, units.offset_size, values.raw, values.unit
            )
            offset = self.string_offsets(IN_STRINGS, offset, values.unit)
            return np.where(known, string_key(IN_STRINGS, offset), NO_STRING)
        return np.full(len(values.raw), NO_STRING)

    def _references(self, values: _Values) -> NDArray[np.int64]:
        if values.form in forms.UNIT_REFERENCES:
            return (values.raw + self.units.offset[values.unit]).view(np.int64)
        if values.form == _REF_ADDR:
            return self.info_offsets(values.raw, values.unit).view(np.int64)
        return np.full(len(values.raw), NO_REFERENCE, np.int64)

    def _addresses(self, values: _Values) -> tuple[U64, NDArray[np.bool_]]:
        if values.form == _ADDR:
            return values.raw, np.ones(len(values.raw), np.bool_)
        if values.form in forms.ADDRX_FORMS:
            return self.addresses_at(values.raw, values.unit)
        return values.raw, np.zeros(len(values.raw), np.bool_)

    def _range_lists(self, values: _Values) -> tuple[U64, NDArray[np.bool_]]:
        units = self.units
        if values.form in forms.OFFSETS:
            return self.range_offsets(values.raw, values.unit), np.ones(len(values.raw), np.bool_)
        if values.form == _RNGLISTX:
            base = units.rnglists_base
            offset, known = self.entries(self._sections.range_lists, base, units.offset_size, values.raw, values.unit)
            return offset + base[values.unit], known
        return values.raw, np.zeros(len(values.raw), np.bool_)

    def string_offsets(self, section: int, offset: U64, unit: Positions) -> U64:  # noqa: ARG002 - others need them
        """Offsets in a section of strings, as units say them, in ``sections``."""
        return offset

    def info_offsets(self, offset: U64, unit: Positions) -> U64:  # noqa: ARG002
        """The same of ``.debug_info``."""
        return offset

    def range_offsets(self, offset: U64, unit: Positions) -> U64:
        """The same of each unit's section of range lists."""
        return offset + self.units.ranges_base[unit]

    def addresses_at(self, index: U64, unit: Positions) -> tuple[U64, NDArray[np.bool_]]:
        """Entries of ``.debug_addr`` by index, and which of them exist."""
        return self.entries(self._sections.addresses, self.units.addr_base, self.units.address_size, index, unit)

    def entries(
        self, section: DebugSection, bases: U64, widths: U64, index: U64, unit: Positions
    ) -> tuple[U64, NDArray[np.bool_]]:
        """Entry ``index`` of each unit's table in a section, and which of them lie inside it."""
        data = np.frombuffer(section.data, np.uint8)
        width = widths[unit]
        inside = index <= np.uint64(len(data))
        at = np.where(inside, bases[unit] + index * width, np.uint64(len(data)))
        inside &= (at < np.uint64(len(data))) & (at + width <= np.uint64(len(data)))
        value = np.zeros(len(index), np.uint64)
        for size in (2, 4, 8):
            those = np.flatnonzero(inside & (width == size))
            value[those] = unsigned_at(data, at[those].astype(np.int64), size)
        if not inside.all():
            self.missing[section.name] = self.missing.get(section.name, 0) + int((~inside).sum())
        return value, inside


_TAKERS: Mapping[int, Callable[[AttributeReader, _Values, ScopeAttributes], None]] = {
    At.DW_AT_name: AttributeReader.take_name,
    At.DW_AT_linkage_name: AttributeReader.take_linkage_name,
    At.DW_AT_MIPS_linkage_name: AttributeReader.take_linkage_name,
    At.DW_AT_abstract_origin: AttributeReader.take_origin,
    At.DW_AT_specification: AttributeReader.take_specification,
    At.DW_AT_low_pc: AttributeReader.take_low_pc,
    forms.LOW_PC_OFFSET: AttributeReader.take_low_pc_offset,
    At.DW_AT_high_pc: AttributeReader.take_high_pc,
    At.DW_AT_ranges: AttributeReader.take_ranges,
    At.DW_AT_call_file: AttributeReader.take_call_file,
    At.DW_AT_call_line: AttributeReader.take_call_line,
    At.DW_AT_call_column: AttributeReader.take_call_column,
    At.DW_AT_decl_file: AttributeReader.take_decl_file,
    At.DW_AT_decl_line: AttributeReader.take_decl_line,
    At.DW_AT_declaration: AttributeReader.take_declaration,
}
"""What is done with each attribute that says what a scope is; all others are passed over."""
