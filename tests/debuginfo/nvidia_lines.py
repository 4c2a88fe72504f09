"""The sequences of NVIDIA's line tables, whose rows say what is inlined, as the tests' own reader of line tables has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from symd.model.debug_info import RowFlag
from tests.debuginfo.dwarf import plain_lines


@dataclass(frozen=True)
class Row:
    """``context`` is the row number, from 1, of the call site in the same sequence; 0 where nothing is inlined."""

    address: int
    file: int
    line: int
    context: int
    name: str
    end: bool


@dataclass
class Sequence:
    """``files`` by file register, from 1."""

    files: list[str]
    rows: list[Row] = field(default_factory=list)

    def at(self, address: int) -> int | None:
        """The number, from 1, of the row that an address has: the last of those at the greatest address below."""
        found = None
        for number, row in enumerate(self.rows, 1):
            if row.address <= address:
                found = number
        return None if found is None or self.rows[found - 1].end else found

    def chain(self, number: int) -> list[tuple[str, int]]:
        """(file, line) of a row and of the calls around it, innermost first."""
        result = []
        while number:
            row = self.rows[number - 1]
            result.append((self.files[row.file - 1] if self.files else "", row.line))
            number = row.context
        return result


def decode(data: bytes, strings: bytes = b"") -> list[Sequence]:
    """The sequences of every table of a .debug_line section, in order; no table may be refused."""
    result: list[Sequence] = []
    for table in plain_lines.read_section(data):
        assert table is not None
        files = [table.file(register) for register in range(1, len(table.files) + 1)]
        rows: list[Row] = []
        for one in table.rows:
            name = plain_lines.Bytes(strings[table.names_base + one.name :]).text().decode() if one.context else ""
            end = bool(one.flags & RowFlag.END_SEQUENCE)
            rows.append(Row(one.address, one.file, one.line, one.context, name, end))
            if end:
                result.append(Sequence(files, rows))
                rows = []
    return result
