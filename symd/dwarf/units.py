"""The units of ``.debug_info`` (DWARF 5, 7.5.1): headers, and what the first DIE of each says about the whole unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from symd.budget import exceeded
from symd.config import DEFAULT_LIMITS, Limits
from symd.core.strings import IN_STRINGS, StringReader
from symd.dwarf import forms
from symd.dwarf.abbreviations import Abbreviation, AbbreviationTables, Table
from symd.dwarf.constants import At, Form, Ut
from symd.dwarf.cursor import Cursor
from symd.dwarf.forms import Widths
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.split_units import Contributions
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed, SymdError, Unsupported

_TYPE_UNITS = frozenset({Ut.DW_UT_type, Ut.DW_UT_split_type})
_ID_UNITS = frozenset({Ut.DW_UT_skeleton, Ut.DW_UT_split_compile})
"""Units in whose header an id of 8 bytes follows."""
_NO_CONTRIBUTIONS = Contributions(*[0] * len(Contributions._fields))
_COMPILE = int(Ut.DW_UT_compile)
_ADDR, _INDIRECT = int(Form.DW_FORM_addr), int(Form.DW_FORM_indirect)
_NAME, _COMP_DIR = int(At.DW_AT_name), int(At.DW_AT_comp_dir)
_STMT_LIST, _LOW_PC = int(At.DW_AT_stmt_list), int(At.DW_AT_low_pc)
_STR_OFFSETS_BASE, _RNGLISTS_BASE = int(At.DW_AT_str_offsets_base), int(At.DW_AT_rnglists_base)
_ADDR_BASE, _GNU_ADDR_BASE = int(At.DW_AT_addr_base), int(At.DW_AT_GNU_addr_base)
_DWO_NAME, _GNU_DWO_NAME = int(At.DW_AT_dwo_name), int(At.DW_AT_GNU_dwo_name)
_GNU_DWO_ID, _GNU_RANGES_BASE = int(At.DW_AT_GNU_dwo_id), int(At.DW_AT_GNU_ranges_base)


@dataclass(slots=True, eq=False)
class Unit:
    """One compile, partial or skeleton unit: ``.debug_info[offset:end]``, its first DIE at ``dies``.

    ``stmt_list`` is the offset of its line table, or None; ``low_pc`` the base of its range lists; the ``*_base``
    numbers are offsets into ``.debug_str_offsets``, ``.debug_addr`` and ``.debug_rnglists``. ``states_addr_base`` tells
    whether the unit says so itself (DW_AT_addr_base).

    A skeleton unit and the split unit that belongs to it have the same ``dwo_id``; ``dwo_name`` is the file in which the
    skeleton's is. In a split unit (``contributions``) all that the skeleton says holds; offsets of range lists count from
    ``ranges_base``. ``table`` are its abbreviations; None where it has no DIE.
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
    ranges_base: int = 0
    has_children: bool = False
    dwo_id: int | None = None
    dwo_name: bytes = b""
    contributions: Contributions | None = None
    table: Table | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Units:
    """The units that can be read, in order; ``warnings`` name the others.

    Where only some of an object's units are wanted (``selection``), ``skipped_tables`` are the offsets of the line
    tables that none of these refers to.

    In the place of a skeleton unit stands the split unit that belongs to it, where that is there.
    """

    units: tuple[Unit, ...]
    warnings: tuple[str, ...] = ()
    skipped_tables: frozenset[int] = frozenset()

    def missing_files(self) -> Iterator[str]:
        """What is to be said of units whose debug data stands in files that are not here."""
        for unit in self.units:
            if unit.dwo_name and unit.contributions is None:
                name = unit.dwo_name.decode("utf-8", "replace")
                yield f"debug data of {unit.name.decode('utf-8', 'replace') or 'a unit'} is in {name}, which is not here"


def read_units(
    sections: DebugSections, limits: Limits = DEFAULT_LIMITS, abbreviations: AbbreviationTables | None = None
) -> Units:
    """Read the header and the first DIE of every unit of ``.debug_info``.

    Type units are passed over. A unit that cannot be read is left out with a warning, and one whose length leads out
    of the section ends the walk. Raises LimitExceeded for abbreviation tables that overlap without end, and for more
    than ``limits.debug_units``. ``abbreviations`` are those of ``sections`` where somebody has begun to read them.
    """
    reader = _UnitReader(sections, limits, abbreviations)
    end = min((each.start for each in sections.info.split), default=len(sections.info.data))
    units = reader.units(0, end)
    if sections.info.split:
        units = _with_split(units, reader.split_units(), reader.warnings)
    return Units(tuple(units), reader.warnings.all())


def split_units(sections: DebugSections, limits: Limits = DEFAULT_LIMITS) -> tuple[Unit, ...]:
    """The units of ``.dwo`` files, whether the object has their skeletons or not."""
    return tuple(_UnitReader(sections, limits).split_units())


