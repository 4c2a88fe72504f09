"""Which function each DIE is a piece of, and where that function is declared: abstract instances, inlined calls and bodies
out of line lead to one function each (DWARF 5, 3.3.8)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.stretches import Positions
from symd.model.columns import U32
from symd.model.debug_info import NO_FUNCTION

_DOUBLINGS = 5
"""32 references that lead from a DIE to its function are followed; more are a cycle."""
_Links = tuple[Positions, Positions]
"""DIEs that refer, and those referred to."""


class Declarations(NamedTuple):
    """What the subprogram and inlined-subroutine DIEs say of declarations, in order: ``is_piece`` of those that define
    nothing (calls and mere declarations), file and line as the DIE itself has them (0: not), and the references of
    DW_AT_specification and DW_AT_abstract_origin."""

    is_piece: NDArray[np.bool_]
    file: U32
    line: U32
    specification: _Links
    origin: _Links


class DeclaredFunctions(NamedTuple):
    """``number`` says for each DIE which function it is a piece of, or NO_FUNCTION. A function: ``which`` DIE defines
    it, and the file and line of its declaration."""

    number: U32
    which: Positions
    file: U32
    line: U32


def declared_functions(dies: Declarations) -> DeclaredFunctions:
    """The functions that the DIEs define and that have a line. A definition that says nothing itself is declared where
    its DW_AT_specification is."""
    count = len(dies.line)
    whole = np.arange(count)
    which, target = dies.origin
    whole[which] = target
    for _ in range(_DOUBLINGS):
        whole = whole[whole]
    file, line = dies.file.copy(), dies.line.copy()
    which, target = dies.specification
    silent = line[which] == 0
    which, target = which[silent], target[silent]
    file[which], line[which] = dies.file[target], dies.line[target]
    defines = ~dies.is_piece & (whole == np.arange(count)) & (line > 0)
    number = np.full(count, NO_FUNCTION, np.uint32)
    defined = np.flatnonzero(defines)
    number[defined] = np.arange(len(defined), dtype=np.uint32)
    return DeclaredFunctions(number[whole], defined, file[defined], line[defined])
