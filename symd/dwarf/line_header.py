"""Line-table headers (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each): parameters, directories, files, where the program is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from symd.budget import DebugBudget, exceeded
from symd.config import Limits
from symd.core.line_program import ProgramParameters
from symd.core.strings import StringReader
from symd.dwarf import forms
from symd.dwarf.constants import Form, Lnct
from symd.dwarf.cursor import Cursor
from symd.dwarf.sections import DebugSection
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed, SymdError, Unsupported

_PATH, _DIRECTORY_INDEX = int(Lnct.DW_LNCT_path), int(Lnct.DW_LNCT_directory_index)
_MD5, _LLVM_SOURCE = int(Lnct.DW_LNCT_MD5), int(Lnct.DW_LNCT_LLVM_source)

TEXT_COLUMN = bytes([_LLVM_SOURCE & 0x7F | 0x80, _LLVM_SOURCE >> 7])
"""DW_LNCT_LLVM_source as tables spell it: where it stands nowhere in their section they have no texts of files."""


@dataclass(slots=True, eq=False)
class LineHeader:
    """One table's header. ``files`` are (name, directory index), ``tables`` is where directories and files are listed,
    and the program stands from ``program`` to ``end``: all places count from the beginning of the section.

    ``names_base`` is where NVIDIA's inline names count from in ``.debug_str`` (0 where the header does not say).
    """

    offset: int
    end: int
    program: int
    version: int
    parameters: ProgramParameters
    offset_size: int
    tables: int
    directories: list[bytes] = field(default_factory=list)
    files: list[tuple[bytes, int]] = field(default_factory=list)
    names_base: int = 0


class FileDetails(NamedTuple):
    """``md5`` of the file that the compiler read (16 bytes), and its whole text (``source``); b"" where the table does
    not say."""

    md5: bytes
    source: bytes


def read_headers(
    section: DebugSection,
    strings: StringReader,
    skipped: frozenset[int],
    warnings: Warnings,
    limits: Limits,
    budget: DebugBudget | None = None,
) -> Iterator[LineHeader]:
    """The header of every table that has a readable one and does not begin at one of the ``skipped`` offsets. Raises
    LimitExceeded where they list more than ``limits.line_files`` directories and files together, or are more than
    ``budget`` has left."""
    data, at = section.data, 0
    listed = ListedFiles(section.name, limits)
    while at < len(data):
        cursor = Cursor(data, section.name, at, len(data))
        if budget is not None:
            budget.count_headers(1, section.name)
        try:
            length, offset_size = cursor.initial_length()
        except SymdError as error:
            warnings.add(f"the rest of the section is left out: {error}")
            return
        if length > len(data) - cursor.at:
            where = f"{section.name}+{at:#x}"
            warnings.add(f"{where}: the rest is left out: table length {length:#x} passes the section's end")
            return
        cursor.end = end = cursor.at + length
        try:
            if length and at not in skipped:
                yield read_header(cursor, strings, at, offset_size, listed)
        except (Malformed, Unsupported) as error:
            warnings.add(f"{section.name}+{at:#x}: line table left out: {error}")
        at = end


class ListedFiles:
    """Counts the directories and files that an object's line tables list: an entry may take no more than a byte of a
    section that was compressed, and hundreds of memory."""

    def __init__(self, section: str, limits: Limits) -> None:
        self._section, self._most, self._count = section, limits.line_files, 0

    def add(self, number: int) -> None:
        """``number`` more are about to be read. Raises LimitExceeded."""
        self._count += number
        if self._count > self._most:
            what = f"line tables list more than {self._most} directories and files"
            raise exceeded("line_files", self._most, what, self._section)


def read_header(
    cursor: Cursor, strings: StringReader, offset: int, offset_size: int, listed: ListedFiles
) -> LineHeader:
    """The header of the table at ``offset``, which ends where the cursor does; the cursor is after the length field.

    Raises Malformed or Unsupported, which name the place.
    """
    end = cursor.end
    version = cursor.unsigned(2)
    if not 2 <= version <= 5:
        raise Unsupported(
            f"line table version {version} is not read; 2 to 5 are", where=f"{cursor.section}+{offset:#x}"
        )
    if version >= 5:
        cursor.skip(2)  # address_size, segment_selector_size: set_address says its own length
    header_length = cursor.unsigned(offset_size)
    program = cursor.at + header_length
    if program > end:
        raise cursor.fail(f"the header's length {header_length:#x} passes the end of its table")
    parameters = _parameters(cursor, version)
    header = LineHeader(offset, end, program, version, parameters, offset_size, cursor.at)
    cursor.end = program
    if version >= 5:
        header.directories = [path for path, _ in _names(cursor, strings, offset_size, listed)]
        header.files = _names(cursor, strings, offset_size, listed)
    else:
        _read_old_tables(cursor, header, listed)
    return header


def _parameters(cursor: Cursor, version: int) -> ProgramParameters:
    min_inst_length = cursor.unsigned(1)
    max_ops = cursor.unsigned(1) if version >= 4 else 1
    default_is_stmt = cursor.unsigned(1) != 0
    line_base = cursor.unsigned(1)
    line_range = cursor.unsigned(1)
    opcode_base = cursor.unsigned(1)
    if not (max_ops and line_range and opcode_base):
        raise cursor.fail(f"line_range {line_range}, opcode_base {opcode_base}, operations {max_ops}: none may be 0")
    counts = cursor.skip(opcode_base - 1)
    return ProgramParameters(
        opcode_base,
        line_base - 256 if line_base >= 128 else line_base,
        line_range,
        min_inst_length,
        max_ops,
        default_is_stmt,
        bytes(cursor.data[counts : cursor.at]),
    )


def _read_old_tables(cursor: Cursor, header: LineHeader, listed: ListedFiles) -> None:
    """include_directories and file_names of DWARF 2-4; four bytes after them are NVIDIA's base of inline names."""
    if cursor.at == cursor.end:
        return
    while path := cursor.text():
        listed.add(1)
        header.directories.append(path)
    while name := cursor.text():
        listed.add(1)
        header.files.append((name, file_entry_directory(cursor)))
    if cursor.end - cursor.at == 4:
        header.names_base = cursor.unsigned(4)


