"""Code of a function's blocks and variables that lies outside of the function, as Intel's compiler writes it: the range
does not say whose code that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from symd.debuginfo.block_ranges import BlocksOf, Listed, outside_of_functions
from symd.debuginfo.dwarf.columns import ScopeColumns
from symd.debuginfo.dwarf.constants import At
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.text_ranges import text_spans
from symd.debuginfo.variables.location_lists import ListReader
from symd.errors import LimitExceeded, Malformed
from symd.model.debug_info import TextSpans


class StraySource(NamedTuple):
    """An object whose text may have strays: ``scopes`` are its scopes, and ``layout`` places its text."""

    sections: DebugSections
    units: Units
    scopes: ScopeColumns
    layout: LinearLayout


def stray_ranges(objects: Sequence[StraySource]) -> list[TextSpans]:
    """For each object the text of blocks and variables that lies outside their functions, in the units in which several
    functions have code or should have. What cannot be read of one object alone is left out. Raises Malformed,
    LimitExceeded where that is so of one of several."""
    blocks = [
        BlocksOf(sections, [each for each in units.units if each.number in scopes.shared_units], listed)
        for sections, units, scopes, _ in objects
        for listed in [listed_ranges(sections, units)]
    ]
    try:
        found = outside_of_functions(blocks)
    except (Malformed, LimitExceeded):
        if len(objects) > 1:
            raise
        found = [[]]  # who asks for these variables is told
    return [_text(of.layout, outside) for of, outside in zip(objects, found, strict=True)]


def _text(layout: LinearLayout, outside: Sequence[tuple[int, int]]) -> TextSpans:
    if not outside:
        return TextSpans.empty()
    start, end = np.array(outside, np.uint64).reshape(-1, 2).T
    return text_spans(layout, start, end)


def listed_ranges(sections: DebugSections, units: Units) -> Listed:
    """What reads location lists for ``outside_of_functions``; nothing is read before the first one is asked for."""
    readers: list[ListReader] = []

    def listed(unit: Unit, place: int, offset: int | None) -> list[tuple[int, int]]:
        if not readers:
            readers.append(ListReader.of(sections, units))
        lists = readers[0]
        if offset is not None:
            entries = lists.at(unit, offset)
        else:
            die = lists.dies.at(place)
            value = None if die is None else die.attributes.get(At.DW_AT_location)
            entries = [] if value is None or value.is_block else lists.entries(unit, value) or []
        return [(entry.start, entry.end) for entry in entries if not entry.default]

    return listed
