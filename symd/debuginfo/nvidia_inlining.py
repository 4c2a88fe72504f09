"""Scopes out of line rows that carry inlining themselves (NVIDIA's extension of the line table): images with lines and
without .debug_info say of each row only which earlier row is its call site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.model.code import Function
from symd.model.columns import I64, U32, U64
from symd.model.debug_info import NO_PARENT, LineRows, RowFlag, Scopes
from symd.model.plurals import counted

MAX_DEPTH = 64
"""Calls inlined into one another; what is deeper is taken as not inlined."""


@dataclass(frozen=True, slots=True)
class InlinedScopes:
    """``names`` begins with the names that were passed; ``warnings`` say what was left out."""

    scopes: Scopes
    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def scopes(rows: LineRows, names: Sequence[str], functions: Sequence[Function]) -> InlinedScopes:
    """One scope for each pair of call site and name, inside one for each function that has any.

    Ranges are spans of rows, for a scope and everything around it; a function's own scope covers only those, the rest
    of it is known by its symbol. Rows' ``context`` must name earlier rows of their sequence, as ``LineRows`` says.
    """
    if rows.context is None or rows.name is None:
        return InlinedScopes(Scopes.empty(), tuple(names))
    tree = _tree(rows.context, rows.name)
    outermost = np.flatnonzero(tree.parent < 0)
    owner = _smallest_function(rows, tree.site[outermost], functions)
    used, slot = np.unique(owner, return_inverse=True)
    parent = np.where(tree.parent >= 0, tree.parent + len(used), -1)
    parent[outermost] = slot
    own_names = [functions[number].name if number >= 0 else "" for number in used.tolist()]
    own, inner = np.zeros(len(used), np.uint32), tree.site
    around = np.concatenate([np.full(len(used), -1), parent])
    scope, section, start, end = _ranges(rows, np.where(tree.of_row >= 0, tree.of_row + len(used), -1), around)
    found = Scopes(
        parent=np.where(around < 0, NO_PARENT, around).astype(np.uint32),
        name=np.concatenate([np.arange(len(used)) + len(names), tree.name]).astype(np.uint32),
        linkage_name=np.zeros(len(around), np.uint32),
        inlined=(around >= 0).astype(np.uint8),
        call_file=np.concatenate([own, rows.file[inner]]),
        call_line=np.concatenate([own, rows.line[inner]]),
        call_column=np.concatenate([own, rows.column[inner]]),
        range_scope=scope.astype(np.uint32),
        range_section=section,
        range_offset=start,
        range_end=end,
    )
    return InlinedScopes(found, (*names, *own_names), tree.warnings)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Inlined scopes, parents before children: ``site`` is the row of the call, ``parent`` -1 where the call stands in
    the function itself. ``of_row`` is the innermost scope of each row, or -1."""

    site: I64
    name: U32
    parent: I64
    of_row: I64
    warnings: tuple[str, ...]


def _tree(context: U32, name: U32) -> _Tree:
    """A call site is an earlier row than those inlined there, so scopes sorted by call site have parents first."""
    inlined = np.flatnonzero(context > 0)
    keys, number = np.unique(context[inlined].astype(np.uint64) << np.uint64(32) | name[inlined], return_inverse=True)
    of_row = np.full(len(context), -1)
    of_row[inlined] = number
    site = (keys >> np.uint64(32)).astype(np.int64) - 1
    parent = of_row[site]
    deep = np.flatnonzero(_too_deep(parent))
    lost = np.isin(of_row, deep)
    warnings = (f"left out: the callers of {counted(int(lost.sum()), 'row')} inlined more than {MAX_DEPTH} deep",)
    of_row[lost] = -1
    return _Tree(site, keys.astype(np.uint32), parent, of_row, warnings if len(deep) else ())


def _too_deep(parent: I64) -> NDArray[np.bool_]:
    at = np.arange(len(parent))
    for _ in range(MAX_DEPTH):
        at = np.where(at >= 0, parent[at], -1)
    return at >= 0


def _smallest_function(rows: LineRows, numbers: I64, functions: Sequence[Function]) -> I64:
    """For each of some rows the number of the smallest function around it, or -1."""
    places = _place(rows.section[numbers], rows.offset[numbers])
    order = np.argsort(places, kind="stable")
    section = np.array([function.section_index for function in functions], np.uint64)
    offset = np.array([function.offset for function in functions], np.uint64)
    size = np.array([function.size for function in functions], np.uint64)
    first = np.searchsorted(places[order], _place(section, offset)).tolist()
    last = np.searchsorted(places[order], _place(section, offset + size)).tolist()
    painted = np.full(len(places), -1)
    for number in np.argsort(size, kind="stable")[::-1].tolist():
        painted[first[number] : last[number]] = number
    found = np.empty_like(painted)
    found[order] = painted
    return found


def _place(section: U32 | U64, offset: U64) -> U64:
    """Section and offset as one number that sorts like the pair."""
    return section.astype(np.uint64) << np.uint64(44) | np.minimum(offset, np.uint64((1 << 44) - 1))


def _ranges(rows: LineRows, of_row: I64, parent: I64) -> tuple[I64, U32, U64, U64]:
    """(scope, section, start, end): each row's span for its scope and every scope around, neighbours joined."""
    last = (rows.flags & RowFlag.END_SEQUENCE) != 0
    end = np.where(last, rows.offset, np.append(rows.offset[1:], np.uint64(0)))
    row = np.flatnonzero((of_row >= 0) & (end > rows.offset))
    scope = of_row[row]
    every_scope, every_row = [scope], [row]
    while len(row):
        row, scope = row[parent[scope] >= 0], parent[scope][parent[scope] >= 0]
        every_scope.append(scope)
        every_row.append(row)
    scope, row = np.concatenate(every_scope), np.concatenate(every_row)
    order = np.lexsort((rows.offset[row], rows.section[row], scope))
    scope, row = scope[order], row[order]
    section, start, end = rows.section[row], rows.offset[row], end[row]
    apart = (np.diff(scope) != 0) | (section[1:] != section[:-1]) | (start[1:] != end[:-1])
    begins, ends = np.ones(len(row), np.bool_), np.ones(len(row), np.bool_)
    begins[1:] = apart
    ends[:-1] = apart
    return scope[begins], section[begins], start[begins], end[ends]
