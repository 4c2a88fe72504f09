# cython: language_level=3, boundscheck=True, wraparound=False
"""The word stream of a SPIR-V module (SPIR-V 1.6, 2.3): where instructions begin, those of some kind, and line
statements to rows (3.52.2; NonSemantic.Shader.DebugInfo.100, DebugLine and DebugNoLine). A row begins at the first
instruction that a statement governs, and ends where the block ends.

Words are u32; an instruction is its number. A module is its words, and of each instruction its first word, opcode and
count of words, as ``split`` has them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import cython


def split(words: array[int], first: int) -> tuple[array[int], array[int], array[int], int]:
    """The instructions from the word ``first`` on, as equally long columns: the word at which each begins (u32), opcode
    and count of words (u16 each). Last is the word behind them: that of an instruction that has no words or more than
    there are, or the number of all words."""
    stream = cython.declare(cython.const[cython.uint][::1])
    stream = words
    end: cython.Py_ssize_t = len(words)
    at: cython.Py_ssize_t = first
    size: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t = 0
    while at < end:
        size = stream[at] >> 16
        if not size or size > end - at:
            break
        number += 1
        at += size
    count: cython.Py_ssize_t = number
    columns = array("I", bytes(4 * count)), array("H", bytes(2 * count)), array("H", bytes(2 * count))
    starts = cython.declare(cython.uint[::1])
    opcodes = cython.declare(cython.ushort[::1])
    counts = cython.declare(cython.ushort[::1])
    starts, opcodes, counts = columns
    at = first
    for number in range(count):
        starts[number] = cython.cast(cython.uint, at)
        opcodes[number] = cython.cast(cython.ushort, stream[at] & 0xFFFF)
        size = stream[at] >> 16
        counts[number] = cython.cast(cython.ushort, size)
        at += size
    return (*columns, int(at))


def by_opcode(opcode: array[int]) -> tuple[array[int], array[int]]:
    """(the numbers, u32, of all instructions in the order of their opcodes, for each opcode up to one above the highest
    where its first one stands there, u32)."""
    opcodes = cython.declare(cython.const[cython.ushort][::1])
    opcodes = opcode
    number: cython.Py_ssize_t
    highest: cython.Py_ssize_t = 0
    which: cython.Py_ssize_t
    for number in range(len(opcodes)):
        highest = max(highest, opcodes[number])
    firsts = array("I", bytes(4 * (highest + 2)))
    first = cython.declare(cython.uint[::1])
    first = firsts
    order = array("I", bytes(4 * len(opcode)))
    ordered = cython.declare(cython.uint[::1])
    ordered = order
    for number in range(len(opcodes)):
        first[opcodes[number] + 1] += 1
    for which in range(1, highest + 2):
        first[which] += first[which - 1]
    for number in range(len(opcodes)):
        which = opcodes[number]
        ordered[first[which]] = cython.cast(cython.uint, number)
        first[which] += 1  # then it is where the next opcode's begin
    for which in range(highest + 1, 0, -1):
        first[which] = first[which - 1]
    first[0] = 0
    return order, firsts


def of_sets(
    words: array[int], start: array[int], count: array[int], numbers: array[int], sets: Container[int], wanted: bytes
) -> array[int]:
    """The numbers (u32, as ``numbers``) of the OpExtInst that are instructions of one of these sets, by id, and not 0
    in ``wanted``, a table by the number that an instruction has in its set; empty, it is one of all."""
    stream = cython.declare(cython.const[cython.uint][::1])
    starts = cython.declare(cython.const[cython.uint][::1])
    counts = cython.declare(cython.const[cython.ushort][::1])
    the_numbers = cython.declare(cython.const[cython.uint][::1])
    table = cython.declare(cython.const[cython.uchar][::1])
    stream, starts, counts, the_numbers, table = words, start, count, numbers, wanted
    found = array("I")
    at: cython.Py_ssize_t
    number: cython.Py_ssize_t
    operation: cython.uint
    known: cython.uint = 0  # no id
    is_known: cython.bint = False
    for at in range(len(the_numbers)):
        number = the_numbers[at]
        if counts[number] < 5:
            continue
        operation = stream[starts[number] + 4]
        if len(table) and (operation >= len(table) or not table[operation]):
            continue
        if stream[starts[number] + 3] != known:
            known = stream[starts[number] + 3]
            is_known = known in sets
        if is_known:
            found.append(number)
    return found


_NOTHING = cython.declare(cython.uint, 0xFFFFFFFF)

# Opcodes, and numbers of instructions in sets of debug instructions.
_OP_LINE = cython.declare(cython.int, 8)
_OP_EXT_INST = cython.declare(cython.int, 12)
_OP_FUNCTION = cython.declare(cython.int, 54)
_OP_NO_LINE = cython.declare(cython.int, 317)
_DEBUG_SCOPE = cython.declare(cython.uint, 23)
_DEBUG_NO_SCOPE = cython.declare(cython.uint, 24)
_DEBUG_LINE = cython.declare(cython.uint, 103)
_DEBUG_NO_LINE = cython.declare(cython.uint, 104)

# What an instruction is: it ends its block, or states something; kinds from _LINE on do.
_ENDS = cython.declare(cython.uchar, 1)
_LINE = cython.declare(cython.uchar, 2)
_NO_LINE = cython.declare(cython.uchar, 3)
_DEBUG = cython.declare(cython.uchar, 4)
_NO_DEBUG = cython.declare(cython.uchar, 5)
_SCOPE = cython.declare(cython.uchar, 6)

# Bits of ``symd.model.debug_info.RowFlag``.
_IS_STMT = cython.declare(cython.uchar, 1)
_END_SEQUENCE = cython.declare(cython.uchar, 4)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _ends_block(opcode: cython.int) -> cython.bint:
    """Block termination instructions (2.2.5): OpBranch to OpUnreachable, and those of extensions."""
    return 249 <= opcode <= 255 or opcode in (4416, 4448, 4449, 5294)


def kinds(module: Sequence[array[int]], sets: Mapping[int, bool]) -> tuple[bytearray, set[int], set[int]]:
    """(what each instruction is, the files that OpLine names by id, and those that DebugLine does). ``sets`` are those
    of debug instructions by id, each with whether it writes numbers as ids: the others have no lines."""
    stream = cython.declare(cython.const[cython.uint][::1])
    starts = cython.declare(cython.const[cython.uint][::1])
    opcodes = cython.declare(cython.const[cython.ushort][::1])
    counts = cython.declare(cython.const[cython.ushort][::1])
    stream, starts, opcodes, counts = module
    found = bytearray(len(module[1]))
    kind = cython.declare(cython.uchar[::1])
    kind = found
    of_lines: set[int] = set()
    of_debug_lines: set[int] = set()
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    opcode: cython.int
    operation: cython.uint
    line_file: cython.uint = 0  # no id
    debug_file: cython.uint = 0
    known: cython.uint = 0
    has_set: cython.bint = False
    has_lines: cython.bint = False
    for number in range(len(opcodes)):
        opcode = opcodes[number]
        at = starts[number]
        if _ends_block(opcode):
            kind[number] = _ENDS
        elif opcode == _OP_NO_LINE:
            kind[number] = _NO_LINE
        elif opcode == _OP_LINE:
            kind[number] = _LINE if counts[number] >= 4 else _NO_LINE
            if counts[number] >= 4 and stream[at + 1] != line_file:
                line_file = stream[at + 1]
                of_lines.add(line_file)
        elif opcode == _OP_EXT_INST and counts[number] >= 5:
            if stream[at + 3] != known:
                known = stream[at + 3]
                is_of_ids = sets.get(known)
                has_set, has_lines = is_of_ids is not None, bool(is_of_ids)
            operation = stream[at + 4]
            if has_set and operation in (_DEBUG_SCOPE, _DEBUG_NO_SCOPE):
                kind[number] = _SCOPE
            elif has_lines and operation == _DEBUG_NO_LINE:
                kind[number] = _NO_DEBUG
            elif has_lines and operation == _DEBUG_LINE:
                kind[number] = _DEBUG if counts[number] >= 9 else _NO_DEBUG
                if counts[number] >= 9 and stream[at + 5] != debug_file:
                    debug_file = stream[at + 5]
                    of_debug_lines.add(debug_file)
    return found, of_lines, of_debug_lines


def scope_changes(module: Sequence[array[int]], kinds: bytearray) -> tuple[array[int], array[int], array[int]]:
    """Where the scope in force may change, in order, u32 each: the first instruction that it governs, the scope by id
    (0: none), and its DebugInlinedAt (0: none)."""
    stream = cython.declare(cython.const[cython.uint][::1])
    starts = cython.declare(cython.const[cython.uint][::1])
    counts = cython.declare(cython.const[cython.ushort][::1])
    kind = cython.declare(cython.const[cython.uchar][::1])
    stream, starts, counts, kind = module[0], module[1], module[3], kinds
    number: cython.Py_ssize_t
    changes: cython.Py_ssize_t = kinds.count(_ENDS) + kinds.count(_SCOPE)
    found = array("I", bytes(4 * changes)), array("I", bytes(4 * changes)), array("I", bytes(4 * changes))
    governed = cython.declare(cython.uint[::1])
    scope = cython.declare(cython.uint[::1])
    inlined = cython.declare(cython.uint[::1])
    governed, scope, inlined = found
    here: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    for number in range(len(kind)):
        if kind[number] == _ENDS:
            governed[at] = cython.cast(cython.uint, number + 1)
            at += 1
        elif kind[number] == _SCOPE:
            here = max(here, number)
            while here < len(kind) and kind[here] >= _LINE:
                here += 1
            governed[at] = cython.cast(cython.uint, here)
            if stream[starts[number] + 4] == _DEBUG_SCOPE and counts[number] >= 6:
                scope[at] = stream[starts[number] + 5]
                if counts[number] >= 7:
                    inlined[at] = stream[starts[number] + 6]
            at += 1
    return found


def in_force(kinds: bytearray) -> tuple[array[int], array[int], bytearray]:
    """Where another statement may be in force, in order: the first instruction that it governs (u32), the statement
    (u32; NOTHING where there is none), and whether only a scope changes there. A DebugLine outranks an OpLine as long
    as it lasts, and a DebugNoLine ends both; of several statements in front of an instruction the last one counts. The
    module's end ends its last block."""
    kind = cython.declare(cython.const[cython.uchar][::1])
    kind = kinds
    most = len(kinds) - kinds.count(0) + 1
    places, statements, are_scopes = array("I", bytes(4 * most)), array("I", bytes(4 * most)), bytearray(most)
    at = cython.declare(cython.uint[::1])
    statement = cython.declare(cython.uint[::1])
    is_scope = cython.declare(cython.uchar[::1])
    at, statement, is_scope = places, statements, are_scopes
    number: cython.Py_ssize_t
    here: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    what: cython.uchar
    line: cython.uint = _NOTHING
    debug: cython.uint = _NOTHING
    for number in range(len(kind) + 1):
        what = kind[number] if number < len(kind) else _ENDS
        if not what:
            continue
        if what == _ENDS:
            here = min(number + 1, len(kind))
            line = debug = _NOTHING
        else:
            here = max(here, number)
            while here < len(kind) and kind[here] >= _LINE:
                here += 1
            if what == _DEBUG:
                debug = cython.cast(cython.uint, number)
            elif what == _NO_DEBUG:
                line = debug = _NOTHING
            elif what != _SCOPE:
                line = cython.cast(cython.uint, number) if what == _LINE else _NOTHING
                if debug != _NOTHING:
                    continue
        if not count or at[count - 1] != here:
            at[count] = cython.cast(cython.uint, here)
            count += 1
        statement[count - 1] = debug if debug != _NOTHING else line
        is_scope[count - 1] = what == _SCOPE
    return places[:count], statements[:count], are_scopes[:count]


