"""Where a variable is declared, and which functions stand around a place: attributes that a DIE has itself or takes from those it
completes."""

from __future__ import annotations

from symd.core.line_header import LineHeaderReader
from symd.core.strings import StringReader
from symd.debuginfo.dwarf.constants import At, Tag
from symd.debuginfo.dwarf.lines import ListedFiles
from symd.debuginfo.dwarf.paths import FilePaths
from symd.debuginfo.dwarf.units import Unit
from symd.debuginfo.variables.dies import Die, DieReader
from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.model.variables import FunctionScope


class Declarations:
    """Reads where DIEs are declared. The header of each line table is read once, when a file of it is first asked for."""

    def __init__(self, dies: DieReader) -> None:
        self._dies = dies
        section = dies.sections.lines
        self._listed, self._paths = ListedFiles(section.name), FilePaths(section.name)
        self._strings = StringReader(dies.sections)
        self._known: dict[int, tuple[str, ...]] = {}

    def line(self, die: Die) -> int:
        """The line of the declaration; 0 where it is not known."""
        return self._number(die, At.DW_AT_decl_line)

    def file(self, die: Die) -> str | None:
        """The file of the declaration, named as frames name files; None where it is not known."""
        found = self._dies.find(die, At.DW_AT_decl_file)
        if found is None or not found[1].is_constant:
            return None
        files = self._files(found[0].unit)
        return files[found[1].number] or None if found[1].number < len(files) else None

    def function(self, die: Die) -> FunctionScope:
        """A function or inlined call by its names and, of a call, where that is."""
        name = self._dies.name(die) or None
        linkage_name = self.linkage_name(die)
        inlined = die.tag == Tag.DW_TAG_inlined_subroutine
        called = (At.DW_AT_call_line, At.DW_AT_call_column)
        line, column = (die.attributes.get(each) if inlined else None for each in called)
        return FunctionScope(
            name,
            None if linkage_name == name else linkage_name,
            inlined,
            line.number if line is not None and line.is_constant else 0,
            column.number if column is not None and column.is_constant else 0,
        )

    def linkage_name(self, die: Die) -> str | None:
        """The mangled name; None where there is none."""
        for attribute in (At.DW_AT_linkage_name, At.DW_AT_MIPS_linkage_name):
            found = self._dies.find(die, attribute)
            if found is not None:
                return self._dies.text(*found) or None
        return None

    def _number(self, die: Die, attribute: int) -> int:
        found = self._dies.find(die, attribute)
        return found[1].number if found is not None and found[1].is_constant else 0

    def _files(self, unit: Unit) -> tuple[str, ...]:
        """The paths of the unit's line table by file register; none where it has no table, or one that cannot be read."""
        table = unit.stmt_list
        if table is None:
            return ()
        if table not in self._known:
            self._known[table] = ()
            self._known[table] = self._read(table, unit.comp_dir)
        return self._known[table]

    def _read(self, table: int, comp_dir: bytes) -> tuple[str, ...]:
        section = self._dies.sections.lines
        reader = LineHeaderReader(section.data, section.name, self._strings, self._listed)
        try:
            length = reader.length(table)
            header = reader.read(table, min(reader.at + length, len(section.data)))
            self._dies.spend(header.program - table)
            return tuple(path.decode("utf-8", "replace") for path in self._paths.of(header, comp_dir))
        except (Malformed, Unsupported, LimitExceeded):
            return ()
