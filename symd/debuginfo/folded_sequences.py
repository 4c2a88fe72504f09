"""Line sequences of functions that a linker folded: of identical functions one stays, and the line tables of all lead to it (lld's ``--icf``
keeps them so, for breakpoints), while the debug data of the others says no more where they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.columns import LineColumns, ScopeColumns
from symd.dwarf.units import Units
from symd.model.debug_info import NO_PARENT


def of_others(lines: LineColumns, scopes: ScopeColumns, units: Units) -> NDArray[np.bool_] | None:
    """For each sequence whether it is that of a function which is not there: another one begins at its address, in the line table of a unit
    that has a function there, and its own table is of no such unit. None where there is none."""
    starts = lines.starts
    order = np.argsort(starts, kind="stable")
    again = starts[order[1:]] == starts[order[:-1]]
    if not again.any():
        return None
    shared = np.unique(starts[order[1:]][again])
    place, is_shared = _found(shared, starts)
    key = place * (len(lines.tables) + 1) + lines.table
    is_function = scopes.parent[scopes.range_scope] == NO_PARENT
    begins, table = scopes.range_start[is_function], _tables(lines, units)[scopes.unit[scopes.range_scope[is_function]]]
    function_place, has_sequence = _found(shared, begins)
    owned = (function_place * (len(lines.tables) + 1) + table)[has_sequence & (table < len(lines.tables))]
    own = is_shared & np.isin(key, owned)
    has_own = np.zeros(len(shared), np.bool_)
    has_own[place[own]] = True
    others: NDArray[np.bool_] = is_shared & ~own & has_own[place]
    return others if others.any() else None


def _found(values: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each of ``wanted`` stands in the ordered ``values``, which are some; whether it does."""
    place = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return place, values[place] == wanted


def _tables(lines: LineColumns, units: Units) -> NDArray[np.int64]:
    """The number of the line table of each unit, by the unit's number; as many as there are tables where it has none."""
    number = {offset: table for table, offset in enumerate(lines.tables)}
    found = np.full(max((unit.number for unit in units.units), default=-1) + 1, len(lines.tables))
    for unit in units.units:
        found[unit.number] = number.get(-1 if unit.stmt_list is None else unit.stmt_list, len(lines.tables))
    return found
