"""All DIE trees of an object -> functions and inlined calls, with names, ranges and call sites, as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.core import scopes as core
from symd.core.dies import DieRows
from symd.core.strings import Names, StringReader
from symd.debuginfo.dwarf.columns import FunctionColumns, LineColumns, ScopeColumns
from symd.debuginfo.dwarf.dies import SCOPES, read_rows
from symd.debuginfo.dwarf.forms import UNKNOWN_FORM
from symd.debuginfo.dwarf.lines import maps_of_units
from symd.debuginfo.dwarf.sections import DebugSections, Warnings
from symd.debuginfo.dwarf.units import Unit, Units, read_units
from symd.errors import Malformed
from symd.model.texts import counted

_WITH_ALL_PATHS = 5
"""The version of DWARF whose line tables name their own folder."""


def read_scopes(sections: DebugSections, lines: LineColumns, units: Units | None = None) -> ScopeColumns:
    """Decode the functions and inlined calls of every unit of ``.debug_info``.

    ``lines`` is ``read_lines(sections)``: call files are looked up in its tables, and its names come first in the
    result's. ``units`` is ``read_units(sections)``, read here when it is not given. DWARF 2 to 5, all forms, vendor
    attributes and tags passed over by form.

    Names are the DIE's own or those of DW_AT_specification and DW_AT_abstract_origin, through any units, up to 32
    steps. Lexical blocks and other DIEs between a scope and its parent are looked through; a subprogram has no parent.
    RangeRows are DW_AT_low_pc with DW_AT_high_pc, or DW_AT_ranges; empty ones are left out.

    A unit whose tree cannot be followed is left out whole, with a warning; a name, an address or a range list that
    leads out of its section is left out alone, and one warning a section counts them. Raises Malformed when there are
    units and not one of them can be read; LimitExceeded for range lists or abbreviations that overlap without end, and
    for more entries than ``sections.budget`` has left.
    """
    units = read_units(sections) if units is None else units
    warnings = Warnings(units.warnings)
    sections.spend(sum(unit.end - unit.dies for unit in units.units), sections.info.name)
    dies, left_out = read_rows(sections, units.units, SCOPES)
    for place, error in left_out:
        warnings.add(f"{sections.info.name}+{units.units[place].offset:#x}: unit left out: {error}")
    if (
        warnings
        and len(left_out) == len(units.units)
        and not (len(lines) and _rows_alone_are_sound(sections, warnings))
    ):
        raise Malformed(f"no unit can be read: {warnings.all()[0]}", where=sections.info.name)
    return _columns(sections, lines, units.units, dies, warnings)


def _rows_alone_are_sound(sections: DebugSections, warnings: Warnings) -> bool:
    """Whether units are lost for a form alone that is not known, and line tables need none: those of DWARF 5 have all paths."""
    wide = sections.lines.data[:4] == b"\xff" * 4
    version = int.from_bytes(sections.lines.data[12:14] if wide else sections.lines.data[4:6], "little")
    return version >= _WITH_ALL_PATHS and all(UNKNOWN_FORM in each for each in warnings.all())


def _columns(
    sections: DebugSections, lines: LineColumns, units: Sequence[Unit], dies: DieRows, warnings: Warnings
) -> ScopeColumns:
    """The scopes among the functions and inlined calls of all units, seen by NumPy. Their names come behind those of ``lines``."""
    names = Names(lines.names)
    numbers, maps = [unit.number for unit in units], maps_of_units(lines.file_maps, units)
    found = core.read_scopes(dies, numbers, maps, StringReader(sections), names)
    lost = (
        (sections.string_offsets.name, dies.missing_offsets),
        (sections.addresses.name, dies.ranges.missing),
        (sections.range_lists.name, dies.missing_lists),
        ("range sections", dies.ranges.damaged),
        ("string sections", found.missing_names),
    )
    for place, count in lost:
        if count:
            warnings.add(f"left out: {counted(count, 'reference')} out of {place}")

    scopes = np.frombuffer(found.scopes, np.uint32).reshape(len(core.SCOPE_COLUMNS), -1)
    functions = np.frombuffer(found.functions, np.uint32).reshape(len(core.FUNCTION_COLUMNS), -1)
    return ScopeColumns(
        **dict(zip(core.SCOPE_COLUMNS, scopes, strict=True)),
        inlined=np.frombuffer(found.inlined, np.uint8),
        range_scope=np.frombuffer(found.range_scope, np.uint32),
        range_start=np.frombuffer(dies.ranges.start, np.uint64),
        range_end=np.frombuffer(dies.ranges.stop, np.uint64),
        functions=FunctionColumns(*functions),
        names=names.all(),
        warnings=warnings.all(),
    )
