"""Answers of those readers that do without NumPy, whose import takes longer than an answer. Imports nothing: programs that answer one question
begin with it."""

from __future__ import annotations

PlainFrame = tuple[str | None, str | None, str | None, int, int]
"""Function, linkage name, file, line and column, as in ``Frame``."""
PlainAnswer = tuple[int, tuple[PlainFrame, ...]]
"""The number of a ``Reason``, and frames, innermost first."""
EXACT, APPROXIMATE, NO_LINE, INFERRED, CONTRADICTORY = 1, 2, 3, 12, 13
"""Numbers of ``Reason``."""


class NotPlain(Exception):
    """The answer is not plain, or the file is not what it should be: whoever reads everything answers."""
