"""The kernel of a code object that does not name it: Intel's compiler dumps kernels as ELF images whose only name for
them is that of the function at the start of their text."""

from __future__ import annotations

import numpy as np

from symd.model.code import CodeObject, Kernel
from symd.model.debug_info import NO_PARENT, DebugInfo


def named(code: CodeObject, debug: DebugInfo) -> CodeObject:
    """``code`` with one kernel over its text, named after the function there; unchanged where it has kernels, functions
    or several text sections, or the debug data has no such function."""
    if not code.kernel_named_by_debug_data:
        return code
    texts = [section for section in code.sections if section.executable]
    if len(texts) != 1:
        return code
    scopes = debug.scopes
    first = np.flatnonzero((scopes.range_offset == 0) & (scopes.parent[scopes.range_scope] == NO_PARENT))
    if not len(first):
        return code
    name = debug.names[int(scopes.name[scopes.range_scope[first[0]]])]
    return code._replace(kernels=(Kernel(name, texts[0].index, 0, texts[0].size),))
