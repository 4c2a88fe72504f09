"""All line tables of an object -> one set of columns, with one list of files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.dwarf.lines import read_tables
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units


def read_lines(sections: DebugSections, units: Units | None = None, limits: Limits = DEFAULT_LIMITS) -> LineColumns:
    """What ``lines.read_tables`` reads, seen by NumPy, with the inlined calls of NVIDIA's tables. Raises what that raises."""
    rows, headers, file_maps, files, strings, warnings = read_tables(sections, units, limits)
    count = rows.count
    lines = LineColumns(
        address=np.frombuffer(rows.address, np.uint64, count),
        file=np.frombuffer(rows.file, np.uint32, count),
        line=np.frombuffer(rows.line, np.uint32, count),
        column=np.frombuffer(rows.column, np.uint32, count),
        flags=np.frombuffer(rows.flags, np.uint8, count),
        ends=np.array(rows.ends, np.int64),
        table=np.array(rows.program, np.uint32),
        files=files,
        tables=tuple(header.offset for header in headers),
        file_maps=file_maps,
        warnings=warnings,
    )
    if not len(rows.context):
        return lines
    context, name = np.frombuffer(rows.context, np.uint64, count), np.frombuffer(rows.name, np.uint64, count)
    from symd.debuginfo.dwarf import nvidia_calls  # noqa: PLC0415 - only for NVIDIA's images

    calls, names = nvidia_calls.resolved(lines, context, name, strings, headers)
    return replace(lines, calls=calls, names=names)
