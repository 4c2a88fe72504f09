"""Scopes from line rows alone, as columns. NVIDIA's line tables carry inlining: in images with lines and without
.debug_info each row says which earlier row is its call site. Other line tables say nothing of inlined calls, so that
nobody knows whether a row belongs to the function around it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symd.debuginfo import ptx_text
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.relocation import LinearLayout
from symd.debuginfo.rows_alone import AssemblyRows, assembly_rows, inlined_rows, is_from_hopper_on
from symd.model.code import CodeObject, Function
from symd.model.columns import U8, U32, U64
from symd.model.debug_info import DebugInfo, LineRows, RowCalls, Scopes, WrittenScopes


@dataclass(frozen=True, slots=True)
class InlinedScopes:
    """``names`` begins with the names that were passed; ``warnings`` say what was left out. The scopes are those of the
    answer; ``written`` is where the rows say otherwise, with scopes that have no ranges."""

    scopes: Scopes
    names: tuple[str, ...]
    warnings: tuple[str, ...]
    written: WrittenScopes


def scopes(
    rows: LineRows,
    names: Sequence[str],
    functions: Sequence[Function],
    *,
    files: Sequence[str],
    leaves_out_files: bool = False,
    leaves_out_calls: bool = False,
    assembly: AssemblyRows | None = None,
    spend: Callable[[int], object] = bool,
) -> InlinedScopes:
    """``inlined_rows``, seen by NumPy."""
    found, every, warnings = inlined_rows(
        [
            np.ascontiguousarray(each).data
            for each in (rows.section, rows.offset, rows.file, rows.line, rows.column, rows.flags)
        ],
        [each.data for each in (RowCalls.none(len(rows)) if rows.calls is None else rows.calls)],
        names,
        functions,
        files,
        leaves_out_files=leaves_out_files,
        leaves_out_calls=leaves_out_calls,
        assembly=assembly,
        spend=spend,
    )
    made = Scopes(
        _u32(found.parent),
        _u32(found.name),
        np.zeros(len(found.name), np.uint32),
        _u8(found.inlined),
        _u32(found.call_file),
        _u32(found.call_line),
        _u32(found.call_column),
        _u32(found.range_scope),
        _u32(found.range_section),
        _u64(found.range_offset),
        _u64(found.range_end),
    )
    section, start, end, scope, reason, lined, line = found.written
    written = WrittenScopes(
        _u32(section), _u64(start), _u64(end), _u32(scope), _u8(reason), _u8(lined).astype(np.bool_), _u32(line)
    )
    return InlinedScopes(made, every, warnings, written)


def with_inlined_rows(code: CodeObject, info: DebugInfo, layout: LinearLayout, sections: DebugSections) -> DebugInfo:
    """What was decoded of an image of NVIDIA's, whose line tables carry inlining: their call sites become scopes, and
    the lines of inline assembly are mended."""
    is_of_llvm, leaves_out_calls = ptx_text.is_of_llvm(code), ptx_text.leaves_out_calls(code, info.files)
    calls = info.rows.calls
    has_calls = calls is not None and any(np.any(each) for each in (calls.written_site, calls.site, calls.doubt))
    if not (is_of_llvm or leaves_out_calls or has_calls):
        return info
    found = scopes(
        info.rows,
        info.names,
        code.functions,
        files=info.files,
        leaves_out_files=is_from_hopper_on(code.target or ""),
        leaves_out_calls=leaves_out_calls,
        assembly=assembly_rows(code, layout) if is_of_llvm else None,
        spend=lambda ranges: sections.spend(ranges, sections.lines.name),
    )
    return _scoped(info, found)


def _scoped(info: DebugInfo, found: InlinedScopes) -> DebugInfo:
    warnings = (*info.warnings, *found.warnings)
    return replace(info, scopes=found.scopes, names=found.names, warnings=warnings, written=found.written)


def without_told_calls(code: CodeObject, info: DebugInfo) -> DebugInfo:
    """What was decoded, where there are lines alone, with functions that have these lines as far as one knows."""
    if len(info.scopes) or not len(info.rows):
        return info
    return _scoped(info, scopes(info.rows, info.names, code.functions, files=info.files, leaves_out_calls=True))


def _u8(numbers: array[int]) -> U8:
    return np.frombuffer(numbers, np.uint8)


def _u32(numbers: array[int]) -> U32:
    return np.frombuffer(numbers, np.uint32)


def _u64(numbers: array[int]) -> U64:
    return np.frombuffer(numbers, np.uint64)
