"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, as one value; nothing here knows ELF. ``read_lines`` and ``read_scopes``
each do their whole work in one call; ``read_units`` reads what both need and may be passed to both.
``units_for_addresses`` chooses the units that some addresses need. Importing the package imports none of it: ``path_names`` does without NumPy.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.debuginfo.dwarf.columns import LineColumns as LineColumns
    from symd.debuginfo.dwarf.columns import ScopeColumns as ScopeColumns
    from symd.debuginfo.dwarf.columns import read_lines as read_lines
    from symd.debuginfo.dwarf.columns import read_scopes as read_scopes
    from symd.debuginfo.dwarf.columns import unit_ranges as unit_ranges
    from symd.debuginfo.dwarf.sections import DebugSection as DebugSection
    from symd.debuginfo.dwarf.sections import DebugSections as DebugSections
    from symd.debuginfo.dwarf.units import Unit as Unit
    from symd.debuginfo.dwarf.units import Units as Units
    from symd.debuginfo.dwarf.units import UnitSelection as UnitSelection
    from symd.debuginfo.dwarf.units import read_units as read_units
    from symd.debuginfo.dwarf.units import units_for_addresses as units_for_addresses
else:
    _HOMES = {
        "DebugSection": "symd.debuginfo.dwarf.sections",
        "DebugSections": "symd.debuginfo.dwarf.sections",
        "LineColumns": "symd.debuginfo.dwarf.columns",
        "ScopeColumns": "symd.debuginfo.dwarf.columns",
        "Unit": "symd.debuginfo.dwarf.units",
        "UnitSelection": "symd.debuginfo.dwarf.units",
        "Units": "symd.debuginfo.dwarf.units",
        "read_lines": "symd.debuginfo.dwarf.columns",
        "read_scopes": "symd.debuginfo.dwarf.columns",
        "read_units": "symd.debuginfo.dwarf.units",
        "unit_ranges": "symd.debuginfo.dwarf.columns",
        "units_for_addresses": "symd.debuginfo.dwarf.units",
    }

    def __getattr__(name: str) -> object:
        from symd.system.lazy_imports import found  # noqa: PLC0415 - who joins paths does without

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
