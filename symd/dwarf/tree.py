"""Which scope stands around each DIE, from the depths of a preorder list."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import I64

_LEVELS = 1000
"""Trees deeper than this are followed with a stack, which costs the same at any depth."""
NO_SCOPE = -1


def enclosing(depth: NDArray[np.int32], container: NDArray[np.bool_], scope: NDArray[np.bool_]) -> I64:
    """For every DIE the number of the nearest scope strictly around it, or NO_SCOPE.

    The columns list DIEs of one or more trees in preorder, without null entries; only DIEs marked ``container`` have
    children. Roots stand at depth 0.
    """
    if not depth.size:
        return np.zeros(0, np.int64)
    if int(depth.max()) > _LEVELS:
        return _with_a_stack(depth, scope)
    return _by_level(depth, container, scope)


def _by_level(depth: NDArray[np.int32], container: NDArray[np.bool_], scope: NDArray[np.bool_]) -> I64:
    around = np.full(len(depth), NO_SCOPE, np.int64)
    order = np.argsort(depth.astype(np.int16), kind="stable")
    levels = np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
    for outer, inner in itertools.pairwise(levels):
        parents = outer[container[outer]]
        parent = parents[np.searchsorted(parents, inner) - 1]
        around[inner] = np.where(scope[parent], parent, around[parent])
    return around


def _with_a_stack(depth: NDArray[np.int32], scope: NDArray[np.bool_]) -> I64:
    around = []
    inside = [NO_SCOPE]
    for number, (level, is_scope) in enumerate(zip(depth.tolist(), scope.tolist(), strict=True)):
        del inside[level + 1 :]
        around.append(inside[level])
        inside.append(number if is_scope else inside[level])
    return np.array(around, np.int64)
