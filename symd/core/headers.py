# cython: language_level=3, boundscheck=True, wraparound=False
"""Headers of units (DWARF 5, 7.5.1) with what the first DIE of each says about the whole unit, and headers of line
tables (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each): parameters, directories, files, where the program is."""

from __future__ import annotations

from array import array

import cython

from symd.core.byte_reader import IN_LINE_STRINGS, IN_STRINGS, StringReader
from symd.core.line_program import ProgramParameters
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
if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


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
    _string_offsets = cython.declare(cython.const[cython.uchar][::1])
    _addresses = cython.declare(cython.const[cython.uchar][::1])

    def __init__(self, sections: Any) -> None:
        """``sections`` are ``symd.debuginfo.dwarf.sections.DebugSections``."""
        self._string_offsets = self._addresses = None
        self._content = content = sections.info.data
        self.data, self.section = content, sections.info.name
        self._sections, self._strings = sections, StringReader(sections)

    def length(self, at: int, end: int) -> int:
        """The length of the unit at an offset, as it says; no unit goes on behind ``end``. Raises Malformed."""
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

    def first_die(self, unit: Any, table: abbreviations.AbbreviationTable, code: int, contributions: Any) -> None:
        """Tell the ``unit`` (``symd.debuginfo.dwarf.units.Unit``) what its first DIE says. ``contributions`` are
        ``symd.debuginfo.dwarf.sections.Contributions`` where it is of a ``.dwo`` file. Raises Malformed."""
        number: cython.int = table.find(code)
        if number < 0:
            self.at = unit.dies
            raise self.fail(f"abbreviation {code} is not declared")
        # Behind the header of the contribution, where no attribute says it; GNU's extension of DWARF 4 has no header.
        header: cython.ulonglong = 0 if self.version < 5 else 8 if self.offset_size == 4 else 16
        str_offsets_base: cython.ulonglong = header
        rnglists_base: cython.ulonglong = header + 4 if header else 0
        if contributions is not None:
            str_offsets_base += contributions.string_offsets
            rnglists_base += contributions.range_lists
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
        packed: cython.uint
        attribute: cython.int
        kind: cython.int
        layout: cython.int
        form: cython.ulonglong
        value: cython.ulonglong
        for step in range(table.first_read[number], table.first_read[number + 1]):
            packed = table.read_steps[step]
            attribute = packed & abbreviations.ATTRIBUTE_MASK
            layout = cython.cast(cython.int, packed >> abbreviations.LAYOUT_SHIFT) - abbreviations.LAYOUT_BIAS
            if attribute == abbreviations.SKIPPED:
                self.pass_value(table, layout)
                continue
            kind = packed >> abbreviations.KIND_SHIFT & abbreviations.KIND_MASK
            if layout == abbreviations.INDIRECT:
                form = self.form(table)
                kind, layout = table.kind(form), table.layout(form)
            value = self.value(table, layout, table.constants[step])
            if attribute == abbreviations.NAME:
                name_kind, name = kind, value
            elif attribute == abbreviations.COMP_DIR:
                comp_dir_kind, comp_dir = kind, value
            elif attribute == abbreviations.DWO_NAME or (attribute == abbreviations.GNU_DWO_NAME and not has_dwo_name):
                dwo_kind, dwo_name = kind, value
                has_dwo_name = attribute == abbreviations.DWO_NAME
            elif attribute == abbreviations.LOW_PC:
                low_kind, low = kind, value
            elif kind in (abbreviations.STRING_KIND, abbreviations.BLOCK_KIND) or layout > 8:
                # No number: what is stated without a value that can be used is stated nonetheless.
                if attribute == abbreviations.ADDR_BASE:
                    has_addr_base = True
                elif attribute == abbreviations.GNU_DWO_ID:
                    dwo_id = 0
            elif attribute == abbreviations.STMT_LIST:
                if kind in (abbreviations.SEC_OFFSET_KIND, abbreviations.DATA_KIND):
                    stmt_list = value
            elif attribute == abbreviations.LOW_PC_OFFSET:
                low_offset = value
            elif attribute == abbreviations.STR_OFFSETS_BASE:
                str_offsets_base = value
            elif attribute == abbreviations.RNGLISTS_BASE:
                rnglists_base = value
            elif attribute == abbreviations.ADDR_BASE:
                addr_base, has_addr_base = value, True
            elif attribute == abbreviations.GNU_ADDR_BASE:
                if not has_addr_base:
                    addr_base = value
            elif attribute == abbreviations.GNU_RANGES_BASE:
                ranges_base = value
            elif attribute == abbreviations.GNU_DWO_ID:
                dwo_id = value
        if low_kind == abbreviations.ADDRX_KIND:
            if self._addresses is None:
                self._addresses = self._sections.addresses.data
            low = self.entry(self._addresses, addr_base, low, self.address_size)
            if not self.last_found:
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
            value = self.entry(self._string_offsets, base, value, self.offset_size)
            found = self._strings.at(IN_STRINGS, value) if self.last_found else None
        return b"" if found is None else found


