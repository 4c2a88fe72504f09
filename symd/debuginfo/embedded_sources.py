"""What a code object carries of its source files: texts (SPIR-V's, DWARF's embedded source, PTX) and the MD5 sums by which
a file elsewhere can be told to be the same. Read when somebody asks; no index holds it.

Sources: DWARF 5, 6.2.4.1 (DW_LNCT_MD5); LLVM's DW_LNCT_LLVM_source; and the modules that read the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from symd.debuginfo import layout
from symd.debuginfo.ptx_lines import TEXT, PtxText
from symd.debuginfo.relocation import relocated
from symd.debuginfo.spirv.sources import source_texts
from symd.dwarf import read_units
from symd.dwarf.columns import Sections
from symd.dwarf.cursor import Cursor
from symd.dwarf.paths import join
from symd.dwarf.strings import StringReader
from symd.errors import SymdError
from symd.model.code import CodeKind, CodeObject, DebugScheme

__all__ = ("Carried", "carried")

_SECTION = ".debug_line"
_PATH, _DIRECTORY, _MD5, _LLVM_SOURCE = 1, 2, 5, 0x2001
_STRING_SECTIONS = {0x0E: ".debug_str", 0x1F: ".debug_line_str"}  # DW_FORM_strp, line_strp
_STRING, _UDATA = 0x08, 0x0F
_FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8}  # data1, data2, data4, data8
_BLOCKS: dict[int, Callable[[Cursor], int]] = {
    0x03: lambda cursor: cursor.unsigned(2),  # block2
    0x04: lambda cursor: cursor.unsigned(4),  # block4
    0x09: Cursor.uleb,  # block
    0x0A: lambda cursor: cursor.unsigned(1),  # block1
    0x1E: lambda _: 16,  # data16
}


@dataclass(frozen=True, slots=True)
class Carried:
    """What one code object says of one file: its ``text``, None where it is not inside, and the ``md5`` of the file that
    the compiler read (16 bytes), None where it does not say."""

    text: str | None = None
    md5: bytes | None = None


def carried(code: CodeObject) -> Mapping[str, Carried]:
    """By path, as frames name files. A code object that cannot be read carries nothing: its index says why."""
    try:
        return _carried(code)
    except SymdError:
        return {}


def _carried(code: CodeObject) -> dict[str, Carried]:
    if code.kind is CodeKind.SPIRV:
        return {file: Carried(text) for file, text in source_texts(code).items()}
    found: dict[str, Carried] = {}
    if code.debug not in (DebugScheme.NONE, DebugScheme.SPIRV):
        found |= _from_line_tables(relocated(code, layout.assign(code)))
    for section in code.sections:
        if section.name == TEXT or section.name.startswith(f"{TEXT}."):
            ptx = PtxText.read(section.data)
            found[section.name] = Carried("".join(f"{ptx.line(number)}\n" for number in range(1, len(ptx) + 1)))
    return found


def _from_line_tables(sections: Sections) -> dict[str, Carried]:
    """Of the tables of DWARF 5; earlier ones have neither. The first table that names a file decides."""
    data = sections.get(_SECTION, b"")
    if data.find(b"\x05\x00") < 0:
        return {}
    folders = {unit.stmt_list: unit.comp_dir for unit in reversed(read_units(sections).units)}
    strings = StringReader(sections)
    found: dict[str, Carried] = {}
    for offset, cursor, offset_size in _tables(data):
        try:
            files = _files(cursor, strings, offset_size, folders.get(offset, b""))
        except SymdError:
            continue
        for path, entry in files.items():
            found.setdefault(path, entry)
    return found


def _tables(data: bytes) -> Iterator[tuple[int, Cursor, int]]:
    """(offset, a cursor behind the version field, offset size) of every table of version 5."""
    at = 0
    while at < len(data):
        cursor = Cursor(data, _SECTION, at, len(data))
        length, offset_size = cursor.initial_length()
        end = cursor.at + length
        if end > len(data) or length < 2:
            return
        cursor.end = end
        if cursor.unsigned(2) == 5:
            yield at, cursor, offset_size
        at = end


def _files(cursor: Cursor, strings: StringReader, offset_size: int, comp_dir: bytes) -> dict[str, Carried]:
    """The file table of one header, behind its version field (DWARF 5, 6.2.4)."""
    cursor.skip(2)  # address_size, segment_selector_size
    length = cursor.unsigned(offset_size)
    cursor.end = min(cursor.end, cursor.at + length)
    cursor.skip(5)  # min_inst_length, max_ops, default_is_stmt, line_base, line_range
    cursor.skip(max(cursor.unsigned(1), 1) - 1)
    directories = [_text(entry, _PATH) for entry in _entries(cursor, strings, offset_size)]
    comp_dir = comp_dir or (directories[0] if directories else b"")
    found: dict[str, Carried] = {}
    for entry in _entries(cursor, strings, offset_size):
        number = entry.get(_DIRECTORY, 0)
        directory = directories[number] if isinstance(number, int) and number < len(directories) else b""
        path = join(b"" if number == 0 else comp_dir, directory, _text(entry, _PATH)).decode("utf-8", "replace")
        source, md5 = _text(entry, _LLVM_SOURCE), _text(entry, _MD5)
        text = source.decode("utf-8", "replace") if source else None
        found.setdefault(path, Carried(text, md5 if len(md5) == 16 and any(md5) else None))
    return found


_Entry = dict[int, bytes | int]


def _text(entry: _Entry, content: int) -> bytes:
    value = entry.get(content, b"")
    return value if isinstance(value, bytes) else b""


def _entries(cursor: Cursor, strings: StringReader, offset_size: int) -> Iterator[_Entry]:
    formats = [(cursor.uleb(), cursor.uleb()) for _ in range(cursor.unsigned(1))]
    for _ in range(cursor.uleb()):
        start = cursor.at
        yield {content: _value(cursor, strings, form, offset_size) for content, form in formats}
        if cursor.at == start:
            raise cursor.fail("entries of no bytes")


def _value(cursor: Cursor, strings: StringReader, form: int, offset_size: int) -> bytes | int:
    if form in _STRING_SECTIONS:
        return strings.at(_STRING_SECTIONS[form], cursor.unsigned(offset_size)) or b""
    if form == _STRING:
        return cursor.text()
    if form == _UDATA:
        return cursor.uleb()
    if form in _BLOCKS:
        start = cursor.skip(_BLOCKS[form](cursor))
        return cursor.data[start : cursor.at]
    if form in _FIXED:
        return cursor.unsigned(_FIXED[form])
    raise cursor.fail(f"form {form:#x} in a file table")