def file_entry_directory(cursor: Cursor) -> int:
    """The directory of a file entry whose name was just read; time and length are passed over."""
    directory = cursor.uleb()
    cursor.uleb()
    cursor.uleb()
    return directory


def file_details(section: DebugSection, strings: StringReader, header: LineHeader) -> list[FileDetails]:
    """What a header that was read says of its files besides their names, entry for entry; nothing before DWARF 5."""
    if header.version < 5:
        return []
    cursor = Cursor(section.data, section.name, header.tables, header.program)
    for _ in _entries(cursor, strings, header.offset_size, ()):
        pass
    found = _entries(cursor, strings, header.offset_size, (_MD5, _LLVM_SOURCE))
    return [FileDetails(_bytes(md5), _bytes(source)) for md5, source in found]


def _bytes(value: bytes | int | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _names(cursor: Cursor, strings: StringReader, offset_size: int, listed: ListedFiles) -> list[tuple[bytes, int]]:
    """A DWARF 5 directory or file table as (path, directory index)."""
    found = _entries(cursor, strings, offset_size, (_PATH, _DIRECTORY_INDEX), listed)
    return [(_bytes(path), number if isinstance(number, int) else 0) for path, number in found]


def _entries(
    cursor: Cursor,
    strings: StringReader,
    offset_size: int,
    wanted: tuple[int, ...],
    listed: ListedFiles | None = None,
) -> Iterator[list[bytes | int | None]]:
    """The ``wanted`` columns (DW_LNCT_*) of every entry of a DWARF 5 directory or file table; None where it has no such
    column."""
    formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.unsigned(1))]
    count = cursor.uleb()
    if count and not formats:
        raise cursor.fail(f"{count} entries without a format")
    columns = [
        (wanted.index(content) if content in wanted else -1, _reader(form, strings, offset_size))
        for content, form in formats
    ]
    if count > cursor.end - cursor.at:
        raise cursor.fail(f"{count} entries in {cursor.end - cursor.at} bytes")
    if listed is not None:
        listed.add(count)
    for _ in range(count):
        start = cursor.at
        entry: list[bytes | int | None] = [None] * (len(wanted) + 1)
        for slot, read in columns:
            entry[slot] = read(cursor)
        if cursor.at == start:
            raise cursor.fail(f"{count} entries of no bytes")
        entry.pop()  # the columns that nobody wants
        yield entry


def _reader(form: int, strings: StringReader, offset_size: int) -> Callable[[Cursor], bytes | int | None]:
    """Reads one value of a form; refuses it where it cannot stand in a file table."""
    section = forms.STRING_SECTIONS.get(form)
    if section is not None:
        return lambda cursor: strings.at(section, cursor.unsigned(offset_size))

    def refuse(cursor: Cursor) -> None:
        raise cursor.fail(f"form {form:#x} in a file table")

    return _FORMS.get(form, refuse)


def _block(size: Callable[[Cursor], int]) -> Callable[[Cursor], bytes]:
    def read(cursor: Cursor) -> bytes:
        start = cursor.skip(size(cursor))
        return cursor.data[start : cursor.at]

    return read


def _fixed(size: int) -> Callable[[Cursor], int]:
    return lambda cursor: cursor.unsigned(size)


_FORMS: dict[int, Callable[[Cursor], bytes | int | None]] = {
    Form.DW_FORM_block2: _block(_fixed(2)),
    Form.DW_FORM_block4: _block(_fixed(4)),
    Form.DW_FORM_data2: _fixed(2),
    Form.DW_FORM_data4: _fixed(4),
    Form.DW_FORM_data8: _fixed(8),
    Form.DW_FORM_string: Cursor.text,
    Form.DW_FORM_block: _block(Cursor.uleb),
    Form.DW_FORM_block1: _block(_fixed(1)),
    Form.DW_FORM_data1: _fixed(1),
    Form.DW_FORM_sdata: Cursor.sleb,
    Form.DW_FORM_udata: Cursor.uleb,
    Form.DW_FORM_data16: _block(lambda _: 16),
}
