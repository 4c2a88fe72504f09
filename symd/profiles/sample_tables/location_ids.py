"""A number for each location that follows from what it says, so that all processes, machines and runs give it the same one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import I64, U32, U64

_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
"""The multipliers of MurmurHash3's last step, which spreads each bit over all."""
_SHIFT = np.uint64(33)


def module_hash(digest: str | None) -> int:
    """What a module adds to the numbers of its locations; 0 for none."""
    return 0 if digest is None else int(digest[:16], 16)


def begun(modules: U64, reasons: NDArray[np.integer], kernels: U64) -> U64:
    """The numbers of locations while they are made: of the hash of their module, their reason, the hash of their kernel's name."""
    return _mixed(_mixed(modules, reasons.astype(np.uint64)), kernels)


def with_frames(state: U64, names: Sequence[U64], line: U32, column: U32, inlined: U32) -> U64:
    """The same with one frame more of each, from the innermost outwards; ``names`` are hashes of its function, linkage name and
    file."""
    for name in names:
        state = _mixed(state, name)
    position = line.astype(np.uint64) << np.uint64(32) | column.astype(np.uint64)
    return _mixed(_mixed(state, position), inlined.astype(np.uint64) + np.uint64(2))


def ended(state: U64) -> I64:
    """The numbers: never 0, never negative.

    64 bits are mixed and 63 kept: of ten million different locations two have one number with a probability of 5 in a million. Modules
    are told apart by their SHA-256, so that whoever makes a module to that end mixes up answers about this module alone."""
    ids = (state >> np.uint64(1)).astype(np.int64)
    return np.where(ids == 0, 1, ids)


def _mixed(state: U64, value: U64) -> U64:
    state = (state ^ value) * _FIRST
    state ^= state >> _SHIFT
    state = (state + value) * _SECOND
    mixed: U64 = state ^ (state >> _SHIFT)
    return mixed
