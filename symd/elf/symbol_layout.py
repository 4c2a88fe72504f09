"""An entry of a symbol table as a NumPy type. On its own, because NumPy is slow to import and sections are read without it.

Source: System V ABI, chapter 4, "Symbol Table" (Elf32_Sym, Elf64_Sym)."""

from __future__ import annotations

import numpy as np

SYMBOL_64 = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
SYMBOL_32 = np.dtype(
    [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2")]
)
