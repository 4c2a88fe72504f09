"""Line-table headers (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each): parameters, directories, files, where the program is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from symd.dwarf.constants import Form, Lnct
from symd.dwarf.cursor import Cursor
from symd.dwarf.strings import StringReader
from symd.errors import Malformed, Unsupported

SECTION = ".debug_line"
EXTENDED_OPCODE = 0
"""The opcode that begins an extended instruction (6.2.5.3); its own number follows behind its length."""


class ProgramShape(NamedTuple):
    """Everything of a header that the instructions' meaning depends on; programs of one shape are decoded together."""

    opcode_base: int
    line_base: int
    line_range: int
    min_inst_length: int
    max_ops: int
    default_is_stmt: bool
    operand_counts: bytes
    """standard_opcode_lengths: entry i belongs to opcode i + 1."""


@dataclass(slots=True)
class LineHeader:
    """One table's header. ``files`` are (name, directory index); the program is ``.debug_line[program:end]``.

    ``names_base`` is where NVIDIA's inline names count from in ``.debug_str`` (0 where the header does not say).
    """

    offset: int
    end: int
    program: int
    version: int
    shape: ProgramShape
    directories: list[bytes] = field(default_factory=list)
    files: list[tuple[bytes, int]] = field(default_factory=list)
    names_base: int = 0


def read_header(data: bytes, strings: StringReader, offset: int, end: int, offset_size: int, at: int) -> LineHeader:
    """The header of the table at ``offset``, which ends at ``end`` and whose version field is at ``at``.

    Raises Malformed or Unsupported, which name the place.
    """
    cursor = Cursor(data, SECTION, at, end)
    version = cursor.unsigned(2)
    if not 2 <= version <= 5:
        raise Unsupported(f"line table version {version}", where=f"{SECTION}+{offset:#x}")
    if version >= 5:
        cursor.skip(2)  # address_size, segment_selector_size: set_address says its own length
    header_length = cursor.unsigned(offset_size)
    program = cursor.at + header_length
    if program > end:
        raise cursor.fail(f"the header's length {header_length:#x} passes the end of its table")
    header = LineHeader(offset, end, program, version, _shape(cursor, version))
    cursor.end = program
    if version >= 5:
        header.directories = [path for path, _ in _entries(cursor, strings, offset_size)]
        header.files = _entries(cursor, strings, offset_size)
    else:
        _read_old_tables(cursor, header)
    return header


def _shape(cursor: Cursor, version: int) -> ProgramShape:
    min_inst_length = cursor.unsigned(1)
    max_ops = cursor.unsigned(1) if version >= 4 else 1
    default_is_stmt = cursor.unsigned(1) != 0
    line_base = cursor.unsigned(1)
    line_range = cursor.unsigned(1)
    opcode_base = cursor.unsigned(1)
    if not (max_ops and line_range and opcode_base):
        raise cursor.fail(f"line_range {line_range}, opcode_base {opcode_base}, operations {max_ops}: none may be 0")
    counts = cursor.skip(opcode_base - 1)
    return ProgramShape(
        opcode_base,
        line_base - 256 if line_base >= 128 else line_base,
        line_range,
        min_inst_length,
        max_ops,
        default_is_stmt,
        bytes(cursor.data[counts : cursor.at]),
    )


def _read_old_tables(cursor: Cursor, header: LineHeader) -> None:
    """include_directories and file_names of DWARF 2-4; four bytes behind them are NVIDIA's base of inline names."""
    if cursor.at == cursor.end:
        return
    while path := cursor.text():
        header.directories.append(path)
    while name := cursor.text():
        header.files.append((name, file_entry_directory(cursor)))
    if cursor.end - cursor.at == 4:
        header.names_base = cursor.unsigned(4)


def file_entry_directory(cursor: Cursor) -> int:
    """The directory of a file entry whose name was just read; time and length are passed over."""
    directory = cursor.uleb()
    cursor.uleb()
    cursor.uleb()
    return directory


def _entries(cursor: Cursor, strings: StringReader, offset_size: int) -> list[tuple[bytes, int]]:
    """A DWARF 5 directory or file table as (path, directory index)."""
    formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.unsigned(1))]
    count = cursor.uleb()
    if count and not formats:
        raise cursor.fail(f"{count} entries without a format")
    found = []
    for _ in range(count):
        start = cursor.at
        path, directory = b"", 0
        for content, form in formats:
            value = _value(cursor, strings, form, offset_size)
            if content == Lnct.DW_LNCT_path and isinstance(value, bytes):
                path = value
            elif content == Lnct.DW_LNCT_directory_index and isinstance(value, int):
                directory = value
        if cursor.at == start:
            raise cursor.fail(f"{count} entries of no bytes")
        found.append((path, directory))
    return found


def _value(cursor: Cursor, strings: StringReader, form: int, offset_size: int) -> bytes | int | None:
    if form in _STRING_SECTIONS:
        return strings.at(_STRING_SECTIONS[form], cursor.unsigned(offset_size))
    read = _FORMS.get(form)
    if read is None:
        raise Malformed(f"form {form:#x} in a file table", where=f"{SECTION}+{cursor.at:#x}")
    return read(cursor)


def _block(size: Callable[[Cursor], int]) -> Callable[[Cursor], None]:
    def pass_over(cursor: Cursor) -> None:
        cursor.skip(size(cursor))

    return pass_over


def _fixed(size: int) -> Callable[[Cursor], int]:
    return lambda cursor: cursor.unsigned(size)


_STRING_SECTIONS: dict[int, str] = {Form.DW_FORM_strp: ".debug_str", Form.DW_FORM_line_strp: ".debug_line_str"}
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
