"""Which lines of its source file a function can have: from its declaration up to the next one in the same file.

What stands inside a function must not end it: lambdas, blocks, methods of local classes and outlined parallel regions
are known by their names; and whatever is declared before a line from which the function calls something. Where a
function calls something from a line before its own declaration, ``#line`` is at work, and nothing is said of any
function of that file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.core import function_lines as core
from symd.dwarf import ScopeColumns
from symd.dwarf.columns import FunctionColumns
from symd.model.columns import U32
from symd.model.debug_info import FunctionLines

_LOCAL = "_ZZ"
"""How the Itanium ABI begins the mangled name of what is declared inside a function."""
_INSIDE = ("operator()", "_block_invoke", "omp_outlined")
"""What the names of lambdas, blocks and outlined regions have in common."""


def function_lines(scopes: ScopeColumns) -> FunctionLines:
    """The lines of ``scopes.functions``, unit by unit."""
    functions = scopes.functions
    calls = (
        scopes.parent.data,
        scopes.inlined.data,
        scopes.function.data,
        scopes.call_file.data,
        scopes.call_line.data,
        scopes.unit.data,
    )
    end = core.line_ends(_declared(functions), _are_inside(functions, scopes.names), calls)
    return FunctionLines(functions.unit, functions.file, functions.line, np.frombuffer(end, np.uint32))


def lines_to_the_next(functions: FunctionColumns) -> U32:
    """Where the lines of each function would end if the next declaration in its file and unit ended them, also one inside it: the line of that."""
    return np.frombuffer(core.line_ends(_declared(functions), bytes(len(functions.line))), np.uint32)


def _declared(functions: FunctionColumns) -> tuple[memoryview, memoryview, memoryview]:
    return functions.unit.data, functions.file.data, functions.line.data


def _are_inside(functions: FunctionColumns, names: Sequence[str]) -> bytes:
    """For each function whether its name says that it is declared inside another one."""
    numbers = functions.name.tolist(), functions.linkage_name.tolist()
    text = "\n".join([names[number] for each in numbers for number in each])
    if _LOCAL not in text and not any(part in text for part in _INSIDE):  # as in most objects
        return bytes(len(functions.line))
    return bytes(
        _is_inside(names[name]) or _is_inside(names[linkage_name]) for name, linkage_name in zip(*numbers, strict=True)
    )


def _is_inside(name: str) -> bool:
    return name.startswith(_LOCAL) or any(part in name for part in _INSIDE)
