"""Code of a function's blocks and variables that lies outside the function's own ranges: whose code it really is, its range
does not say. Only Intel's compiler is known to write such data, so nobody else pays for reading blocks and location
lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from symd.debuginfo.layout import LinearLayout
from symd.dwarf import DebugSections, ScopeColumns, Units
from symd.errors import LimitExceeded, Malformed
from symd.model.code import CodeObject, Vendor
from symd.model.columns import U64
from symd.model.debug_info import NO_PARENT, TextSpans


class StrayRanges(NamedTuple):
    """Linear addresses [start, end)."""

    start: U64
    end: U64

    def spans(self, layout: LinearLayout) -> TextSpans:
        """Those in text."""
        return layout.spans(self.start, self.end)


def stray_ranges(code: CodeObject, sections: DebugSections, units: Units, scopes: ScopeColumns) -> StrayRanges:
    """Those of the units in which several functions have code, or should have. What cannot be read says nothing."""
    several = units_of_several(scopes) if code.vendor is Vendor.INTEL else set()
    return strays_of(sections, units, several) if several else _columns(())


def units_of_several(scopes: ScopeColumns) -> set[int]:
    """The units in which several functions have code, or should have."""
    unit, functions = np.unique(scopes.unit[scopes.parent == NO_PARENT], return_counts=True)
    return set(unit[functions > 1].tolist())


def strays_of(sections: DebugSections, units: Units, several: Collection[int]) -> StrayRanges:
    """Those of these units."""
    from symd.debuginfo.block_ranges import outside_of_functions  # noqa: PLC0415 - slow to load, and few need it

    with suppress(Malformed, LimitExceeded):  # who asks for these variables is told
        return _columns(outside_of_functions(sections, units, several))
    return _columns(())


def _columns(found: Sequence[tuple[int, int]]) -> StrayRanges:
    table = np.array(found, np.uint64).reshape(-1, 2)
    return StrayRanges(table[:, 0], table[:, 1])
