"""The line table of a unit (DWARF 5, 6.2.4): its files, and where its program is."""

from __future__ import annotations

from symd.dwarf.path_names import table_paths
from symd.model.plain_answers import NotPlain
from symd.plain.line_program import OPERANDS, LineProgram
from symd.plain.numbers import (
    DW_FORM_block,
    DW_FORM_data1,
    DW_FORM_data2,
    DW_FORM_data4,
    DW_FORM_data8,
    DW_FORM_data16,
    DW_FORM_line_strp,
    DW_FORM_string,
    DW_FORM_strp,
    DW_FORM_udata,
    DW_LNCT_directory_index,
    DW_LNCT_path,
    text,
    uleb,
    unsigned,
    value,
)
from symd.plain.units import LARGEST

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.plain.units import CompileUnit

_STRINGS = frozenset({DW_FORM_string, DW_FORM_line_strp, DW_FORM_strp})
_OTHERS = frozenset(
    {DW_FORM_block, DW_FORM_data1, DW_FORM_data2, DW_FORM_data4, DW_FORM_data8, DW_FORM_data16, DW_FORM_udata}
)
_MOST_FILES = 4096
_FEWEST_OPCODES, _MOST_OPCODES = 10, 13
"""opcode_base of DWARF 2 and of what followed."""
_Entries = list[tuple[bytes, int]]
"""Names and directory indexes."""


class LineTable:
    """``program`` and the paths of its file registers."""

    def __init__(self, unit: CompileUnit) -> None:
        start, image = unit.line_table, unit.sections.image
        length = unsigned(image.part(".debug_line", start, start + 4), 0, 4)
        if length > LARGEST:
            raise NotPlain
        self._unit, self._data = unit, image.part(".debug_line", start, start + 4 + length)
        version = unsigned(self._data, 4, 2)
        if not 2 <= version <= 5:
            raise NotPlain
        at = 8 if version >= 5 else 6
        begin = at + 4 + unsigned(self._data, at, 4)
        tables = self._read_parameters(at + 4, version, begin)
        directories, files = self._new_tables(tables) if version >= 5 else self._old_tables(tables)
        self._paths = list(table_paths(version, [name for name, _ in directories], files, unit.directory))

    def _read_parameters(self, at: int, version: int, begin: int) -> int:
        """What instructions mean, from minimum_instruction_length on; the place after it, where the tables begin."""
        data = self._data
        step, operations = data[at], data[at + 1] if version >= 4 else 1
        at += 3 if version >= 4 else 2
        base, lines, opcodes = int.from_bytes(data[at : at + 1], "little", signed=True), data[at + 1], data[at + 2]
        tables = at + 3 + opcodes - 1
        if operations != 1 or not lines or not _FEWEST_OPCODES <= opcodes <= _MOST_OPCODES:
            raise NotPlain
        if data[at + 3 : tables] != OPERANDS[: opcodes - 1] or not tables <= begin <= len(data):
            raise NotPlain
        self.program = LineProgram(data[begin:], step, base, lines, opcodes)
        self._header = data[:begin]
        return tables

    def _old_tables(self, at: int) -> tuple[_Entries, _Entries]:
        """include_directories and file_names of DWARF 2 to 4."""
        data, directories, files = self._header, [], []
        if at == len(data):
            return [], []
        while name := text(data, at):
            directories.append((name, 0))
            at += len(name) + 1
        at += 1
        while name := text(data, at):
            directory, at = uleb(data, at + len(name) + 1)
            _, at = uleb(data, at)
            _, at = uleb(data, at)
            files.append((name, directory))
        if len(directories) + len(files) > _MOST_FILES or len(data) - at != 1:
            raise NotPlain  # what follows is NVIDIA's, or nobody's
        return directories, files

    def _new_tables(self, at: int) -> tuple[_Entries, _Entries]:
        directories, at = self._entries(at)
        files, at = self._entries(at)
        return directories, files

    def _entries(self, at: int) -> tuple[_Entries, int]:
        """A directory or file table of DWARF 5, and the place after it."""
        data, formats, found = self._header, [], []
        count_at = at + 1
        for _ in range(data[at]):
            content, count_at = uleb(data, count_at)
            form, count_at = uleb(data, count_at)
            formats.append((content, form))
        count, at = uleb(data, count_at)
        if count > _MOST_FILES or (count and not formats):
            raise NotPlain
        for _ in range(count):
            name, directory = b"", 0
            for content, form in formats:
                if form not in (_STRINGS if content == DW_LNCT_path else _OTHERS):
                    raise NotPlain
                said, at = value(data, at, form, 0)
                if content == DW_LNCT_path:
                    name = self._unit.string(form, said)
                elif content == DW_LNCT_directory_index and isinstance(said, int):
                    directory = said
            found.append((name, directory))
        if at > len(data):
            raise NotPlain
        return found, at

    def path(self, register: int | None) -> bytes:
        """The path of a file register; empty where it names none."""
        return self._paths[register] if register is not None and 0 <= register < len(self._paths) else b""
