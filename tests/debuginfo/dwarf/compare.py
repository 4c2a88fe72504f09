"""What the bulk decoder reads beside what pyelftools reads."""

from __future__ import annotations

from collections.abc import Mapping

from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.verify import comparison
from symd.debuginfo.verify.comparison import VerifiedLine, VerifiedScope, mismatches, same_line, same_scope
from symd.model.debug_info import RowFlag
from tests.debuginfo.dwarf.decode import read_lines, read_scopes


def lines_as_rows(lines: LineColumns, *, keep_is_stmt: bool = False) -> list[tuple[int, str, int, int, int]]:
    """(address, path, line, column, flags) of every row; an end_sequence row without is_stmt, unless that is kept."""
    dropped = 0 if keep_is_stmt else RowFlag.IS_STMT
    flags = [int(f) & ~dropped if f & RowFlag.END_SEQUENCE else int(f) for f in lines.flags]
    files = [lines.files[number] for number in lines.file]
    return list(zip(lines.address.tolist(), files, lines.line.tolist(), lines.column.tolist(), flags, strict=True))


def assert_same_lines(lines: LineColumns, expected: list[list[VerifiedLine]]) -> None:
    """Equal row for row, table after table; a path is compared by its end, which is the table's own entry."""
    ours = [row for table in comparison.line_tables(lines).values() for row in table]
    theirs = [row for table in expected for row in table]
    assert list(mismatches(ours, theirs, same_line)) == []
    assert len(ours) == len(theirs)


def assert_same_scopes(sections: Mapping[str, bytes], expected: list[VerifiedScope]) -> None:
    """Equal scope for scope; a call's file is compared by its end, too."""
    lines = read_lines(sections)
    ours = comparison.scopes(lines, read_scopes(sections, lines))
    assert list(mismatches(ours, expected, same_scope)) == []
    assert len(ours) == len(expected)
