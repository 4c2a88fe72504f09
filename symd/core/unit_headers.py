# cython: language_level=3, boundscheck=True, wraparound=False
"""Unit headers (DWARF 5, 7.5.1), and what the first DIE of each unit says about the whole unit."""

from __future__ import annotations

import cython

from symd.core.strings import IN_LINE_STRINGS, IN_STRINGS, StringReader
from symd.errors import Unsupported
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import abbreviations, range_lists
else:
    from symd.core import abbreviations, range_lists
if cython.compiled:
    from cython.cimports.symd.core.dies import ValueReader
else:
    from symd.core.dies import ValueReader


# Kinds of units (7.5.1).
_COMPILE = cython.declare(cython.int, 0x01)
_TYPE = cython.declare(cython.int, 0x02)
_SKELETON = cython.declare(cython.int, 0x04)
_SPLIT_COMPILE = cython.declare(cython.int, 0x05)
_SPLIT_TYPE = cython.declare(cython.int, 0x06)
_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cclass
class UnitReader(ValueReader):
    """Reads the units of ``.debug_info`` one after the other: of each its ``length``, then its ``header``, then the
    ``code`` of its first DIE, then the ``first_die``. What was read of a header: the ``version``, the sizes of
    addresses and offsets, the offset of its table of abbreviations (``table_offset``), and ``dwo_id``, or None."""

    version = cython.declare(cython.int, visibility="readonly")
    address_size = cython.declare(cython.int, visibility="readonly")
    table_offset = cython.declare(cython.ulonglong, visibility="readonly")
    dwo_id = cython.declare(object, visibility="readonly")
    _content = cython.declare(bytes)
    _sections = cython.declare(object)
    _strings = cython.declare(object)
    _string_offsets = cython.declare(bytes)
    _is_there = cython.declare(cython.bint)

    def __init__(self, sections: Any) -> None:
        """``sections`` are ``symd.debuginfo.dwarf.sections.DebugSections``."""
        self._string_offsets = None
        self._content = content = sections.info.data
        self.data, self.section = content, sections.info.name
        self._sections, self._strings = sections, StringReader(sections)

    def length(self, at: int, end: int) -> int:
        """The length of the unit at a place, as it says; no unit goes on behind ``end``. Raises Malformed."""
        self.at, self.end = at, min(end, len(self.data))
        found: int = self.initial_length()
        return found

    def header(self, end: int) -> bool:
        """Whether the unit that ends at ``end`` is another one than a type unit. Raises Malformed, Unsupported."""
        self.end = end
        self.dwo_id = None
        self.version = cython.cast(cython.int, self.uint(2))
        if not 2 <= self.version <= 5:
            raise _unsupported(f"DWARF version {self.version}")
        kind: cython.int = cython.cast(cython.int, self.uint(1)) if self.version >= 5 else _COMPILE
        if self.version >= 5:
            self.address_size = cython.cast(cython.int, self.uint(1))
            self.table_offset = self.uint(self.offset_size)
        else:
            self.table_offset = self.uint(self.offset_size)
            self.address_size = cython.cast(cython.int, self.uint(1))
        if self.address_size not in (2, 4, 8):
            raise _unsupported(f"addresses of {self.address_size} bytes")
        if not _COMPILE <= kind <= _SPLIT_TYPE:
            raise _unsupported(f"unit type {kind:#x}")
        if kind in (_TYPE, _SPLIT_TYPE):
            return False
        if kind in (_SKELETON, _SPLIT_COMPILE):
            self.dwo_id = self.uint(8)
        return True

    def code(self) -> int:
        """The code of the abbreviation of the first DIE. Raises Malformed."""
        found: int = self.uleb()
        return found

    def first_die(self, unit: Any, table: abbreviations.AbbreviationTable, code: int, own: Any) -> None:
        """Tell the ``unit`` (``symd.debuginfo.dwarf.units.Unit``) what its first DIE says. ``own`` are
        ``symd.debuginfo.dwarf.sections.Contributions`` where it is of a ``.dwo`` file. Raises Malformed."""
        number: cython.int = table.find(code)
        if number < 0:
            self.at = unit.dies
            raise self.fail(f"abbreviation {code} is not declared")
        # Behind the header of the contribution, where no attribute says it; GNU's extension of DWARF 4 has no header.
        header: cython.ulonglong = 0 if self.version < 5 else 8 if self.offset_size == 4 else 16
        str_offsets_base: cython.ulonglong = header
        rnglists_base: cython.ulonglong = header + 4 if header else 0
        if own is not None:
            str_offsets_base += own.string_offsets
            rnglists_base += own.range_lists
        addr_base: cython.ulonglong = header
        has_addr_base: cython.bint = False
        ranges_base: cython.ulonglong = 0
        low_kind: cython.int = abbreviations.OTHER_KIND
        low: cython.ulonglong = 0
        low_offset: cython.ulonglong = 0
        comp_dir_kind: cython.int = abbreviations.OTHER_KIND
        comp_dir: cython.ulonglong = 0
        name_kind: cython.int = abbreviations.OTHER_KIND
        name: cython.ulonglong = 0
        dwo_kind: cython.int = abbreviations.OTHER_KIND
        dwo_name: cython.ulonglong = 0
        has_dwo_name: cython.bint = False
        dwo_id: object = self.dwo_id
        stmt_list: object = None
        step: cython.Py_ssize_t
        take: cython.uint
        column: cython.int
        kind: cython.int
        layout: cython.int
        form: cython.ulonglong
        value: cython.ulonglong
        for step in range(table.first_take[number], table.first_take[number + 1]):
            take = table.takes[step]
            column = take & abbreviations.COLUMN_MASK
            layout = cython.cast(cython.int, take >> abbreviations.LAYOUT_SHIFT) - abbreviations.LAYOUT_BIAS
            if column == abbreviations.SKIPPED:
                self.pass_value(table, layout)
                continue
            kind = take >> abbreviations.KIND_SHIFT & abbreviations.KIND_MASK
            if layout == abbreviations.INDIRECT:
                form = self.form(table)
                kind, layout = table.kind(form), table.layout(form)
            value = self.value(table, layout, table.constants[step])
            if column == abbreviations.NAME:
                name_kind, name = kind, value
            elif column == abbreviations.COMP_DIR:
                comp_dir_kind, comp_dir = kind, value
            elif column == abbreviations.DWO_NAME or (column == abbreviations.GNU_DWO_NAME and not has_dwo_name):
                dwo_kind, dwo_name = kind, value
                has_dwo_name = column == abbreviations.DWO_NAME
            elif column == abbreviations.LOW_PC:
                low_kind, low = kind, value
            elif kind in (abbreviations.STRING_KIND, abbreviations.BLOCK_KIND) or layout > 8:
                # No number: what is stated without a value that can be used is stated nonetheless.
                if column == abbreviations.ADDR_BASE:
                    has_addr_base = True
                elif column == abbreviations.GNU_DWO_ID:
                    dwo_id = 0
            elif column == abbreviations.STMT_LIST:
                if kind in (abbreviations.SEC_OFFSET_KIND, abbreviations.DATA_KIND):
                    stmt_list = value
            elif column == abbreviations.LOW_PC_OFFSET:
                low_offset = value
            elif column == abbreviations.STR_OFFSETS_BASE:
                str_offsets_base = value
            elif column == abbreviations.RNGLISTS_BASE:
                rnglists_base = value
            elif column == abbreviations.ADDR_BASE:
                addr_base, has_addr_base = value, True
            elif column == abbreviations.GNU_ADDR_BASE:
                if not has_addr_base:
                    addr_base = value
            elif column == abbreviations.GNU_RANGES_BASE:
                ranges_base = value
            elif column == abbreviations.GNU_DWO_ID:
                dwo_id = value
        if low_kind == abbreviations.ADDRX_KIND:
            low = self._entry(self._sections.addresses.data, addr_base, low, self.address_size)
            if not self._is_there:
                low, low_offset = _U64, 0
        elif low_kind != abbreviations.ADDR_KIND:
            low = 0
        unit.tag, unit.has_children = table.tags[number], table.have_children[number] != 0
        unit.str_offsets_base, unit.addr_base, unit.states_addr_base = str_offsets_base, addr_base, has_addr_base
        unit.rnglists_base, unit.ranges_base, unit.dwo_id = rnglists_base, ranges_base, dwo_id
        unit.stmt_list = stmt_list
        unit.low_pc = low if range_lists.is_dead(low, self.address_size) else (low + low_offset) & _U64
        unit.comp_dir = self._text(comp_dir_kind, comp_dir, str_offsets_base)
        unit.name = self._text(name_kind, name, str_offsets_base)
        unit.dwo_name = self._text(dwo_kind, dwo_name, str_offsets_base)

    @cython.cfunc
    def _text(self, kind: cython.int, value: cython.ulonglong, base: cython.ulonglong) -> bytes:
        """The string that an attribute says; nothing where it says none that is there."""
        start: cython.Py_ssize_t
        found: bytes | None = None
        if kind == abbreviations.STRING_KIND:
            start = self.at = cython.cast(cython.Py_ssize_t, value)
            self.pass_text()
            found = self._content[start : self.at - 1]
        elif kind == abbreviations.LINE_STRP_KIND:
            found = self._strings.at(IN_LINE_STRINGS, value)
        elif kind == abbreviations.STRP_KIND:
            found = self._strings.at(IN_STRINGS, value)
        elif kind == abbreviations.STRX_KIND:
            if self._string_offsets is None:
                self._string_offsets = self._sections.string_offsets.data
            value = self._entry(self._string_offsets, base, value, self.offset_size)
            found = self._strings.at(IN_STRINGS, value) if self._is_there else None
        return b"" if found is None else found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _entry(
        self, data: bytes, base: cython.ulonglong, number: cython.ulonglong, size: cython.int
    ) -> cython.ulonglong:
        """An entry of the table at ``base`` of a section; ``_is_there`` tells whether it has that."""
        end: cython.ulonglong = len(data)
        width: cython.ulonglong = size
        self._is_there = base <= end and number < (end - base) // width
        found: cython.ulonglong = 0
        byte: cython.int
        if self._is_there:
            at: cython.Py_ssize_t = base + number * width
            for byte in range(size):
                found |= cython.cast(cython.ulonglong, data[at + byte]) << (8 * byte)
        return found


@cython.cfunc
def _unsupported(what: str) -> object:
    return Unsupported(what)
