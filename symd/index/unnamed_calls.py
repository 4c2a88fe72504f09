"""Inlined calls that the debug data says are the function around them.

Some compilers, Triton first of all, make one debug function of a kernel and give its name to everything that was
inlined into it. Nothing calls a kernel from device code, so that no kernel is inlined into itself, and Python's
compilers give no inlined function a name of its own unless they give one to all. Such a call has a place and no name. A
function of another language that is inlined into itself is recursive, and keeps its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from symd.index.distinct import among
from symd.index.format import Column
from symd.model.code import PYTHON_SUFFIX, is_symbol_of
from symd.model.columns import I64
from symd.model.debug_info import NO_FUNCTION, NO_PARENT

if TYPE_CHECKING:
    from symd.index.module_tables import NamedRanges, ScopeRanges, ScopeTable


def roots_of(parent: Column) -> I64:
    """The function at the root of each scope's tree. Parents come before children."""
    found: I64 = np.where(parent == NO_PARENT, np.arange(len(parent)), parent)
    while True:
        further = found[found]
        if np.array_equal(further, found):
            return found
        found = further


def without_wrong_names(
    scopes: ScopeTable, ranges: ScopeRanges, kernels: NamedRanges, texts: Callable[[], Sequence[str]]
) -> ScopeTable:
    """The scopes with no name for calls of that kind, and behind them, for each of these and all that was inlined into
    them, one without code that has what is written. ``texts`` gives the strings by number."""
    unnamed = _unnamed(scopes, kernels, texts)
    has_code = np.zeros(len(unnamed), np.bool_)
    has_code[ranges.scope] = True
    unnamed &= has_code  # Intel's compiler leaves calls without any behind
    if not unnamed.any():
        return scopes
    inside = with_all_inside(unnamed, np.where(scopes.parent == NO_PARENT, len(unnamed), scopes.parent))
    which, count = np.flatnonzero(inside), len(inside)
    written = np.arange(count)
    written[which] = count + np.arange(len(which))
    parent = np.append(written, NO_PARENT)[np.minimum(scopes.parent[which], count)]
    columns = {name: np.append(column, column[which]) for name, column in scopes._asdict().items() if name != "written"}
    columns["parent"][count:] = parent
    columns["function"][count:] = NO_FUNCTION
    columns["function"][np.flatnonzero(unnamed)] = NO_FUNCTION  # nobody knows which lines it has
    for name in ("name", "linkage_name"):
        columns[name][np.flatnonzero(unnamed)] = 0
    return scopes._replace(**columns, written=np.append(written, written[which]))


def _unnamed(scopes: ScopeTable, kernels: NamedRanges, texts: Callable[[], Sequence[str]]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (scopes.inlined == 1) & (scopes.name != 0)
    calls = np.flatnonzero(found)
    if not len(calls):
        return found
    root = roots_of(scopes.parent)[calls]
    same = np.ones(len(calls), np.bool_)
    for column in (scopes.name, scopes.linkage_name, scopes.function):
        same &= column[calls] == column[root]
    if same.any():
        same[same] = _are_kernels(scopes, root[same], kernels)
    text = texts()
    python_files = [file for file in set(scopes.call_file[calls].tolist()) if text[file].endswith(PYTHON_SUFFIX)]
    if python_files:
        in_python = np.isin(scopes.call_file[calls], python_files)
        called_there = np.flatnonzero(np.isin(root, root[in_python]))
        pairs = scopes.name[calls[called_there]].astype(np.uint64) << np.uint64(32) | scopes.name[root[called_there]]
        distinct, which = np.unique(pairs, return_inverse=True)  # names may be long, and many calls have one
        both = ((pair >> 32, pair & 0xFFFFFFFF) for pair in distinct.tolist())
        said = np.array([is_symbol_of(text[symbol], text[name]) for name, symbol in both], np.bool_)
        same[called_there] |= said[which]
    found[calls] = same
    return found


def _are_kernels(scopes: ScopeTable, functions: I64, kernels: NamedRanges) -> NDArray[np.bool_]:
    """Whether these functions have the name of a kernel of their code object."""
    known = kernels.object.astype(np.int64) << 32 | kernels.name.astype(np.int64)
    code_object = scopes.object[functions].astype(np.int64) << 32
    names = scopes.name[functions].astype(np.int64), scopes.linkage_name[functions].astype(np.int64)
    return among(code_object | names[0], known) | among(code_object | names[1], known)


def with_all_inside(chosen: NDArray[np.bool_], parent: Column) -> NDArray[np.bool_]:
    """Which scopes or frames are chosen, or have a chosen one somewhere around them. ``parent`` has for each the number
    of the one around it; that of none is one that is not chosen, or ``len(chosen)``."""
    found: NDArray[np.bool_] = np.append(chosen, np.False_)
    around = np.append(parent, len(chosen))
    for _ in range(
        len(around).bit_length()
    ):  # each round looks twice as far; what a daemon says of its frames may have no end
        found = found | found[around]
        around = around[around]
    return found[:-1]
