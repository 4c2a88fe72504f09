# cython: language_level=3, boundscheck=True, wraparound=False
"""Functions and inlined calls (``symd.core.dies``) -> scopes: each with its name, its call site and its declaration,
through the DIEs that it refers to (DWARF 5, 2.13, 3.3.5, 3.3.8)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import cython

from symd.core.byte_reader import KERNEL_BODY
from symd.core.dies import IS_DECLARATION, NO_FILE, STATES_CODE

if cython.compiled:
    from cython.cimports.symd.core import dies
else:
    from symd.core import dies
if cython.compiled:
    from cython.cimports.symd.core import byte_reader
else:
    from symd.core import byte_reader


NO_PARENT = NO_FUNCTION = 0xFFFFFFFF
"""The numbers of none, as ``symd.model.debug_info`` has them."""
_NO_PARENT = cython.declare(cython.uint, NO_PARENT)
_NO_FUNCTION = cython.declare(cython.uint, NO_FUNCTION)
_NO_FILE = cython.declare(cython.uint, NO_FILE)
_INLINED_CALL = cython.declare(cython.uint, 0x1D)
"""DW_TAG_inlined_subroutine (7.5.3)."""
_DECLARATION = cython.declare(cython.uint, IS_DECLARATION)
_STATES_CODE = cython.declare(cython.uint, STATES_CODE)
_MAX_STEPS = cython.declare(cython.int, 32)
"""References that are followed from a DIE to its name or its function; more are a cycle."""
_NO_NUMBERS = cython.declare(cython.const[cython.uint][::1], array("I"))
_OWN_BODY = cython.declare(cython.uchar, 2)
"""``symd.model.debug_info.BODY``."""

# Columns of ``ScopeRows.scopes`` and ``ScopeRows.functions``, one behind the other.
SCOPE_COLUMNS = ("parent", "name", "linkage_name", "call_file", "call_line", "call_column", "unit", "function")
FUNCTION_COLUMNS = ("name", "linkage_name", "file", "line", "unit")
_PARENT = cython.declare(cython.Py_ssize_t, 0)
_NAME = cython.declare(cython.Py_ssize_t, 1)
_LINKAGE_NAME = cython.declare(cython.Py_ssize_t, 2)
_CALL_FILE = cython.declare(cython.Py_ssize_t, 3)
_CALL_LINE = cython.declare(cython.Py_ssize_t, 4)
_CALL_COLUMN = cython.declare(cython.Py_ssize_t, 5)
_UNIT = cython.declare(cython.Py_ssize_t, 6)
_FUNCTION = cython.declare(cython.Py_ssize_t, 7)


class ScopeRows:
    """Scopes and the functions that they belong to, of one object after the other: ``scopes`` and ``functions`` are
    arrays of u32, in which SCOPE_COLUMNS and FUNCTION_COLUMNS stand one behind the other; ``inlined`` (u8) is equally
    long as a column of scopes, and ``range_scope`` (u32) as the ranges of the DIEs.
    ``symd.debuginfo.dwarf.columns.ScopeColumns`` and ``FunctionColumns`` say what is in each; numbers of scopes and
    functions are those in their object. ``scope_ends`` and ``function_ends`` (i64) are how many there are up to the end
    of each object. For each object ``missing_names`` counts the places of names that hold no string, and
    ``shared_units`` are the numbers of the units in which several functions are scopes."""

    __slots__ = (
        "function_ends", "functions", "inlined", "missing_names", "range_scope", "scope_ends", "scopes", "shared_units",
    )  # fmt: skip

    def __init__(self) -> None:
        self.scopes, self.functions, self.range_scope = array("I"), array("I"), array("I")
        self.inlined = array("B")
        self.scope_ends, self.function_ends = array("q"), array("q")
        self.missing_names: list[int] = []
        self.shared_units: list[list[int]] = []


def read_scopes(
    rows: dies.DieRows,
    row_ends: Sequence[int],
    units: Sequence[int],
    file_maps: Sequence[array[int]],
    strings: Sequence[byte_reader.StringReader],
    names: Sequence[byte_reader.Names],
) -> ScopeRows:
    """The scopes among the DIEs of ``rows``, which are the functions and inlined calls of some units of some objects;
    ``row_ends`` says how many rows there are up to the end of each object. ``strings`` reads those of each object, and
    ``names`` takes its names. ``units`` has the number of each unit in its object, and ``file_maps`` the file number
    (u32) of each file register of its line table."""
    found = ScopeRows()
    count: cython.Py_ssize_t = rows.count
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    number: cython.Py_ssize_t
    missing: cython.Py_ssize_t
    ends = cython.declare(cython.const[cython.longlong][::1])
    ends = array("q", row_ends)
    specification = cython.declare(cython.int[::1])
    origin = cython.declare(cython.int[::1])
    name = cython.declare(cython.uint[::1])
    linkage_name = cython.declare(cython.uint[::1])
    function = cython.declare(cython.uint[::1])
    rows.take_scratch()
    specification, origin = rows.signed_scratch[:count], rows.signed_scratch[count : 2 * count]
    name, linkage_name = rows.narrow_scratch[:count], rows.narrow_scratch[count : 2 * count]
    function = rows.narrow_scratch[2 * count : 3 * count]
    work = cython.declare(cython.uint[::1])
    work = rows.narrow_scratch[3 * count : 4 * count]
    for number in range(len(ends)):
        last = ends[number]
        _refer(rows, dies.SPECIFICATION, first, last, specification)
        _refer(rows, dies.ORIGIN, first, last, origin)
        own, texts = names[number], strings[number]
        missing = _name(rows, dies.NAME, first, last, specification, origin, texts, own, name, work)
        missing += _name(rows, dies.LINKAGE_NAME, first, last, specification, origin, texts, own, linkage_name, work)
        found.missing_names.append(missing)
        first = last
    _add_functions(found, rows, ends, units, file_maps, specification, origin, name, linkage_name, function)
    _add_scopes(found, rows, ends, units, file_maps, function, name, linkage_name, work)
    _mark_kernel_bodies(found, names)
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _refer(
    rows: dies.DieRows,
    column: cython.int,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    targets: cython.int[::1],
) -> cython.int:
    """Tell for each DIE of an object, whose rows are [first, last), the number of the one that it refers to, or -1."""
    row: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    wanted: cython.ulonglong
    for row in range(first, last):
        targets[row] = -1
        wanted = rows.wide_view[dies.WIDE * row + column]
        low, high = first, last - 1
        if wanted > rows.wide_view[dies.WIDE * high + dies.OFFSET]:
            continue
        while low < high:
            middle = (low + high) // 2
            if rows.wide_view[dies.WIDE * middle + dies.OFFSET] < wanted:
                low = middle + 1
            else:
                high = middle
        if rows.wide_view[dies.WIDE * low + dies.OFFSET] == wanted:
            targets[row] = cython.cast(cython.int, low)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=True)
def _name(
    rows: dies.DieRows,
    column: cython.int,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    specification: cython.int[::1],
    origin: cython.int[::1],
    strings: byte_reader.StringReader,
    names: byte_reader.Names,
    number: cython.uint[::1],
    known: cython.uint[::1],
) -> cython.Py_ssize_t:
    """Tell the ``number`` of the own string of each DIE of an object, or that of the DIE that it refers to, and so on;
    how many places of strings hold none. In ``known`` is 1 then where there is one, and 2 in between where there is one
    from the next round on."""
    row: cython.Py_ssize_t
    has_any: cython.bint = False
    for row in range(first, last):
        known[row] = rows.wide_view[dies.WIDE * row + column] != 0
        has_any = has_any or known[row]
    if not has_any:
        for row in range(first, last):
            number[row] = 0
        return 0
    missing: cython.Py_ssize_t = names.number(
        strings, rows.wide_view, dies.WIDE * first + column, dies.WIDE, number[first:last], rows.wide_scratch
    )
    for _ in range(_MAX_STEPS):
        taken = _take_names(number, known, specification, first, last) + _take_names(number, known, origin, first, last)
        if not taken:
            break
    return missing


@cython.cfunc
@cython.exceptval(-1, check=True)
def _take_names(
    number: cython.uint[::1],
    known: cython.uint[::1],
    target: cython.int[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
) -> cython.int:
    """Take for each DIE of an object that has no name that of the one it refers to, if that had one before; whether
    there was any."""
    row: cython.Py_ssize_t
    is_any: cython.bint = False
    for row in range(first, last):
        if not known[row] and target[row] >= 0 and known[target[row]] == 1:
            number[row] = number[target[row]]
            known[row] = 2
            is_any = True
    if is_any:
        for row in range(first, last):
            known[row] = known[row] != 0
    return is_any


@cython.cfunc
@cython.exceptval(-1, check=True)
def _add_functions(
    found: ScopeRows,
    rows: dies.DieRows,
    ends: cython.const[cython.longlong][::1],  # type: ignore[valid-type] # a view, to Cython
    units: Sequence[int],
    file_maps: Sequence[array[int]],
    specification: cython.int[::1],
    origin: cython.int[::1],
    name: cython.uint[::1],
    linkage_name: cython.uint[::1],
    numbers: cython.uint[::1],
) -> cython.int:
    """Add the functions that DIEs define and that have a line. ``numbers`` tells then for each DIE that of the one that
    it is a piece of, among all, or NO_FUNCTION: abstract instances, inlined calls and bodies out of line lead to one
    function each. A line or a file that a definition does not state is that of its DW_AT_specification (DWARF 5,
    2.13.2): compilers leave the file out where both have the same one."""
    count: cython.Py_ssize_t = rows.count
    row: cython.Py_ssize_t
    said: cython.Py_ssize_t  # the row that states its line, then the one that states its file
    column: cython.Py_ssize_t
    of: cython.int
    step: cython.int
    defined: cython.uint = 0
    number: cython.Py_ssize_t
    row = 0
    for number in range(len(ends)):
        while row < ends[number]:
            numbers[row] = _NO_FUNCTION
            if _declared(rows, row, specification, origin) >= 0:
                numbers[row] = defined
                defined += 1
            row += 1
        found.function_ends.append(defined)
    found.functions = array("I", bytes(4 * len(FUNCTION_COLUMNS) * defined))
    table = cython.declare(cython.uint[::1])
    table = found.functions
    files = cython.declare(cython.const[cython.uint][::1])
    files = _NO_NUMBERS
    unit_number: cython.int = -1  # of the unit whose files these are
    column = defined
    for row in range(count):
        of = cython.cast(cython.int, row)
        step = 0
        while step < _MAX_STEPS and origin[of] >= 0:
            of = origin[of]
            step += 1
        if origin[of] >= 0 and origin[of] != of:
            continue
        numbers[row] = numbers[of]
        if of != row or numbers[row] == _NO_FUNCTION:
            continue
        of = cython.cast(cython.int, numbers[row])
        table[of], table[column + of] = name[row], linkage_name[row]
        said = _declared(rows, row, specification, origin)
        table[3 * column + of] = rows.narrow_view[dies.NARROW * said + dies.DECL_LINE]
        said = row
        if rows.narrow_view[dies.NARROW * row + dies.DECL_FILE] == _NO_FILE and specification[row] >= 0:
            said = specification[row]
        if unit_number != cython.cast(cython.int, rows.narrow_view[dies.NARROW * said + dies.UNIT]):
            unit_number = cython.cast(cython.int, rows.narrow_view[dies.NARROW * said + dies.UNIT])
            files = file_maps[unit_number]
        table[2 * column + of] = _file(files, rows.narrow_view[dies.NARROW * said + dies.DECL_FILE])
        table[4 * column + of] = units[rows.narrow_view[dies.NARROW * row + dies.UNIT]]
    return 0


@cython.cfunc
@cython.exceptval(-2, check=True)
def _declared(
    rows: dies.DieRows,
    row: cython.Py_ssize_t,
    specification: cython.int[::1],
    origin: cython.int[::1],
) -> cython.Py_ssize_t:
    """The DIE that states the line of the function that a DIE defines; -1 where it defines none, or none with a
    line."""
    at: cython.Py_ssize_t = dies.NARROW * row
    if origin[row] >= 0 and origin[row] != row:
        return -1
    if rows.narrow_view[at + dies.TAG] == _INLINED_CALL or rows.narrow_view[at + dies.FLAGS] & _DECLARATION:
        return -1
    if not rows.narrow_view[at + dies.DECL_LINE]:
        row = specification[row]
    return row if row >= 0 and rows.narrow_view[dies.NARROW * row + dies.DECL_LINE] else -1


@cython.cfunc
@cython.exceptval(-1, check=True)
def _file(files: cython.const[cython.uint][::1], register: cython.uint) -> cython.uint:  # type: ignore[valid-type] # a view, to Cython
    """The number of the file that a register means, 0 where the line table has none."""
    return files[register] if register < cython.cast(cython.size_t, len(files)) else 0


@cython.cfunc
@cython.exceptval(-1, check=True)
def _add_scopes(
    found: ScopeRows,
    rows: dies.DieRows,
    ends: cython.const[cython.longlong][::1],  # type: ignore[valid-type] # a view, to Cython
    units: Sequence[int],
    file_maps: Sequence[array[int]],
    function: cython.uint[::1],
    name: cython.uint[::1],
    linkage_name: cython.uint[::1],
    kept: cython.uint[::1],
) -> cython.int:
    """Add the DIEs that state code, everything around their inlined calls up to the function, and all calls that were
    inlined into these: some compilers do not say where their code is."""
    count: cython.Py_ssize_t = rows.count
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    around: cython.uint  # the number of the DIE around, plus one
    scope: cython.Py_ssize_t = 0
    for row in range(count):
        kept[row] = rows.narrow_view[dies.NARROW * row + dies.FLAGS] & _STATES_CODE != 0
    for row in range(count - 1, -1, -1):  # what is around a DIE stands before it
        around = rows.narrow_view[dies.NARROW * row + dies.PARENT]
        if kept[row] and around and rows.narrow_view[dies.NARROW * row + dies.TAG] == _INLINED_CALL:
            kept[around - 1] = True
    for row in range(count):
        around = rows.narrow_view[dies.NARROW * row + dies.PARENT]
        if not kept[row] and around and kept[around - 1]:
            kept[row] = rows.narrow_view[dies.NARROW * row + dies.TAG] == _INLINED_CALL
        scope += kept[row]
    stride: cython.Py_ssize_t = scope
    found.scopes = array("I", bytes(4 * len(SCOPE_COLUMNS) * stride))
    found.inlined = array("B", bytes(stride))
    table = cython.declare(cython.uint[::1])
    inlined = cython.declare(cython.uchar[::1])
    files = cython.declare(cython.const[cython.uint][::1])
    table, inlined, files = found.scopes, found.inlined, _NO_NUMBERS
    unit_number: cython.int = -1
    unit: cython.uint = 0
    functions: cython.Py_ssize_t = 0  # that are scopes of that unit
    first: cython.uint = 0  # of this object's scopes
    first_function: cython.uint = 0
    number: cython.Py_ssize_t = -1
    stop: cython.Py_ssize_t = 0  # the row behind this object's
    scope = 0
    for row in range(count):
        while row >= stop:
            number += 1
            stop = ends[number]
            first_function = found.function_ends[number - 1] if number else 0
            first = cython.cast(cython.uint, scope)
            if number:
                found.scope_ends.append(scope)
            found.shared_units.append([])
        if not kept[row]:
            continue
        at = dies.NARROW * row
        if unit_number != cython.cast(cython.int, rows.narrow_view[at + dies.UNIT]):
            unit_number = cython.cast(cython.int, rows.narrow_view[at + dies.UNIT])
            files, unit = file_maps[unit_number], units[unit_number]
            functions = 0
        around = rows.narrow_view[at + dies.PARENT]
        kept[row] = cython.cast(cython.uint, scope) - first
        inlined[scope] = rows.narrow_view[at + dies.TAG] == _INLINED_CALL
        if inlined[scope] and around:
            table[_PARENT * stride + scope] = kept[around - 1]
        else:
            table[_PARENT * stride + scope] = _NO_PARENT
            functions += 1
            if functions == 2:
                found.shared_units[number].append(unit)
        table[_NAME * stride + scope], table[_LINKAGE_NAME * stride + scope] = name[row], linkage_name[row]
        table[_CALL_FILE * stride + scope] = _file(files, rows.narrow_view[at + dies.CALL_FILE])
        table[_CALL_LINE * stride + scope] = rows.narrow_view[at + dies.CALL_LINE]
        table[_CALL_COLUMN * stride + scope] = rows.narrow_view[at + dies.CALL_COLUMN]
        table[_UNIT * stride + scope] = unit
        table[_FUNCTION * stride + scope] = (
            _NO_FUNCTION if function[row] == _NO_FUNCTION else function[row] - first_function
        )
        scope += 1
    while len(found.scope_ends) < len(ends):
        found.scope_ends.append(scope)
    while len(found.shared_units) < len(ends):
        found.shared_units.append([])
    found.range_scope = array("I", rows.ranges.which)
    range_scope = cython.declare(cython.uint[::1])
    range_scope = found.range_scope
    for row in range(len(range_scope)):
        range_scope[row] = kept[range_scope[row]]
    return 0


@cython.cfunc
@cython.exceptval(-1, check=True)
def _mark_kernel_bodies(found: ScopeRows, names: Sequence[byte_reader.Names]) -> cython.int:
    """Mark the calls that are the own bodies of the kernels around them."""
    table = cython.declare(cython.const[cython.uint][::1])
    inlined = cython.declare(cython.uchar[::1])
    table, inlined = found.scopes, found.inlined
    stride: cython.Py_ssize_t = len(inlined)
    number: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    around: cython.Py_ssize_t
    parent: cython.uint
    linkage_name: cython.uint
    body: cython.longlong
    for number in range(len(names)):
        last = found.scope_ends[number]
        texts: tuple[str, ...] = ()
        numbers: dict[str, int] = {}
        bodies: dict[int, int] = {}  # by linkage name the name of the kernel, or -1: names may be long
        for scope in range(first, last):
            parent, linkage_name = table[_PARENT * stride + scope], table[_LINKAGE_NAME * stride + scope]
            if not linkage_name or not inlined[scope] or parent == _NO_PARENT or inlined[first + parent]:
                continue
            around = first + parent
            if not texts:
                texts = names[number].all()
            body = bodies.get(linkage_name, -2)
            if body == -2:
                text = texts[linkage_name]
                body = -1
                if text.startswith(KERNEL_BODY):
                    numbers = numbers or {text: at for at, text in enumerate(texts)}
                    body = numbers.get(text[len(KERNEL_BODY) :], -1)
                bodies[linkage_name] = body
            if body in (table[_NAME * stride + around], table[_LINKAGE_NAME * stride + around]):
                inlined[scope] = _OWN_BODY
        first = last
    return 0
