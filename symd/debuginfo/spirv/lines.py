"""SPIR-V debug data to rows and scopes, as columns: those of the module itself, or of the one that was joined with
it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from symd.debuginfo.line_table_texts import doubting_rows_outside
from symd.debuginfo.spirv import every_text
from symd.debuginfo.spirv.decoded import SCOPE_COLUMNS, decode
from symd.formats.spirv.module import Body, DebugWords, debug_words
from symd.model.code import SEPARATE_SUFFIX, CodeObject, DebugScheme
from symd.model.columns import U32, U64
from symd.model.debug_info import DebugInfo, FunctionLines, LineRows, Scopes, TextSpans


def read_doubted(code: CodeObject) -> DebugInfo:
    """Rows and scopes of a SPIR-V module, with the rows doubted that lie outside of the texts inside it."""
    words = debug_words(code)
    return doubting_rows_outside(read(code, words), lambda: every_text(words, code.path))


def read(code: CodeObject, words: DebugWords) -> DebugInfo:
    """Rows and scopes of a SPIR-V module, section 0, of which ``words`` are the ``debug_words``. Whatever is wrong with
    debug operands only leaves out what they would have said."""
    if code.debug is DebugScheme.NONE and "build_id" in code.facts:
        return _debug_data_elsewhere(code, words.functions)
    info = _read(words)
    return info if words.moved is None else _moved(info, *words.moved)


def _debug_data_elsewhere(code: CodeObject, functions: Mapping[int, Body]) -> DebugInfo:
    """What a module says that has an identifier instead of debug data."""
    bodies = [body for body in functions.values() if not body.declared]
    start, end = (np.array([getattr(body, name) for body in bodies], np.uint64) for name in ("offset", "end"))
    note = f"debug data is in {code.facts['build_id']}{SEPARATE_SUFFIX}, which is not here"
    nowhere = TextSpans(np.zeros(len(bodies), np.uint32), start, end)
    return DebugInfo(LineRows.empty(), Scopes.empty(), warnings=(note,), elsewhere=nowhere)


def _moved(info: DebugInfo, there: array[int], here: array[int]) -> DebugInfo:
    """What was decoded of one module for another with the same code, instruction by instruction."""
    known, offsets = np.frombuffer(there, np.uint64), np.frombuffer(here, np.uint64)

    def moved(column: U64) -> U64:
        place: U64 = offsets[np.minimum(np.searchsorted(known, column), len(offsets) - 1)]
        return place

    rows, scopes = info.rows, info.scopes
    at = moved(rows.offset)
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True)[: len(at)])
    start, end = moved(scopes.range_offset), moved(scopes.range_end)
    held = np.flatnonzero(start < end)
    return replace(
        info,
        rows=LineRows(
            section=rows.section[last],
            offset=at[last],
            file=rows.file[last],
            line=rows.line[last],
            column=rows.column[last],
            flags=rows.flags[last],
        ),
        scopes=replace(
            scopes,
            range_scope=scopes.range_scope[held],
            range_section=scopes.range_section[held],
            range_offset=start[held],
            range_end=end[held],
        ),
    )


def _read(words: DebugWords) -> DebugInfo:
    rows, scopes, files, names, warnings, declared = decode(words)
    table = _u32(scopes.table).reshape(-1, len(SCOPE_COLUMNS)).T.copy()
    parent, name, linkage_name, inlined, call_file, call_line, call_column, function = table
    of_declared, line = np.array(declared, np.uint32).reshape(-1, 2).T
    nothing = np.zeros(len(declared), np.uint32)
    return DebugInfo(
        LineRows(
            np.zeros(len(rows.offset), np.uint32),
            np.frombuffer(rows.offset, np.uint64),
            _u32(rows.file),
            _u32(rows.line),
            _u32(rows.column),
            np.frombuffer(rows.flags, np.uint8),
        ),
        Scopes(
            parent,
            name,
            linkage_name,
            inlined.astype(np.uint8),
            call_file,
            call_line,
            call_column,
            _u32(scopes.range_scope),
            np.zeros(len(scopes.range_scope), np.uint32),
            np.frombuffer(scopes.range_start, np.uint64),
            np.frombuffer(scopes.range_end, np.uint64),
            function,
        ),
        tuple(files),
        tuple(names),
        tuple(warnings),
        FunctionLines(nothing, of_declared, line, nothing),
    )


def _u32(column: array[int]) -> U32:
    return np.frombuffer(column, np.uint32)
