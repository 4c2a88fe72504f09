# cython: language_level=3, boundscheck=True, wraparound=False
"""Line-table headers (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each): parameters, directories, files, where the program
is."""

from __future__ import annotations

from array import array

import cython

from symd.core.line_program import ProgramParameters
from symd.core.strings import IN_LINE_STRINGS, IN_STRINGS, StringReader
from symd.errors import Unsupported
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


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
_MOST_NUMBERS = 2 * 255
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
        """The length of the table at a place, as it says. Raises Malformed."""
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
            self._formats = array("Q", bytes(8 * _MOST_NUMBERS))
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
