"""The units of ``.debug_info`` (DWARF 5, 7.5.1): headers, and what the first DIE of each says about the whole unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from symd.dwarf import forms
from symd.dwarf.abbreviations import Abbreviation, AbbreviationTables
from symd.dwarf.constants import At, Form, Ut
from symd.dwarf.cursor import Cursor
from symd.dwarf.forms import Widths
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.strings import IN_STRINGS, STRING_SECTIONS, StringReader
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed, SymdError, Unsupported

_TYPE_UNITS = frozenset({Ut.DW_UT_type, Ut.DW_UT_split_type})
_ID_UNITS = frozenset({Ut.DW_UT_skeleton, Ut.DW_UT_split_compile})
"""Units in whose header an id of 8 bytes follows."""
_COMPILE = int(Ut.DW_UT_compile)
_ADDR, _INDIRECT = int(Form.DW_FORM_addr), int(Form.DW_FORM_indirect)
_NAME, _COMP_DIR = int(At.DW_AT_name), int(At.DW_AT_comp_dir)
_STMT_LIST, _LOW_PC = int(At.DW_AT_stmt_list), int(At.DW_AT_low_pc)
_STR_OFFSETS_BASE, _RNGLISTS_BASE = int(At.DW_AT_str_offsets_base), int(At.DW_AT_rnglists_base)
_ADDR_BASE, _GNU_ADDR_BASE = int(At.DW_AT_addr_base), int(At.DW_AT_GNU_addr_base)


@dataclass(slots=True)
class Unit:
    """One compile, partial or skeleton unit: ``.debug_info[offset:end]``, its first DIE at ``dies``.

    ``stmt_list`` is the offset of its line table, or None; ``low_pc`` the base of its range lists; the ``*_base``
    numbers are offsets into ``.debug_str_offsets``, ``.debug_addr`` and ``.debug_rnglists``. ``states_addr_base`` tells
    whether the unit says so itself (DW_AT_addr_base).
    """

    number: int
    offset: int
    end: int
    dies: int
    version: int
    widths: Widths
    abbreviations: int
    tag: int = 0
    name: bytes = b""
    comp_dir: bytes = b""
    stmt_list: int | None = None
    low_pc: int = 0
    str_offsets_base: int = 0
    addr_base: int = 0
    rnglists_base: int = 0
    states_addr_base: bool = False


@dataclass(frozen=True, slots=True)
class Units:
    """The units that can be read, in order; ``abbreviation_tables`` holds their abbreviations;
    ``warnings`` name the others.

    Where only some of an object's units are wanted (``selection``), ``skipped_tables`` are the offsets of the line
    tables that none of these refers to.
    """

    units: tuple[Unit, ...]
    abbreviation_tables: AbbreviationTables = field(repr=False)
    warnings: tuple[str, ...] = ()
    skipped_tables: frozenset[int] = frozenset()


def read_units(sections: DebugSections) -> Units:
    """Read the header and the first DIE of every unit of ``.debug_info``.

    Type units are passed over. A unit that cannot be read is left out with a warning, and one whose length leads out
    of the section ends the walk. Raises LimitExceeded for abbreviation tables that overlap without end.
    """
    abbreviations = AbbreviationTables(sections.abbreviations)
    units: list[Unit] = []
    strings = StringReader(sections)
    warnings = Warnings()
    for cursor, start, offset_size in _walk(sections.info, warnings):
        try:
            unit = _read_header(cursor, start, offset_size, len(units))
            if unit is not None:
                _read_first_die(sections, strings, unit, abbreviations)
                units.append(unit)
        except (Malformed, Unsupported) as error:
            warnings.add(f"{sections.info.name}+{start:#x}: unit left out: {error}")
    return Units(tuple(units), abbreviations, warnings.all())


def _walk(info: DebugSection, warnings: Warnings) -> Iterator[tuple[Cursor, int, int]]:
    """A cursor after the length field of every unit, the unit's offset and its offset size."""
    data, at = info.data, 0
    while at < len(data):
        cursor = Cursor(data, info.name, at, len(data))
        try:
            length, offset_size = cursor.initial_length()
        except SymdError as error:
            warnings.add(f"the rest of the section is left out: {error}")
            return
        if length > len(data) - cursor.at:
            warnings.add(f"{info.name}+{at:#x}: the rest is left out: unit length {length:#x} passes the section's end")
            return
        cursor.end = cursor.at + length
        yield cursor, at, offset_size
        at = cursor.end


