"""Inlined copies of which nothing says where their code is: neither they nor what was inlined into them have a range,
although the function around has. Their code is among that function's all the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.index.module_tables import ModuleTables
from symd.index.unnamed_calls import roots_of
from symd.model.columns import I64
from symd.model.debug_info import NO_PARENT


def lost_copies(module: ModuleTables, roots: I64 | None = None) -> NDArray[np.bool_]:
    """Whether each scope is a lost copy of an inlined function: neither it nor what was inlined into it has a range,
    although the function around has. ``roots`` are the functions around scopes, where they are known."""
    parent = module.scopes.parent
    placed = np.zeros(len(parent), np.bool_)
    placed[module.ranges.scope] = True
    while not placed.all():
        around = parent[placed & (parent != NO_PARENT)]
        if placed[around].all():
            break
        placed[around] = True
    if placed.all():
        return ~placed
    roots = roots_of(parent) if roots is None else roots
    lost: NDArray[np.bool_] = ~placed & placed[roots]
    return lost
