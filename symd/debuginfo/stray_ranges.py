"""Code of a function's blocks and variables that lies outside the function's own ranges: whose code it really is, its range
does not say. Only Intel's compiler is known to write such data, so nobody else pays for reading blocks and location
lists."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from symd.debuginfo.dwarf import DebugSections, ScopeColumns, Units
from symd.debuginfo.layout import LinearLayout
from symd.errors import LimitExceeded, Malformed
from symd.model.code import CodeObject, Vendor
from symd.model.debug_info import NO_PARENT, TextSpans


def stray_ranges(
    code: CodeObject, sections: DebugSections, units: Units, scopes: ScopeColumns, layout: LinearLayout
) -> TextSpans:
    """Text of blocks and variables that lies outside their functions, in the units in which several functions have
    code or should have. What cannot be read is left out."""
    if code.vendor is not Vendor.INTEL:
        return TextSpans.empty()
    unit = scopes.unit[scopes.parent == NO_PARENT]
    several = np.flatnonzero(np.bincount(unit) > 1).tolist() if len(unit) > 1 else []
    if not several:
        return TextSpans.empty()
    from symd.debuginfo.block_ranges import outside_of_functions  # noqa: PLC0415 - slow to load, and few need it

    found: list[tuple[int, int]] = []
    with suppress(Malformed, LimitExceeded):  # who asks for these variables is told
        found = outside_of_functions(sections, units, several)
    start, end = np.array(found, np.uint64).reshape(-1, 2).T
    return layout.spans(start, end)
