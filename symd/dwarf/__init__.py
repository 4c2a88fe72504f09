"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, by name; nothing here knows ELF. ``read_lines`` and ``read_scopes`` each
do their whole work in one call; ``read_units`` reads what both need and may be passed to both. ``covering`` chooses the
units that some addresses need.
"""

from symd.dwarf.columns import LineColumns, ScopeColumns, Sections
from symd.dwarf.lines import read_lines
from symd.dwarf.scopes import read_scopes
from symd.dwarf.unit_selection import Selection, covering
from symd.dwarf.units import Unit, Units, read_units

__all__ = (
    "LineColumns",
    "ScopeColumns",
    "Sections",
    "Selection",
    "Unit",
    "Units",
    "covering",
    "read_lines",
    "read_scopes",
    "read_units",
)