@cython.cfunc
def _unsupported(what: str) -> object:
    return Unsupported(what)


# Contents of entries (7.22), and LLVM's.
_PATH = cython.declare(cython.ulonglong, 0x1)
_DIRECTORY_INDEX = cython.declare(cython.ulonglong, 0x2)
_MD5 = cython.declare(cython.ulonglong, 0x5)
_LLVM_SOURCE = cython.declare(cython.ulonglong, 0x2001)
# Forms of their values (7.5.6).
_BLOCK2 = cython.declare(cython.ulonglong, 0x03)
_BLOCK4 = cython.declare(cython.ulonglong, 0x04)
_DATA2 = cython.declare(cython.ulonglong, 0x05)
_DATA4 = cython.declare(cython.ulonglong, 0x06)
_DATA8 = cython.declare(cython.ulonglong, 0x07)
_FLAG = cython.declare(cython.ulonglong, 0x0C)
_SEC_OFFSET = cython.declare(cython.ulonglong, 0x17)
_STRX = cython.declare(cython.ulonglong, 0x1A)
_STRP_SUP = cython.declare(cython.ulonglong, 0x1D)
_STRX1 = cython.declare(cython.ulonglong, 0x25)
_STRX2 = cython.declare(cython.ulonglong, 0x26)
_STRX3 = cython.declare(cython.ulonglong, 0x27)
_STRX4 = cython.declare(cython.ulonglong, 0x28)
_STRING = cython.declare(cython.ulonglong, 0x08)
_BLOCK = cython.declare(cython.ulonglong, 0x09)
_BLOCK1 = cython.declare(cython.ulonglong, 0x0A)
_DATA1 = cython.declare(cython.ulonglong, 0x0B)
_SDATA = cython.declare(cython.ulonglong, 0x0D)
_STRP = cython.declare(cython.ulonglong, 0x0E)
_UDATA = cython.declare(cython.ulonglong, 0x0F)
_DATA16 = cython.declare(cython.ulonglong, 0x1E)
_LINE_STRP = cython.declare(cython.ulonglong, 0x1F)
_MAX_NUMBERS = 2 * 255
"""A table's formats are as many pairs as fit into a byte."""


@cython.cclass
class LineHeader:
    """One table's header. ``files`` are (name, directory index), ``tables`` is where directories and files are listed,
    and the program stands from ``program`` to ``end``: all places count from the beginning of the section.

    ``names_base`` is where NVIDIA's inline names count from in ``.debug_str`` (0 where the header does not say).
    """

    offset = cython.declare(cython.Py_ssize_t, visibility="readonly")
    end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    program = cython.declare(cython.Py_ssize_t, visibility="readonly")
    version = cython.declare(cython.int, visibility="readonly")
    parameters = cython.declare(object, visibility="readonly")
    offset_size = cython.declare(cython.int, visibility="readonly")
    tables = cython.declare(cython.Py_ssize_t, visibility="readonly")
    directories = cython.declare(list, visibility="readonly")
    files = cython.declare(list, visibility="readonly")
    names_base = cython.declare(cython.ulonglong, visibility="readonly")