def locations(
    module: Sequence[array[int]],
    kinds: bytearray,
    statements: array[int],
    files: tuple[Mapping[int, int], Mapping[int, int]],
    constants: Mapping[int, int],
) -> tuple[array[int], array[int], array[int]]:
    """File, line and column (u32) of each of these statements; of NOTHING they are 0. ``files`` are the numbers of
    those that ``kinds`` found, by id."""
    stream = cython.declare(cython.const[cython.uint][::1])
    starts = cython.declare(cython.const[cython.uint][::1])
    kind = cython.declare(cython.const[cython.uchar][::1])
    statement = cython.declare(cython.const[cython.uint][::1])
    stream, starts, kind, statement = module[0], module[1], kinds, statements
    size = 4 * len(statements)
    found = array("I", bytes(size)), array("I", bytes(size)), array("I", bytes(size))
    file = cython.declare(cython.uint[::1])
    line = cython.declare(cython.uint[::1])
    column = cython.declare(cython.uint[::1])
    file, line, column = found
    of_lines, of_debug_lines = files
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    known: cython.uint = 0  # no id
    number_of_known: cython.uint = 0
    debug_known: cython.uint = 0
    number_of_debug_known: cython.uint = 0
    for number in range(len(statement)):
        if statement[number] == _NOTHING:
            continue
        at = starts[statement[number]]
        if kind[statement[number]] == _LINE:
            if stream[at + 1] != known:
                known = stream[at + 1]
                number_of_known = of_lines[known]
            file[number], line[number], column[number] = number_of_known, stream[at + 2], stream[at + 3]
        else:
            if stream[at + 5] != debug_known:
                debug_known = stream[at + 5]
                number_of_debug_known = of_debug_lines[debug_known]
            file[number] = number_of_debug_known
            line[number], column[number] = constants.get(stream[at + 6], 0), constants.get(stream[at + 8], 0)
    return found


