"""Line tables that carry inlining themselves (NVIDIA's extension): every row names its call site, another row. Here those
chains become scopes, so that everything behind knows one kind of inlining only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symd.index.cover import Numbers, last_cover
from symd.index.format import Column
from symd.model import NO_PARENT, U64, CodeObject, DebugInfo, RowFlag, Scopes


def with_scopes(code: CodeObject, debug: DebugInfo) -> DebugInfo:
    """``debug`` with a scope for every function symbol that has rows and for every inlined call that the rows name;
    unchanged where the rows name none, or the debug data has scopes of its own."""
    rows = debug.rows
    if rows.context is None or rows.name is None or len(debug.scopes) or not np.any(rows.context):
        return debug
    names = [*debug.names, *(function.name for function in code.functions)]
    calls, row_call = _calls(rows.context, rows.name)
    context, name = calls
    functions = len(code.functions)
    function_of = _function_of_rows(code, debug)
    site = context - 1
    around = np.where(row_call[site] >= 0, row_call[site] + functions, function_of[site])
    parent = np.concatenate([np.full(functions, -1), around])
    own = np.where(row_call >= 0, row_call + functions, function_of)
    scope, first, last, section = _ranges(debug, own, parent)
    zero = np.zeros(functions, np.uint32)
    scopes = Scopes(
        parent=np.where(parent < 0, NO_PARENT, parent).astype(np.uint32),
        name=np.concatenate([len(debug.names) + np.arange(functions), name]).astype(np.uint32),
        linkage_name=np.zeros(len(parent), np.uint32),
        inlined=(np.arange(len(parent)) >= functions).astype(np.uint8),
        call_file=np.concatenate([zero, rows.file[site]]),
        call_line=np.concatenate([zero, rows.line[site]]),
        call_column=np.concatenate([zero, rows.column[site]]),
        range_scope=scope.astype(np.uint32),
        range_section=section,
        range_offset=first,
        range_end=last,
    )
    return replace(debug, scopes=scopes, names=names)


def _calls(context: Column, name: Column) -> tuple[tuple[Numbers, Numbers], Numbers]:
    """The distinct (call-site row plus one, name) pairs, by row, and the pair of each row (-1: not inlined). A call
    site stands before the rows that name it, so parents come before children."""
    inlined = np.flatnonzero(context)
    pairs = (context[inlined].astype(np.int64) << 32) | name[inlined].astype(np.int64)
    distinct, number = np.unique(pairs, return_inverse=True)
    row_call = np.full(len(context), -1)
    row_call[inlined] = number
    return (distinct >> 32, distinct & 0xFFFFFFFF), row_call


def _function_of_rows(code: CodeObject, debug: DebugInfo) -> Numbers:
    """The number of the smallest function symbol around each row, -1 where there is none."""
    rows = debug.rows
    result = np.full(len(rows), -1)
    section = np.array([function.section_index for function in code.functions], np.int64)
    start = np.array([function.offset for function in code.functions], np.uint64)
    end = start + np.array([function.size for function in code.functions], np.uint64)
    for number in np.unique(rows.section).tolist():
        inside = np.flatnonzero(rows.section == number)
        own = np.flatnonzero(section == number)
        own = own[np.argsort(end[own] - start[own], kind="stable")[::-1]]
        points, back = np.unique(rows.offset[inside], return_inverse=True)
        found = last_cover(start[own], end[own], points)
        result[inside] = np.where(found >= 0, own[found] if len(own) else -1, -1)[back]
    return result


def _ranges(debug: DebugInfo, own: Numbers, parent: Numbers) -> tuple[Numbers, U64, U64, Column]:
    """(scope, start, end, section): each row's bytes belong to its scope and to every scope around that; neighbours in
    one scope are one range."""
    rows = debug.rows
    following = np.append(rows.offset[1:], np.uint64(0))
    at = np.flatnonzero((rows.flags & RowFlag.END_SEQUENCE == 0) & (following > rows.offset))
    at = at[at < len(rows) - 1]
    order = at[np.lexsort((rows.offset[at], rows.section[at]))]
    start, end, section = rows.offset[order], following[order], rows.section[order]
    parts = []
    scope = own[order]
    while np.any(scope >= 0):
        joined = (scope[1:] == scope[:-1]) & (section[1:] == section[:-1]) & (start[1:] == end[:-1])
        begin = np.flatnonzero(np.append(True, ~joined)[: len(scope)])
        stop = np.append(begin[1:], len(scope)) - 1
        held = scope[begin] >= 0
        parts.append((scope[begin][held], start[begin][held], end[stop][held], section[begin][held]))
        scope = np.where(scope >= 0, parent[scope], -1)
    if not parts:
        return np.zeros(0, np.int64), start[:0], end[:0], section[:0]
    columns = zip(*parts, strict=True)
    joined_scope, joined_start, joined_end, joined_section = (np.concatenate(column) for column in columns)
    return joined_scope, joined_start, joined_end, joined_section