@cython.cclass
class LineHeaderReader(ByteReader):
    """Reads the headers of the tables of ``data``, the section called ``section``, one after the other."""

    _content = cython.declare(bytes)
    _formats = cython.declare(cython.ulonglong[::1])
    _strings = cython.declare(object)
    _listed = cython.declare(object)

    def __init__(self, data: bytes, section: str, strings: StringReader, listed: Any = None) -> None:
        """``listed.add``, where it is given, is told of directories and files before headers' are read, and may
        raise."""
        self.data, self._content, self.section = data, data, section
        self._strings, self._listed = strings, listed
        self._formats = _NO_NUMBERS

    def length(self, at: int) -> int:
        """The length of the table at an offset, as it says. Raises Malformed."""
        self.at, self.end = at, len(self.data)
        found: int = self.initial_length()
        return found

    def read(self, offset: int, end: int) -> LineHeader:
        """The header of the table at ``offset``, behind whose length the reader is and which ends at ``end``. Raises
        Malformed or Unsupported, which name the place."""
        header = LineHeader()
        self.end = header.end = end
        header.offset, header.offset_size, header.names_base = offset, self.offset_size, 0
        header.version = cython.cast(cython.int, self.uint(2))
        if not 2 <= header.version <= 5:
            what = f"line table version {header.version} is not read; 2 to 5 are"
            raise Unsupported(what, where=f"{self.section}+{offset:#x}")
        if header.version >= 5:
            self.skip(2)  # address_size, segment_selector_size: set_address says its own length
        length: cython.ulonglong = self.uint(self.offset_size)
        if length > cython.cast(cython.ulonglong, self.end - self.at):
            raise self.fail(f"the header's length {length:#x} passes the end of its table")
        header.program = self.at + cython.cast(cython.Py_ssize_t, length)
        header.parameters = self._parameters(header.version)
        header.tables = self.at
        self.end = header.program
        header.directories, header.files = [], []
        if header.version >= 5:
            header.directories = [path for path, _ in self._entries(_PATH, 0, 0, True)]
            header.files = self._entries(_PATH, _DIRECTORY_INDEX, 0, True)
        else:
            self._read_old_tables(header)
        return header

    def details(self, header: LineHeader) -> list[tuple[bytes, bytes]]:
        """What a header that was read says of its files besides their names, entry for entry; nothing before DWARF 5:
        the MD5 of the file that the compiler read (16 bytes), and its whole text; b"" where the table does not say."""
        if header.version < 5:
            return []
        self.at, self.end, self.offset_size = header.tables, header.program, header.offset_size
        self._entries(0, 0, b"", False)
        found: list[tuple[bytes, bytes]] = self._entries(_MD5, _LLVM_SOURCE, b"", False)
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _count(self, number: cython.ulonglong) -> cython.int:
        """Count directories or files that are about to be read."""
        if self._listed is not None:
            self._listed.add(number)
        return 0

    @cython.cfunc
    def _parameters(self, version: cython.int) -> object:
        min_inst_length: cython.int = cython.cast(cython.int, self.uint(1))
        max_ops: cython.int = cython.cast(cython.int, self.uint(1)) if version >= 4 else 1
        default_is_stmt: cython.bint = self.uint(1) != 0
        line_base: cython.int = cython.cast(cython.int, self.uint(1))
        line_range: cython.int = cython.cast(cython.int, self.uint(1))
        opcode_base: cython.int = cython.cast(cython.int, self.uint(1))
        if not (max_ops and line_range and opcode_base):
            raise self.fail(f"line_range {line_range}, opcode_base {opcode_base}, operations {max_ops}: none may be 0")
        counts: cython.Py_ssize_t = self.at
        self.skip(opcode_base - 1)
        return ProgramParameters(
            opcode_base,
            line_base - 256 if line_base >= 128 else line_base,
            line_range,
            min_inst_length,
            max_ops,
            default_is_stmt,
            self._content[counts : self.at],
        )

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _read_old_tables(self, header: LineHeader) -> cython.int:
        """include_directories and file_names of DWARF 2-4; four bytes after them are NVIDIA's base of inline names."""
        directory: cython.ulonglong
        if self.at == self.end:
            return 0
        while text := self._text():
            self._count(1)
            header.directories.append(text)
        while text := self._text():
            self._count(1)
            directory = self.uleb()
            self.uleb()  # the time
            self.uleb()  # the length
            header.files.append((text, directory))
        if self.end - self.at == 4:
            header.names_base = self.uint(4)
        return 0

    @cython.cfunc
    def _entries(
        self, first: cython.ulonglong, second: cython.ulonglong, default: object, is_counted: cython.bint
    ) -> list[tuple[Any, Any]]:
        """Two contents of every entry of a DWARF 5 directory or file table: bytes, and what is of the kind of
        ``default``, which stands where the table does not say. 0 is no content."""
        if not len(self._formats):
            self._formats = array("Q", bytes(8 * _MAX_NUMBERS))
        formats: cython.ulonglong[::1] = self._formats
        columns: cython.Py_ssize_t = 2 * cython.cast(cython.Py_ssize_t, self.uint(1))
        column: cython.Py_ssize_t
        for column in range(columns):
            formats[column] = self.uleb()
        count: cython.ulonglong = self.uleb()
        if count and not columns:
            raise self.fail(f"{count} entries without a format")
        if count > cython.cast(cython.ulonglong, self.end - self.at):  # a value of any form has a byte at least
            raise self.fail(f"{count} entries in {self.end - self.at} bytes")
        if is_counted:
            self._count(count)
        is_text: cython.bint = isinstance(default, bytes)
        is_wanted: cython.bint
        found: list[tuple[Any, Any]] = []
        while count > cython.cast(cython.ulonglong, len(found)):
            one: object = b""
            other: object = default
            for column in range(0, columns, 2):
                is_wanted = formats[column] != 0 and formats[column] in (first, second)
                value: object = self._value(formats[column + 1], is_wanted)
                if not is_wanted:
                    continue
                if formats[column] == first:
                    one = value if isinstance(value, bytes) else b""
                else:
                    other = value if value is not None and isinstance(value, bytes) == is_text else default
            found.append((one, other))
        return found

    @cython.cfunc
    def _value(self, form: cython.ulonglong, is_wanted: cython.bint) -> object:
        """One value of an entry: bytes or a number; None where its string is not there, or nobody wants it."""
        size: cython.ulonglong
        if form in (_LINE_STRP, _STRP):
            size = self.uint(self.offset_size)
            return self._strings.at(IN_STRINGS if form == _STRP else IN_LINE_STRINGS, size) if is_wanted else None
        if form == _STRING:
            return self._text()
        if form == _UDATA or (form == _STRX and not is_wanted):
            return self.uleb()
        if form == _SDATA:
            return self.sleb()
        if form in (_DATA1, _DATA2, _DATA4, _DATA8):
            return self.uint(1 if form == _DATA1 else 2 if form == _DATA2 else 4 if form == _DATA4 else 8)
        if form == _DATA16:
            size = 16
        elif form == _BLOCK:
            size = self.uleb()
        elif form in (_BLOCK1, _BLOCK2, _BLOCK4):
            size = self.uint(1 if form == _BLOCK1 else 2 if form == _BLOCK2 else 4)
        elif form in (_FLAG, _SEC_OFFSET, _STRP_SUP, _STRX1, _STRX2, _STRX3, _STRX4) and not is_wanted:
            size = self.offset_size if form in (_SEC_OFFSET, _STRP_SUP) else 1 if form == _FLAG else form - _STRX1 + 1
        else:
            raise self.fail(f"form {form:#x} in a file table")
        start: cython.Py_ssize_t = self.at
        self.skip(size)
        return self._content[start : self.at] if is_wanted else None

    @cython.cfunc
    def _text(self) -> bytes:
        """A string that ends in NUL, without it."""
        start: cython.Py_ssize_t = self.at
        self.pass_text()
        found: bytes = self._content[start : self.at - 1]
        return found


_NO_NUMBERS = cython.declare(cython.ulonglong[::1], array("Q"))
