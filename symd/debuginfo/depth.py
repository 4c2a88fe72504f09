"""How deep scopes stand inside each other. An address has a frame for each inlined call around it, so that a few bytes of
debug data could ask for any number of frames a million times."""

from __future__ import annotations

import numpy as np

from symd.config import Limits
from symd.formats.budget import exceeded
from symd.model.columns import U32
from symd.model.debug_info import NO_PARENT, Scopes


def check_depth(scopes: Scopes, limits: Limits) -> None:
    """Raises LimitExceeded where more than ``limits.inline_depth`` scopes stand inside each other."""
    most = limits.inline_depth
    if deeper_than(scopes.parent, most):
        what = f"passes the limit inline_depth = {most}: so many functions and inlined calls inside each other"
        raise exceeded("inline_depth", most, what)


def deeper_than(parent: U32, depth: int) -> bool:
    """Whether a scope has at least ``depth`` others around it; ``parent`` is that of each, or NO_PARENT.

    The scope 2 to the power of k steps out is the one 2 to the power of k - 1 steps out, taken twice: the binary digits
    of ``depth`` say which of these steps lead from a scope to the one ``depth`` steps out. So of 13 = 0b1101 steps the
    first is 1, then 4, then 8.
    """
    if len(parent) <= depth:
        return False
    nobody = len(parent)
    step = np.append(np.where(parent == NO_PARENT, nobody, parent), nobody).astype(np.int64)
    around = np.arange(nobody)
    while depth:
        if depth & 1:
            around = step[around]
        depth >>= 1
        step = step[step]
    return bool((around != nobody).any())
