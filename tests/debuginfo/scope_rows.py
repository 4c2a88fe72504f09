"""Scopes that a test made as columns, with the lines of their functions, which the core tells from its own tables."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np

from symd.core.scopes import SCOPE_COLUMNS, ScopeRows
from symd.debuginfo.dwarf.columns import ScopeColumns
from symd.debuginfo.dwarf.lines import line_ends


def with_line_ends(scopes: ScopeColumns) -> ScopeColumns:
    """The scopes, with the line behind the last one of each of their functions."""
    found = ScopeRows()
    found.functions = _table(scopes.functions)
    found.scopes = _table([getattr(scopes, name) for name in SCOPE_COLUMNS])
    found.inlined = array("B", scopes.inlined.tobytes())
    found.scope_ends.append(len(scopes))
    found.function_ends.append(len(scopes.functions.line))
    return replace(scopes, line_ends=np.frombuffer(line_ends(found, [scopes.names]), np.uint32))


def _table(columns: list[np.ndarray] | tuple[np.ndarray, ...]) -> array[int]:
    """The columns one behind the other."""
    return array("I", np.concatenate(columns).astype(np.uint32).tobytes())
