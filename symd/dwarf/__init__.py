"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, as one value; nothing here knows ELF. ``read_lines`` and ``read_scopes``
each do their whole work in one call; ``read_units`` reads what both need and may be passed to both.
``units_for_addresses`` chooses the units that some addresses need. Importing the package imports none of it: ``path_names`` does without NumPy.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.dwarf.columns import LineColumns as LineColumns
    from symd.dwarf.columns import ScopeColumns as ScopeColumns
    from symd.dwarf.die_columns import unit_ranges as unit_ranges
    from symd.dwarf.line_columns import read_lines as read_lines
    from symd.dwarf.scopes import read_scopes as read_scopes
    from symd.dwarf.sections import DebugSection as DebugSection
    from symd.dwarf.sections import DebugSections as DebugSections
    from symd.dwarf.unit_selection import UnitSelection as UnitSelection
    from symd.dwarf.unit_selection import units_for_addresses as units_for_addresses
    from symd.dwarf.units import Unit as Unit
    from symd.dwarf.units import Units as Units
    from symd.dwarf.units import read_units as read_units
else:
    _HOMES = {
        "DebugSection": "symd.dwarf.sections",
        "DebugSections": "symd.dwarf.sections",
        "LineColumns": "symd.dwarf.columns",
        "ScopeColumns": "symd.dwarf.columns",
        "Unit": "symd.dwarf.units",
        "UnitSelection": "symd.dwarf.unit_selection",
        "Units": "symd.dwarf.units",
        "read_lines": "symd.dwarf.line_columns",
        "read_scopes": "symd.dwarf.scopes",
        "read_units": "symd.dwarf.units",
        "unit_ranges": "symd.dwarf.die_columns",
        "units_for_addresses": "symd.dwarf.unit_selection",
    }

    def __getattr__(name: str) -> object:
        from symd.deferred_names import found  # noqa: PLC0415 - who joins paths does without

        return found(__name__, _HOMES, name)


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
