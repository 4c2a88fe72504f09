"""The decoder over sections by ELF name, as the builders and the second opinion have them."""

from __future__ import annotations

from collections.abc import Mapping

from symd.debuginfo.dwarf import columns, units
from symd.debuginfo.dwarf import units as units_module
from symd.debuginfo.dwarf.columns import LineColumns, ScopeColumns
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units, UnitSelection


def read_units(sections: Mapping[str, bytes]) -> Units:
    return units_module.read_units(DebugSections.of(sections))


def read_lines(sections: Mapping[str, bytes], units: Units | None = None) -> LineColumns:
    return columns.read_lines(DebugSections.of(sections), units)


def read_scopes(sections: Mapping[str, bytes], lines: LineColumns, units: Units | None = None) -> ScopeColumns:
    return columns.read_scopes(DebugSections.of(sections), lines, units)


def units_for_addresses(sections: Mapping[str, bytes], *addresses: int) -> UnitSelection | None:
    """The selection for these linear addresses."""
    return units.units_for_addresses(DebugSections.of(sections), read_units(sections), addresses)


def by_name(sections: DebugSections) -> dict[str, bytes]:
    """The content of every section that is there."""
    return {section.name: section.data for section in sections.every() if section.data}