def _read_header(cursor: Cursor, start: int, offset_size: int, number: int) -> Unit | None:
    """The unit's header; None for a type unit."""
    version = cursor.unsigned(2)
    if not 2 <= version <= 5:
        raise Unsupported(f"DWARF version {version}")
    kind = cursor.unsigned(1) if version >= 5 else _COMPILE
    if version >= 5:
        address_size, abbreviations = cursor.unsigned(1), cursor.unsigned(offset_size)
    else:
        abbreviations, address_size = cursor.unsigned(offset_size), cursor.unsigned(1)
    if address_size not in (2, 4, 8):
        raise Unsupported(f"addresses of {address_size} bytes")
    if kind in _TYPE_UNITS:
        return None
    if kind in _ID_UNITS:
        cursor.skip(8)
    widths = Widths(address_size, offset_size, address_size if version == 2 else offset_size)
    return Unit(number, start, cursor.end, cursor.at, version, widths, abbreviations)


def _read_first_die(
    sections: DebugSections, strings: StringReader, unit: Unit, abbreviations: AbbreviationTables
) -> None:
    cursor = Cursor(sections.info.data, sections.info.name, unit.dies, unit.end)
    code = cursor.uleb()
    if not code:
        return
    abbreviation = abbreviations.table(unit.abbreviations, unit.widths).get(code)
    if abbreviation is None:
        raise cursor.fail(f"abbreviation {code} is not declared", unit.dies)
    unit.tag = abbreviation.tag
    _take(sections, strings, unit, _values(cursor, abbreviation))


def _values(cursor: Cursor, abbreviation: Abbreviation) -> dict[int, tuple[int, int | bytes | None]]:
    """The DIE's attributes: name -> (form, value as it stands)."""
    found: dict[int, tuple[int, int | bytes | None]] = {}
    for name, declared, _, constant in abbreviation.attributes:
        form = declared
        while form == _INDIRECT:
            form = cursor.uleb()
        found.setdefault(name, (form, forms.read(cursor, form, abbreviation.widths, constant)))
    return found


def _take(
    sections: DebugSections, strings: StringReader, unit: Unit, values: dict[int, tuple[int, int | bytes | None]]
) -> None:
    def number(attribute: int, default: int) -> int:
        value = values.get(attribute, (0, default))[1]
        return value & 0xFFFFFFFFFFFFFFFF if isinstance(value, int) else default

    # After the header of the contribution, where no attribute says it; GNU's extension of DWARF 4 has no header.
    header = (8 if unit.widths.offset == 4 else 16) if unit.version >= 5 else 0
    unit.str_offsets_base = number(_STR_OFFSETS_BASE, header)
    unit.addr_base = number(_ADDR_BASE, number(_GNU_ADDR_BASE, header))
    unit.states_addr_base = _ADDR_BASE in values
    unit.rnglists_base = number(_RNGLISTS_BASE, header + 4 if header else 0)
    form, line_table = values.get(_STMT_LIST, (0, None))
    unit.stmt_list = line_table if form in forms.OFFSETS and isinstance(line_table, int) else None
    unit.low_pc = _address(sections, unit, *values.get(_LOW_PC, (0, None)))
    unit.comp_dir = _text(sections, strings, unit, *values.get(_COMP_DIR, (0, None)))
    unit.name = _text(sections, strings, unit, *values.get(_NAME, (0, None)))


def _address(sections: DebugSections, unit: Unit, form: int, value: int | bytes | None) -> int:
    if not isinstance(value, int):
        return 0
    if form in forms.ADDRX_FORMS:
        size = unit.widths.address
        at = unit.addr_base + value * size
        return int.from_bytes(sections.addresses.data[at : at + size], "little")
    return value if form == _ADDR else 0


def _text(sections: DebugSections, strings: StringReader, unit: Unit, form: int, value: int | bytes | None) -> bytes:
    if isinstance(value, bytes):
        return value
    if value is None:
        return b""
    section = STRING_SECTIONS.get(form)
    if form in forms.STRX_FORMS:
        section = IN_STRINGS
        size = unit.widths.offset
        at = unit.str_offsets_base + value * size
        entry = sections.string_offsets.data[at : at + size]
        if len(entry) != size:
            return b""
        value = int.from_bytes(entry, "little")
    return b"" if section is None else strings.at(section, value) or b""
