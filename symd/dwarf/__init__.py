"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, as one value; nothing here knows ELF. ``read_lines`` and ``read_scopes``
each do their whole work in one call; ``read_units`` reads what both need and may be passed to both.
``units_for_addresses`` chooses the units that some addresses need.
"""

from symd.dwarf.columns import LineColumns, ScopeColumns
from symd.dwarf.lines import read_lines
from symd.dwarf.scopes import read_scopes
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.unit_selection import UnitSelection, unit_ranges, units_for_addresses
from symd.dwarf.units import Unit, Units, read_units

__all__ = (
    "DebugSection",
    "DebugSections",
    "LineColumns",
    "ScopeColumns",
    "Unit",
    "UnitSelection",
    "Units",
    "read_lines",
    "read_scopes",
    "read_units",
    "unit_ranges",
    "units_for_addresses",
)
