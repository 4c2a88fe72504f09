"""The lines of its source file that a function can have: from its declaration up to the next one in the same file.

A declaration inside the function must not end it: lambdas, blocks, methods of local classes and outlined parallel
regions are known by their names; so must none before a line from which the function calls something. If a function
calls from a line before its own declaration, #line is in use in this file, so that no function of it gets bounds.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from symd.core import function_lines as core

_LOCAL = "_ZZ"
"""How the Itanium ABI begins the mangled name of what is declared inside a function."""
_INSIDE = ("operator()", "_block_invoke", "omp_outlined")
"""What the names of lambdas, blocks and outlined regions have in common."""


def line_ends(functions: Sequence[memoryview], names: Sequence[str], calls: tuple[memoryview, ...]) -> array[int]:
    """For each function the line (u32) behind its last one: ``symd.core.function_lines.NO_END`` where no other
    declaration follows, 0 where nothing is known. ``functions`` are the columns FUNCTION_COLUMNS of
    ``symd.core.scopes``, whose names are indexes of ``names``; ``calls`` are those of
    ``symd.core.function_lines.line_ends``."""
    name, linkage_name, file, line, unit = functions
    return core.line_ends((unit, file, line), _are_inside(name.tolist(), linkage_name.tolist(), names), calls)


def _are_inside(name: list[int], linkage_name: list[int], names: Sequence[str]) -> bytes:
    """For each function whether its name says that it is declared inside another one."""
    numbers = {*name, *linkage_name}
    text = "\n".join([names[number] for number in numbers])
    if _LOCAL not in text and not any(part in text for part in _INSIDE):  # as in most objects
        return bytes(len(name))
    inside = {number for number in numbers if _is_inside(names[number])}
    return bytes(one in inside or other in inside for one, other in zip(name, linkage_name, strict=True))


def _is_inside(name: str) -> bool:
    return name.startswith(_LOCAL) or any(part in name for part in _INSIDE)