class _UnitReader:
    """Reads units of ``.debug_info``; those that cannot be read are named in ``warnings``."""

    def __init__(
        self, sections: DebugSections, limits: Limits, abbreviations: AbbreviationTables | None = None
    ) -> None:
        self._most = self._left = limits.debug_units
        self.abbreviations = abbreviations or AbbreviationTables(sections.abbreviations, sections.budget)
        self.warnings = Warnings()
        self._sections = sections
        self._strings = StringReader(sections)

    def units(self, start: int, end: int, contributions: Contributions | None = None) -> list[Unit]:
        """Those of ``.debug_info[start:end]``; split ones where ``contributions`` are given."""
        found: list[Unit] = []
        for cursor, at, offset_size in _walk(self._sections.info, start, end, self.warnings):
            self._count()
            try:
                unit = _read_header(cursor, at, offset_size, len(found))
                if unit is not None:
                    self._read_first_die(unit, contributions)
                    found.append(unit)
            except (Malformed, Unsupported) as error:
                self.warnings.add(f"{self._sections.info.name}+{at:#x}: unit left out: {error}")
        return found

    def _count(self) -> None:
        if not self._left:
            what = f"has more than debug_units = {self._most} units"
            raise exceeded("debug_units", self._most, what, self._sections.info.name)
        self._left -= 1
        if self._sections.budget is not None:
            self._sections.budget.count_headers(1, self._sections.info.name)

    def split_units(self) -> list[Unit]:
        """Those of ``.dwo`` files, which stand behind all others."""
        return [unit for each in self._sections.info.split for unit in self.units(each.start, each.end, each)]

    def _read_first_die(self, unit: Unit, contributions: Contributions | None) -> None:
        if contributions is not None:
            unit.contributions = contributions
            unit.abbreviations += contributions.abbreviations
        _read_first_die(self._sections, self._strings, unit, self.abbreviations)


def _with_split(units: Sequence[Unit], split: Sequence[Unit], warnings: Warnings) -> list[Unit]:
    """``units`` with split units, which come last, in the place of their skeletons."""
    skeletons = {unit.dwo_id: unit for unit in units if unit.dwo_id is not None}
    first = {unit.dwo_id: unit for unit in reversed(split)}
    found = [
        replace(
            unit,
            comp_dir=skeletons[unit.dwo_id].comp_dir,
            stmt_list=skeletons[unit.dwo_id].stmt_list,
            low_pc=skeletons[unit.dwo_id].low_pc,
            addr_base=skeletons[unit.dwo_id].addr_base,
            ranges_base=_ranges_base(unit, skeletons[unit.dwo_id]),
        )
        for unit in split
        if unit.dwo_id in skeletons and first[unit.dwo_id] is unit
    ]
    if len(found) < len(split):
        warnings.add(
            f"{len(split) - len(found)} split units belong to no unit of this object: they are of another build"
        )
    known = {unit.dwo_id for unit in found}
    kept = [unit for unit in units if unit.dwo_id is None or unit.dwo_id not in known]
    return [replace(unit, number=number) for number, unit in enumerate([*kept, *found])]


def _ranges_base(unit: Unit, skeleton_unit: Unit) -> int:
    """What offsets of range lists in a split unit count from: those of DWARF 4 are lists of the object itself."""
    if unit.version < 5 or unit.contributions is None:
        return skeleton_unit.ranges_base
    return unit.contributions.range_lists


def _walk(info: DebugSection, start: int, end: int, warnings: Warnings) -> Iterator[tuple[Cursor, int, int]]:
    """A cursor after the length field of every unit in ``info[start:end]``, the unit's offset and its offset size."""
    data, at, end = info.data, start, min(end, len(info.data))
    while at < end:
        cursor = Cursor(data, info.name, at, end)
        try:
            length, offset_size = cursor.initial_length()
        except SymdError as error:
            warnings.add(f"the rest of the section is left out: {error}")
            return
        if length > end - cursor.at:
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
    dwo_id = cursor.unsigned(8) if kind in _ID_UNITS else None
    widths = Widths(address_size, offset_size, address_size if version == 2 else offset_size)
    return Unit(number, start, cursor.end, cursor.at, version, widths, abbreviations, dwo_id=dwo_id)


def _read_first_die(
    sections: DebugSections, strings: StringReader, unit: Unit, abbreviations: AbbreviationTables
) -> None:
    cursor = Cursor(sections.info.data, sections.info.name, unit.dies, unit.end)
    code = cursor.uleb()
    if not code:
        return
    unit.table = abbreviations.table(unit.abbreviations, unit.widths)
    abbreviation = unit.table.get(code)
    if abbreviation is None:
        raise cursor.fail(f"abbreviation {code} is not declared", unit.dies)
    unit.tag, unit.has_children = abbreviation.tag, abbreviation.has_children
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
    own = unit.contributions or _NO_CONTRIBUTIONS
    unit.str_offsets_base = number(_STR_OFFSETS_BASE, own.string_offsets + header)
    unit.addr_base = number(_ADDR_BASE, number(_GNU_ADDR_BASE, header))
    unit.states_addr_base = _ADDR_BASE in values
    unit.rnglists_base = number(_RNGLISTS_BASE, own.range_lists + (header + 4 if header else 0))
    unit.ranges_base = number(_GNU_RANGES_BASE, 0)
    if _GNU_DWO_ID in values:
        unit.dwo_id = number(_GNU_DWO_ID, 0)
    form, line_table = values.get(_STMT_LIST, (0, None))
    unit.stmt_list = line_table if form in forms.OFFSETS and isinstance(line_table, int) else None
    unit.low_pc = _address(sections, unit, *values.get(_LOW_PC, (0, None))) + number(forms.LOW_PC_OFFSET, 0)
    unit.comp_dir = _text(sections, strings, unit, *values.get(_COMP_DIR, (0, None)))
    unit.name = _text(sections, strings, unit, *values.get(_NAME, (0, None)))
    unit.dwo_name = _text(sections, strings, unit, *values.get(_DWO_NAME, values.get(_GNU_DWO_NAME, (0, None))))


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
    section = forms.STRING_SECTIONS.get(form)
    if form in forms.STRX_FORMS:
        section = IN_STRINGS
        size = unit.widths.offset
        at = unit.str_offsets_base + value * size
        entry = sections.string_offsets.data[at : at + size]
        if len(entry) != size:
            return b""
        value = int.from_bytes(entry, "little")
    return b"" if section is None else strings.at(section, value) or b""
