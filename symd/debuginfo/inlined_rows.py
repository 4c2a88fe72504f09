"""What line rows alone say of inlined calls, of a code object's functions and by its compiler's ways. Knows no columns, whose library takes longer to import than an answer takes."""

from __future__ import annotations

from symd.core import row_scopes as core
from symd.model.code import PYTHON_SUFFIX, is_symbol_of
from symd.model.named_tuples import NamedTuple
from symd.model.texts import counted

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from symd.model.code import Function

_HOPPER = 90


class InlinedRows(NamedTuple):
    """``names`` begins with the names that were passed; ``warnings`` say what was left out."""

    scopes: core.RowScopes
    names: tuple[str, ...]
    warnings: tuple[str, ...]


def inlined_rows(
    rows: Sequence[Any],
    calls: Sequence[Any],
    names: Sequence[str],
    functions: Sequence[Function],
    files: Sequence[str],
    **how: Any,
) -> InlinedRows:
    """The scopes of rows (``core.row_scopes``, which says what both columns hold and ``how`` they can be read)."""
    of_python = bytes(file.endswith(PYTHON_SUFFIX) for file in files)

    def is_around(function: int, name: int) -> bool:
        return is_symbol_of(functions[function].name, names[name])

    unnamed = is_around if 1 in of_python else None
    found = core.row_scopes(rows, calls, functions, unnamed=unnamed, unnamed_files=of_python, names=len(names), **how)
    own = (functions[number].name if number >= 0 else "" for number in found.functions)
    left_out = f"left out: the callers of {counted(found.lost, 'row')} inlined more than {core.MAX_DEPTH} deep"
    return InlinedRows(found, (*names, *own), (left_out,) if found.lost else ())


def is_from_hopper_on(target: str) -> bool:
    """Whether a target is sm_90 or newer, for which NVIDIA's assembler writes line tables in another way."""
    number = target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return target.startswith("sm_") and number.isdecimal() and int(number) >= _HOPPER