def leave_out_foreign(
    opcode: array[int],
    force: tuple[array[int], array[int]],
    location: tuple[array[int], array[int]],
    segments: tuple[array[int], array[int], array[int]],
    stated_places: Callable[[], Iterable[tuple[int, int, int]]],
) -> None:
    """Write NOTHING for statements that stand where no scope does and are another function's: the debug data states
    their place of that one, and nowhere of the function around. ``force`` are where they are in force and which;
    ``location`` are file and line. ``segments``, as ``ScopeBuilder.segments`` has them, tell whose code is whose;
    ``stated_places`` gives what is said apart from code: functions by id, with file and line."""
    opcodes = cython.declare(cython.const[cython.ushort][::1])
    at = cython.declare(cython.const[cython.uint][::1])
    statement = cython.declare(cython.uint[::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    first = cython.declare(cython.const[cython.uint][::1])
    named = cython.declare(cython.const[cython.uint][::1])
    own = cython.declare(cython.const[cython.uint][::1])
    opcodes = opcode
    at, statement = force
    file, line = location
    first, named, own = segments
    sayers, doubted = array("I", bytes(4 * len(at))), array("I", bytes(4 * len(at)))
    sayer = cython.declare(cython.uint[::1])
    around = cython.declare(cython.uint[::1])
    sayer, around = sayers, doubted
    number: cython.Py_ssize_t
    segment: cython.Py_ssize_t = 0
    wanted = set()
    for number in range(len(at)):
        while segment < len(first) and first[segment] <= at[number]:
            segment += 1
        if not segment or statement[number] == _NOTHING or not line[number]:
            continue
        if named[segment - 1]:
            sayer[number] = named[segment - 1]
        elif at[number] < len(opcodes) and opcodes[at[number]] == _OP_FUNCTION:
            sayer[number] = own[segment - 1]
        elif own[segment - 1]:
            around[number] = own[segment - 1]
            wanted.add((file[number], line[number]))
    if not wanted:
        return
    said = {(function, (its_file, its_line)) for function, its_file, its_line in stated_places() if function}
    for number in range(len(at)):
        if sayer[number] and (file[number], line[number]) in wanted:
            said.add((sayer[number], (file[number], line[number])))
    known = {place for _, place in said}
    for number in range(len(at)):
        if around[number]:
            place = file[number], line[number]
            if place in known and (around[number], place) not in said:
                statement[number] = _NOTHING


def rows(
    start: array[int],
    end: int,
    force: tuple[array[int], array[int], bytearray],
    location: tuple[array[int], array[int], array[int]],
) -> tuple[array[int], array[int], array[int], array[int], array[int]]:
    """Rows: byte offset (u64), file, line and column (u32), flags (u8). Where nothing is in force any more the sequence
    ends. ``start`` is the first word of each instruction and ``end`` the word behind the last; ``force`` and
    ``location`` are what is found by functions above."""
    starts = cython.declare(cython.const[cython.uint][::1])
    at = cython.declare(cython.const[cython.uint][::1])
    statement = cython.declare(cython.const[cython.uint][::1])
    is_scope = cython.declare(cython.const[cython.uchar][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    column = cython.declare(cython.const[cython.uint][::1])
    starts = start
    at, statement, is_scope = force
    file, line, column = location
    size = len(at)
    offsets, row_flags = array("Q", bytes(8 * size)), array("B", bytes(size))
    files, lines, columns = array("I", bytes(4 * size)), array("I", bytes(4 * size)), array("I", bytes(4 * size))
    offset = cython.declare(cython.ulonglong[::1])
    row_file = cython.declare(cython.uint[::1])
    row_line = cython.declare(cython.uint[::1])
    row_column = cython.declare(cython.uint[::1])
    flags = cython.declare(cython.uchar[::1])
    offset, row_file, row_line, row_column, flags = offsets, files, lines, columns, row_flags
    number: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    word: cython.ulonglong
    before: cython.uint = _NOTHING
    is_open: cython.bint = False
    for number in range(len(at)):
        if is_scope[number] and statement[number] == before:
            continue
        before = statement[number]
        if before == _NOTHING and not is_open:
            continue
        word = starts[at[number]] if at[number] < len(starts) else end
        offset[count] = 4 * word
        is_open = before != _NOTHING
        if is_open:
            row_file[count], row_line[count], row_column[count] = file[number], line[number], column[number]
        flags[count] = (_IS_STMT if line[number] else 0) if is_open else _END_SEQUENCE
        count += 1
    return offsets[:count], files[:count], lines[:count], columns[:count], row_flags[:count]
