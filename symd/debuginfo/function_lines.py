"""Which lines of its source file a function can have (``line_ends``), as columns."""

from __future__ import annotations

import numpy as np

from symd.core import function_lines as core
from symd.debuginfo.dwarf.columns import FunctionColumns, ScopeColumns
from symd.debuginfo.line_ends import line_ends
from symd.model.columns import U32
from symd.model.debug_info import FunctionLines


def function_lines(scopes: ScopeColumns) -> FunctionLines:
    """The lines of ``scopes.functions``, unit by unit."""
    functions = scopes.functions
    calls = (scopes.parent, scopes.inlined, scopes.function, scopes.call_file, scopes.call_line, scopes.unit)
    end = line_ends([each.data for each in functions], scopes.names, tuple(each.data for each in calls))
    return FunctionLines(functions.unit, functions.file, functions.line, np.frombuffer(end, np.uint32))


def lines_to_the_next(functions: FunctionColumns) -> U32:
    """Where the lines of each function would end if the next declaration in its file and unit ended them, also one inside it: the line of that."""
    declared = functions.unit.data, functions.file.data, functions.line.data
    return np.frombuffer(core.line_ends(declared, bytes(len(functions.line))), np.uint32)
