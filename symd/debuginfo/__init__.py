"""A code object in, its line rows and scopes out (``reading``), or the frames at one of its addresses
(``one_address``). Importing the package imports neither: one answer does without NumPy."""

from __future__ import annotations

from symd.model.code import CodeObject


def leaves_out_calls(code: CodeObject) -> bool:
    """Whether a SPIR-V module is of a compiler that inlines functions and, where it writes lines alone, says nothing of
    that: Slang with ``-g1``."""
    return str(code.facts.get("generator", "")).startswith("NVIDIA Slang")
