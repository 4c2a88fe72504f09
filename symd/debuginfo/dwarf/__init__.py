"""DWARF line tables and scopes decoded in bulk: pure functions from whole debug sections to NumPy columns.

The sections come relocated and decompressed, as one value (``sections``); nothing here knows ELF.
``columns.read_lines`` and ``columns.read_scopes`` each do their whole work in one call; ``units.read_units`` reads what
both need and may be passed to both. ``unit_selection.units_for_addresses`` chooses the units that some addresses need.
One answer about one address reads ``lines`` and ``units`` without NumPy.
"""
