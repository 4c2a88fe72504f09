"""The line-table headers of an object (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each), table after table, as the core reads them."""

from __future__ import annotations

from collections.abc import Iterator

from symd.config import Limits
from symd.core.line_header import LineHeader, LineHeaderReader
from symd.core.strings import StringReader
from symd.debuginfo.dwarf.constants import Lnct
from symd.debuginfo.dwarf.sections import DebugSection
from symd.debuginfo.dwarf.warnings import Warnings
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats.budget import DebugBudget, exceeded

_LLVM_SOURCE = int(Lnct.DW_LNCT_LLVM_source)
TEXT_COLUMN = bytes([_LLVM_SOURCE & 0x7F | 0x80, _LLVM_SOURCE >> 7])
"""DW_LNCT_LLVM_source as tables spell it: where it stands nowhere in their section they have no texts of files."""


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
    reader = LineHeaderReader(data, section.name, strings, ListedFiles(section.name, limits))
    while at < len(data):
        if budget is not None:
            budget.count_headers(1, section.name)
        try:
            length = reader.length(at)
        except SymdError as error:
            warnings.add(f"the rest of the section is left out: {error}")
            return
        if length > len(data) - reader.at:
            where = f"{section.name}+{at:#x}"
            warnings.add(f"{where}: the rest is left out: table length {length:#x} passes the section's end")
            return
        end = reader.at + length
        try:
            if length and at not in skipped:
                yield reader.read(at, end)
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
