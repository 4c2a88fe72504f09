# cython: language_level=3, boundscheck=True, wraparound=False
"""Scopes out of line rows alone: rows that say which earlier row is their call site become inlined calls in the
functions of symbols, and code is told that is answered otherwise than its rows say."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import cython

from symd.core.row_extents import row_extents, row_pieces, scope_ranges
from symd.core.scopes import NO_PARENT
from symd.core.sorting import ranked
from symd.model.light_typing import Any

MAX_DEPTH = 64
"""Calls inlined into one another; what is deeper is taken as not inlined."""
_MAX_DEPTH = cython.declare(cython.uint, MAX_DEPTH)
_NO_PARENT = cython.declare(cython.uint, NO_PARENT)
_NO_CALLER = cython.declare(cython.uchar, 2)
"""``symd.model.debug_info.Doubt.CALLER``."""
_IMPLIED = cython.declare(cython.uchar, 32)
_ENDS = cython.declare(cython.uchar, 4)
"""``symd.model.debug_info.RowFlag.IMPLIED`` and ``END_SEQUENCE``."""
INFERRED, CONTRADICTORY = 12, 13
"""Numbers of ``symd.model.reasons.Reason``."""
_INFERRED = cython.declare(cython.uchar, INFERRED)
_CONTRADICTORY = cython.declare(cython.uchar, CONTRADICTORY)


class RowScopes:
    """Scopes as ``symd.model.debug_info.Scopes`` has them (u32, ``inlined`` u8), of which the first are the
    ``functions`` of these numbers (-1: of no symbol) and have names behind all others'; their ranges, ``range_scope``
    and ``range_section`` (u32), ``range_offset`` and ``range_end`` (u64); ``of_row``, the innermost scope of each row
    (i32), or -1. ``written`` are the columns of ``symd.model.debug_info.WrittenScopes``, with scopes that have no
    ranges. ``lost`` is the number of rows that were inlined too deep."""

    __slots__ = (
        "call_column", "call_file", "call_line", "functions", "inlined", "lost", "name", "of_row", "parent", "range_end", "range_offset", "range_scope", "range_section",
        "written",
    )  # fmt: skip

    def __init__(self, count: int) -> None:
        nothing = bytes(4 * count)
        self.parent, self.name, self.inlined = array("I", nothing), array("I", nothing), array("B", bytes(count))
        self.call_file, self.call_line, self.call_column = array("I", nothing), array("I", nothing), array("I", nothing)
        self.range_scope, self.range_section, self.range_offset, self.range_end = (
            array("I"),
            array("I"),
            array("Q"),
            array("Q"),
        )
        self.functions, self.of_row, self.lost = array("i"), array("i"), 0
        self.written: tuple[array[int], ...] = ()


@cython.cclass
class _Rows:
    """The columns of rows, and what ``row_extents`` says of them."""

    count = cython.declare(cython.Py_ssize_t)
    section = cython.declare(cython.const[cython.uint][::1])
    offset = cython.declare(cython.const[cython.ulonglong][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    column = cython.declare(cython.const[cython.uint][::1])
    end = cython.declare(cython.const[cython.ulonglong][::1])
    owner = cython.declare(cython.const[cython.int][::1])
    order = cython.declare(cython.const[cython.uint][::1])

    def __init__(self, columns: Sequence[Any], functions: Sequence[Any]) -> None:
        self.section, self.offset, self.file, self.line, self.column, flags = columns
        self.count = len(self.offset)
        self.end, self.owner, self.order = row_extents(columns[0], columns[1], flags, functions)


@cython.cclass
class _Pieces:
    """Code of one row and, in an inline assembly, of one ``shift`` (0 elsewhere), as ``row_pieces`` has it."""

    count = cython.declare(cython.Py_ssize_t)
    row = cython.declare(cython.const[cython.uint][::1])
    start = cython.declare(cython.const[cython.ulonglong][::1])
    end = cython.declare(cython.const[cython.ulonglong][::1])
    shift = cython.declare(cython.const[cython.longlong][::1])

    def __init__(self, own: _Rows, assembly: Sequence[Any] | None) -> None:
        self.row, self.start, self.end, self.shift = row_pieces((own.section, own.offset, own.end, own.order), assembly)
        self.count = len(self.row)


@cython.cclass
class _Tree:
    """Inlined scopes, parents before children: ``site`` is the row of the call, ``parent`` -1 where the call stands in
    the function itself. ``of_row`` is the innermost scope of each row, or -1; ``lost`` counts the rows that are inlined
    too deep, which have none."""

    count = cython.declare(cython.Py_ssize_t)
    site = cython.declare(cython.uint[::1])
    name = cython.declare(cython.uint[::1])
    parent = cython.declare(cython.int[::1])
    of_row = cython.declare(cython.int[::1])
    lost = cython.declare(cython.Py_ssize_t)

    def __init__(self, sites: Any, names: Any) -> None:
        """One scope for each pair of call site and name. A call site is an earlier row than those inlined there, or in
        no call itself, so that scopes sorted by call site have parents first."""
        site = cython.declare(cython.const[cython.uint][::1])
        name = cython.declare(cython.const[cython.uint][::1])
        site, name = sites, names
        row: cython.Py_ssize_t
        inlined: cython.Py_ssize_t = 0
        for row in range(len(site)):
            inlined += site[row] != 0
        keys = array("Q", bytes(8 * inlined))
        key = cython.declare(cython.const[cython.ulonglong][::1])
        pair = cython.declare(cython.ulonglong[::1])
        pair = keys
        inlined = 0
        for row in range(len(site)):
            if site[row]:
                pair[inlined] = cython.cast(cython.ulonglong, site[row]) << 32 | name[row]
                inlined += 1
        numbers, distinct = ranked(keys)
        number = cython.declare(cython.const[cython.uint][::1])
        number, key = numbers, distinct
        self.of_row = array("i", bytes(4 * len(site)))
        inlined = 0
        for row in range(len(site)):
            self.of_row[row] = -1
            if site[row]:
                self.of_row[row] = cython.cast(cython.int, number[inlined])
                inlined += 1
        self.count = len(key)
        nothing = bytes(4 * self.count)
        self.site, self.name, self.parent = array("I", nothing), array("I", nothing), array("i", nothing)
        depth = cython.declare(cython.uint[::1])
        depth = array("I", nothing)
        scope: cython.Py_ssize_t
        for scope in range(self.count):
            self.site[scope] = cython.cast(cython.uint, (key[scope] >> 32) - 1)
            self.name[scope] = cython.cast(cython.uint, key[scope] & 0xFFFFFFFF)
            self.parent[scope] = self.of_row[self.site[scope]]
            if self.parent[scope] >= 0:
                depth[scope] = depth[self.parent[scope]] + 1
        self.lost = 0
        for row in range(len(site)):
            if self.of_row[row] >= 0 and depth[self.of_row[row]] >= _MAX_DEPTH:
                self.of_row[row] = -1
                self.lost += 1


def row_scopes(
    rows: Sequence[Any],
    calls: Sequence[Any],
    functions: Sequence[Any],
    *,
    unnamed: Callable[[int, int], bool] | None = None,
    python_files: bytes = b"",
    leaves_out_files: bool = False,
    leaves_out_calls: bool = False,
    assembly: Sequence[Any] | None = None,
    names: int = 1,
    spend: Callable[[int], object] = bool,
) -> RowScopes:
    """One scope for each pair of call site and name, inside one for each function that has any.

    ``rows`` are section, offset, file, line, column and flags, as ``symd.model.debug_info.LineRows`` has them,
    ``calls`` are ``RowCalls``, and ``functions`` are ``symd.model.code.Function``; ``names`` says how many names there
    are. Ranges are spans of rows, for a scope and everything around it, up to the next function symbol; a function's
    own scope covers only those, the rest of it is known by its symbol. ``leaves_out_files`` says that the assembler
    does not write which file a call stands in where the row before is of another one: such a call has no place.
    ``leaves_out_calls`` says that the compiler may have told of no call: that the function around has a line is
    INFERRED, and CONTRADICTORY of a line that it cannot have, which in one of ``python_files`` is that of an inlined
    call without name and place. The lines of ``assembly`` (``symd.debuginfo.rows_alone.AssemblyRows``) are mended.
    ``unnamed`` says whether a name that is written for rows of one of ``python_files`` (1 at the number of each) is
    that of the function around. ``spend`` is told how many ranges are about to be made, and may raise: a row has one
    for each scope around it.
    """
    own = _Rows(rows, functions)
    site, name, written_site, written_name, doubt = calls
    if unnamed is not None:
        name = _names_as_written(own, name, written_name, python_files, unnamed)
    untold, foreign = bytearray(own.count), bytearray(own.count)
    is_untold: cython.bint = leaves_out_calls and not any(site) and not any(written_site) and not any(doubt)
    if is_untold:
        _find_untold(own, untold)
        first = _first_rows(own, rows[5], untold, len(functions))
        _find_foreign(own, first, untold, foreign)
        site = _sites_of_foreign(own, first, foreign, python_files)
    answered, written = _Tree(site, name), _Tree(written_site, written_name)
    nobody, contradictory = bytearray(own.count), bytearray(own.count)
    placeless = bytearray([is_untold]) * answered.count
    if leaves_out_files and not is_untold:
        _find_placeless(own, answered, len(functions), placeless)
    _judge(answered, doubt, placeless, nobody, contradictory)
    differs = _differing(own, answered, written, placeless, contradictory)
    _find_other_files(own, rows[5], differs)
    needed = written if 1 in differs else _Tree(array("I"), array("I"))
    pieces = _Pieces(own, assembly)
    is_used = bytearray(len(functions) + 1)
    alone = _rows_alone(own, answered, untold, nobody, pieces)
    _find_used(own, (answered, needed), alone, is_used)
    found: RowScopes = _joined(own, answered, needed, placeless, is_used, names)
    found.of_row = _scopes_of_rows(own, answered, alone, found.functions)
    placed = own.section, own.offset, own.end, own.order, found.of_row
    found.range_scope, found.range_section, found.range_offset, found.range_end = scope_ranges(
        found.parent, placed, spend
    )
    doubted = foreign if is_untold else contradictory  # those without a call are not among the latter
    found.written = _written(own, pieces, found, needed, (differs, untold, doubted, nobody))
    found.lost = answered.lost
    return found


@cython.cfunc
def _names_as_written(
    own: _Rows, names: Any, written_names: Any, python_files: bytes, unnamed: Callable[[int, int], bool]
) -> array[int]:
    """The name of each row, which is as written where a row is said to be of the function around it: its compiler calls
    whatever it inlines by that name (``symd.index.functions``), so that names which are written for the same line
    in other functions are those of other functions too."""
    written = cython.declare(cython.const[cython.uint][::1])
    name = cython.declare(cython.uint[::1])
    is_wanted = cython.declare(cython.const[cython.uchar][::1])
    found = array("I", names)
    written, name, is_wanted = written_names, found, python_files
    row: cython.Py_ssize_t
    for row in range(own.count):
        is_other: cython.bint = name[row] != 0 and name[row] != written[row] and own.owner[row] >= 0
        if is_other and is_wanted[own.file[row]] and unnamed(own.owner[row], written[row]):
            name[row] = written[row]
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _find_placeless(own: _Rows, tree: _Tree, functions: cython.Py_ssize_t, placeless: bytearray) -> cython.int:
    """Mark the scopes whose call stands in a function with rows of several files, and the row of the call does not
    change the file: it may be that of the row before."""
    first = cython.declare(cython.uint[::1])
    several = cython.declare(cython.uchar[::1])
    found = cython.declare(cython.uchar[::1])
    first, several, found = (
        array("I", bytes(4 * (tree.count + functions + 1))),
        bytearray(tree.count + functions + 1),
        placeless,
    )
    row: cython.Py_ssize_t
    body: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    for row in range(own.count):
        body = tree.of_row[row] if tree.of_row[row] >= 0 else tree.count + own.owner[row] + 1
        if several[body] == 0:
            first[body], several[body] = own.file[row], 1
        elif first[body] != own.file[row]:
            several[body] = 2
    for scope in range(tree.count):
        row = tree.site[scope]
        body = tree.of_row[row] if tree.of_row[row] >= 0 else tree.count + own.owner[row] + 1
        found[scope] = several[body] == 2 and row > 0 and own.file[row] == own.file[row - 1]
    return 0


@cython.cfunc
@cython.exceptval(-1, check=True)
def _judge(tree: _Tree, doubts: Any, placeless: bytearray, nobody: bytearray, contradictory: bytearray) -> cython.int:
    """Mark the rows of which nobody knows where they were inlined, and these and those that were inlined, directly or
    not, at a place that is not sure or into a function without a name."""
    doubt = cython.declare(cython.const[cython.uchar][::1])
    has_none = cython.declare(cython.const[cython.uchar][::1])
    of_nobody = cython.declare(cython.uchar[::1])
    unsure = cython.declare(cython.uchar[::1])
    lost = cython.declare(cython.uchar[::1])
    doubted = cython.declare(cython.uchar[::1])
    doubt, has_none, lost, doubted = doubts, placeless, nobody, contradictory
    of_nobody, unsure = bytearray(tree.count), bytearray(tree.count)
    scope: cython.Py_ssize_t
    row: cython.Py_ssize_t
    around: cython.int
    for scope in range(tree.count):
        of_nobody[scope] = doubt[tree.site[scope]] & _NO_CALLER != 0
        unsure[scope] = has_none[scope] or tree.name[scope] == 0
        around = tree.parent[scope]
        if around >= 0:
            of_nobody[scope] |= of_nobody[around]
            unsure[scope] |= unsure[around]
    for row in range(len(doubt)):
        lost[row] = doubt[row] & _NO_CALLER != 0
        doubted[row] = lost[row]
        around = tree.of_row[row]
        if around >= 0:
            lost[row] |= of_nobody[around]
            doubted[row] |= of_nobody[around] | unsure[around]
    return 0


@cython.cfunc
def _differing(
    own: _Rows, answered: _Tree, written: _Tree, placeless: bytearray, contradictory: bytearray
) -> bytearray:
    """The rows that are contradictory or whose chain of inlined calls is answered otherwise than written."""
    found = bytearray(contradictory)
    differs = cython.declare(cython.uchar[::1])
    differs = found
    row: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    is_same: cython.bint = 1 not in placeless and answered.count == written.count
    for scope in range(answered.count if is_same else 0):
        is_same = (
            is_same and answered.site[scope] == written.site[scope] and answered.name[scope] == written.name[scope]
        )
    for row in range(own.count if is_same else 0):
        is_same = is_same and answered.of_row[row] == written.of_row[row]
    if is_same:
        return found
    known: dict[tuple[int, ...], int] = {}
    here = cython.declare(cython.const[cython.int][::1])
    there = cython.declare(cython.const[cython.int][::1])
    here, there = _chains(own, answered, placeless, known), _chains(own, written, bytearray(written.count), known)
    one: cython.int
    other: cython.int
    for row in range(own.count):
        one = here[answered.of_row[row]] if answered.of_row[row] >= 0 else -1
        other = there[written.of_row[row]] if written.of_row[row] >= 0 else -1
        if one != other:
            differs[row] = 1
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _find_other_files(own: _Rows, flags: Any, differs: bytearray) -> cython.int:
    """Mark the rows that the line table leaves out where the row before goes on with another file, or none does."""
    flag = cython.declare(cython.const[cython.uchar][::1])
    found = cython.declare(cython.uchar[::1])
    flag, found = flags, differs
    before: cython.Py_ssize_t = -1  # the last row of the sequence that is in the table
    row: cython.Py_ssize_t
    for row in range(own.count):
        if not flag[row] & _IMPLIED:
            before = -1 if flag[row] & _ENDS else row
        elif before < 0 or own.file[row] != own.file[before]:
            found[row] = 1
    return 0


@cython.cfunc
def _chains(own: _Rows, tree: _Tree, placeless: bytearray, known: dict[tuple[int, ...], int]) -> array[int]:
    """For each scope the number of what its chain of inlined calls says (names and places); ``known`` numbers the
    chains."""
    numbers = array("i", bytes(4 * tree.count))
    number = cython.declare(cython.int[::1])
    number = numbers
    scope: cython.Py_ssize_t
    row: cython.Py_ssize_t
    around: cython.int
    for scope in range(tree.count):
        row, around = tree.site[scope], tree.parent[scope]
        around = number[around] if around >= 0 else -2 - own.owner[row]
        place = () if placeless[scope] else (own.file[row], own.line[row], own.column[row])
        number[scope] = known.setdefault((around, tree.name[scope], *place), len(known))
    return numbers


@cython.cfunc
@cython.exceptval(-1, check=True)
def _find_untold(own: _Rows, untold: bytearray) -> cython.int:
    """Mark the rows with a line that lie in a function."""
    found = cython.declare(cython.uchar[::1])
    found = untold
    row: cython.Py_ssize_t
    for row in range(own.count):
        found[row] = own.owner[row] >= 0 and own.line[row] > 0
    return 0


@cython.cfunc
def _rows_alone(own: _Rows, answered: _Tree, untold: bytearray, nobody: bytearray, pieces: _Pieces) -> bytearray:
    """The rows that are of the function around alone, although they or their lines are answered otherwise than
    written."""
    found = bytearray(untold)
    alone = cython.declare(cython.uchar[::1])
    lost = cython.declare(cython.const[cython.uchar][::1])
    alone, lost = found, nobody
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    for at in range(pieces.count):
        if pieces.shift[at]:
            alone[pieces.row[at]] = 1
    for row in range(own.count):
        alone[row] = (alone[row] and answered.of_row[row] < 0 and own.owner[row] >= 0) or lost[row]
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _find_used(own: _Rows, trees: tuple[_Tree, _Tree], alone: bytearray, is_used: bytearray) -> cython.int:
    """Mark the functions that have scopes or rows ``alone``; what is in none counts as one in front of them."""
    used = cython.declare(cython.uchar[::1])
    used = is_used
    row: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    tree: _Tree
    for tree in trees:
        for scope in range(tree.count):
            if tree.parent[scope] < 0:
                used[own.owner[tree.site[scope]] + 1] = 1
    for row in range(own.count):
        if alone[row]:
            used[own.owner[row] + 1] = 1
    return 0


@cython.cfunc
def _joined(
    own: _Rows, answered: _Tree, needed: _Tree, placeless: bytearray, is_used: bytearray, names: cython.uint
) -> RowScopes:
    """The functions that are used, then the scopes that are answered, then those that are ``needed`` to say what is
    written."""
    functions = array("i", [function - 1 for function in range(len(is_used)) if is_used[function]])
    found = RowScopes(len(functions) + answered.count + needed.count)
    found.functions = functions
    parent = cython.declare(cython.uint[::1])
    name = cython.declare(cython.uint[::1])
    inlined = cython.declare(cython.uchar[::1])
    file = cython.declare(cython.uint[::1])
    line = cython.declare(cython.uint[::1])
    column = cython.declare(cython.uint[::1])
    number = cython.declare(cython.uint[::1])
    parent, name, inlined = found.parent, found.name, found.inlined
    file, line, column = found.call_file, found.call_line, found.call_column
    number = array("I", bytes(4 * len(is_used)))
    used = cython.declare(cython.const[cython.int][::1])
    used = functions
    at: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    first: cython.Py_ssize_t = len(functions)
    row: cython.Py_ssize_t
    tree: _Tree
    for at in range(first):
        number[used[at] + 1] = cython.cast(cython.uint, at)
        parent[at], name[at] = _NO_PARENT, names + cython.cast(cython.uint, at)
    for tree in (answered, needed):
        for scope in range(tree.count):
            at, row = first + scope, tree.site[scope]
            around: cython.int = tree.parent[scope]
            parent[at] = cython.cast(cython.uint, first + around) if around >= 0 else number[own.owner[row] + 1]
            name[at], inlined[at] = tree.name[scope], 1
            if tree is needed or not placeless[scope]:
                file[at], line[at], column[at] = own.file[row], own.line[row], own.column[row]
        first += tree.count
    return found


@cython.cfunc
def _scopes_of_rows(own: _Rows, answered: _Tree, alone: bytearray, used: array[int]) -> array[int]:
    """The innermost scope of each row, or -1."""
    number = {function: which for which, function in enumerate(used)}
    functions: cython.int = len(used)
    found = array("i", bytes(4 * own.count))
    scope = cython.declare(cython.int[::1])
    scope = found
    row: cython.Py_ssize_t
    for row in range(own.count):
        scope[row] = answered.of_row[row] + functions if answered.of_row[row] >= 0 else -1
        if alone[row]:
            scope[row] = number[own.owner[row]]
    return found


@cython.cfunc
def _first_rows(own: _Rows, flags: Any, untold: bytearray, functions: cython.Py_ssize_t) -> array[int]:
    """For each function the row with a line with which its code begins, numbered from 1; 0 where it has none."""
    found = array("q", bytes(8 * functions))
    first = cython.declare(cython.longlong[::1])
    has_line = cython.declare(cython.const[cython.uchar][::1])
    flag = cython.declare(cython.const[cython.uchar][::1])
    first, has_line, flag = found, untold, flags
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for row in range(own.count):
        if has_line[row] and not flag[row] & _ENDS:
            at = first[own.owner[row]] - 1
            if at < 0 or own.offset[row] < own.offset[at]:
                first[own.owner[row]] = row + 1
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _find_foreign(own: _Rows, first_rows: array[int], untold: bytearray, foreign: bytearray) -> cython.int:
    """Mark those of ``untold`` whose line their function cannot have: that of another file than its first row, or
    before the line of that."""
    first = cython.declare(cython.const[cython.longlong][::1])
    has_line = cython.declare(cython.const[cython.uchar][::1])
    found = cython.declare(cython.uchar[::1])
    first, has_line, found = first_rows, untold, foreign
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for row in range(own.count):
        if has_line[row]:
            at = first[own.owner[row]] - 1
            found[row] = at >= 0 and (own.file[row] != own.file[at] or own.line[row] < own.line[at])
    return 0


@cython.cfunc
def _sites_of_foreign(own: _Rows, first_rows: array[int], foreign: bytearray, python_files: bytes) -> array[int]:
    """The call site of each row (as in ``_Tree``): for those of ``foreign`` in a file of Python's the first row of
    their function, which stands for the function itself."""
    found = array("I", bytes(4 * own.count))
    site = cython.declare(cython.uint[::1])
    first = cython.declare(cython.const[cython.longlong][::1])
    is_wanted = cython.declare(cython.const[cython.uchar][::1])
    is_python = cython.declare(cython.const[cython.uchar][::1])
    site, first, is_wanted, is_python = found, first_rows, foreign, python_files
    row: cython.Py_ssize_t
    for row in range(own.count if 1 in python_files else 0):
        if is_wanted[row] and is_python[own.file[row]]:
            site[row] = cython.cast(cython.uint, first[own.owner[row]])
    return found


@cython.cfunc
def _written(
    own: _Rows, pieces: _Pieces, found: RowScopes, needed: _Tree, marks: tuple[bytearray, ...]
) -> tuple[array[int], ...]:
    """What is answered otherwise than written: the pieces of rows that ``differ`` or are ``untold``, and those whose
    line is mended or doubted."""
    differs = cython.declare(cython.const[cython.uchar][::1])
    untold = cython.declare(cython.const[cython.uchar][::1])
    doubted = cython.declare(cython.const[cython.uchar][::1])
    nobody = cython.declare(cython.const[cython.uchar][::1])
    of_row = cython.declare(cython.const[cython.int][::1])
    differs, untold, doubted, nobody = marks
    of_row = found.of_row
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    for at in range(pieces.count):
        row = pieces.row[at]
        kept += differs[row] or untold[row] or pieces.shift[at] != 0
    sections, starts, ends = array("I", bytes(4 * kept)), array("Q", bytes(8 * kept)), array("Q", bytes(8 * kept))
    scopes, lines = array("I", bytes(4 * kept)), array("I", bytes(4 * kept))
    reasons, are_lined = array("B", bytes(kept)), array("B", bytes(kept))
    if not kept:
        return sections, starts, ends, scopes, reasons, are_lined, lines
    section = cython.declare(cython.uint[::1])
    start = cython.declare(cython.ulonglong[::1])
    end = cython.declare(cython.ulonglong[::1])
    scope = cython.declare(cython.uint[::1])
    reason = cython.declare(cython.uchar[::1])
    lined = cython.declare(cython.uchar[::1])
    line = cython.declare(cython.uint[::1])
    section, start, end, scope, reason, lined, line = sections, starts, ends, scopes, reasons, are_lined, lines
    first_needed: cython.int = len(found.parent) - needed.count
    said: cython.int
    mended: cython.longlong
    shift: cython.longlong
    kept = 0
    for at in range(pieces.count):
        row, shift = pieces.row[at], pieces.shift[at]
        if not (differs[row] or untold[row] or shift):
            continue
        said = of_row[row]
        if differs[row]:
            said = needed.of_row[row] + first_needed if needed.of_row[row] >= 0 else -1
        mended = own.line[row] - shift
        section[kept], start[kept], end[kept] = own.section[row], pieces.start[at], pieces.end[at]
        scope[kept] = cython.cast(cython.uint, said) if said >= 0 else _NO_PARENT
        reason[kept] = _CONTRADICTORY if doubted[row] or shift < 0 or mended <= 0 else _INFERRED
        lined[kept] = not nobody[row]
        line[kept] = cython.cast(cython.uint, mended) if shift > 0 and mended > 0 else 0
        kept += 1
    return sections, starts, ends, scopes, reasons, are_lined, lines
