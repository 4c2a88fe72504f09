"""Which lines of its source file a function can have: from its declaration up to the next one in the same file.

What stands inside a function must not end it: lambdas, blocks, methods of local classes and outlined parallel regions
are known by their names; and whatever is declared before a line from which the function calls something. Where a
function calls something from a line before its own declaration, ``#line`` is at work, and nothing is said of any
function of that file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import ScopeColumns
from symd.dwarf.columns import FunctionColumns
from symd.model.columns import U32, U64, distinct
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, FunctionLines

_NO_END = 0xFFFFFFFF
_LOCAL = "_ZZ"
"""How the Itanium ABI begins the mangled name of what is declared inside a function."""
_INSIDE = ("operator()", "_block_invoke", "omp_outlined")
"""What the names of lambdas, blocks and outlined regions have in common."""


def function_lines(scopes: ScopeColumns) -> FunctionLines:
    """The lines of ``scopes.functions``, unit by unit."""
    functions = scopes.functions
    group = _files(functions)
    last, moved = _calls(scopes, group)
    outer = ~_nested(functions, scopes.names)
    declared = distinct(_place(group[outer], functions.line[outer]))
    end = _next_line(declared, group, last)
    end[np.isin(group, moved)] = 0
    return FunctionLines(functions.unit, functions.file, functions.line, end)


def lines_to_the_next(functions: FunctionColumns) -> U32:
    """Where the lines of each function would end if the next declaration in its file and unit ended them, also one inside it: the line of that."""
    group = _files(functions)
    return _next_line(distinct(_place(group, functions.line)), group, functions.line)


def _next_line(declared: U64, group: U64, line: U32) -> U32:
    """The next line behind ``line`` that is ``declared`` in the file of that ``group``, or _NO_END."""
    after = np.searchsorted(declared, _place(group, line), side="right")
    following = np.append(declared, np.uint64(0))[after]
    found = np.where(following >> np.uint64(32) == group, following & np.uint64(0xFFFFFFFF), np.uint64(_NO_END))
    return found.astype(np.uint32)


def _files(functions: FunctionColumns) -> U64:
    """A number for each file of each unit, more than 0."""
    pairs = functions.unit.astype(np.uint64) << np.uint64(32) | functions.file
    number: U64 = np.unique(pairs, return_inverse=True)[1].astype(np.uint64) + np.uint64(1)
    return number


def _place(group: U64, line: U32) -> U64:
    place: U64 = group << np.uint64(32) | line.astype(np.uint64)
    return place


def _calls(scopes: ScopeColumns, group: U64) -> tuple[U32, U64]:
    """(the last line of each function from which it calls something that was inlined, at least its first; the files in
    which a call stands before the function that makes it)."""
    functions = scopes.functions
    last = functions.line.copy()
    calls = np.flatnonzero((scopes.inlined != 0) & (scopes.parent != NO_PARENT))
    caller = scopes.function[scopes.parent[calls]]
    calls, caller = calls[caller != NO_FUNCTION], caller[caller != NO_FUNCTION]
    own = (scopes.call_file[calls] == functions.file[caller]) & (scopes.unit[calls] == functions.unit[caller])
    caller, line = caller[own], scopes.call_line[calls[own]]
    np.maximum.at(last, caller, line)
    return last, distinct(group[caller[(line > 0) & (line < functions.line[caller])]])


def _nested(functions: FunctionColumns, names: Sequence[str]) -> NDArray[np.bool_]:
    """The functions that are declared inside others."""
    return _matching(functions.name, names) | _matching(functions.linkage_name, names)


def _matching(numbers: U32, names: Sequence[str]) -> NDArray[np.bool_]:
    used, back = np.unique(numbers, return_inverse=True)
    found = [names[number] for number in used.tolist()]
    text = "\n".join(found)
    if _LOCAL not in text and not any(part in text for part in _INSIDE):  # as in most objects
        return np.zeros(len(numbers), np.bool_)
    inside = [name.startswith(_LOCAL) or any(part in name for part in _INSIDE) for name in found]
    return np.array(inside, np.bool_)[back]
