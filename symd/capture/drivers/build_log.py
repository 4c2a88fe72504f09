"""A build log of a size that can be shown: a compiler that is given a binary file as source prints every line of it."""

from __future__ import annotations

from typing import Final

MAX_LOG: Final = 1 << 20
"""Characters of a build log that are kept."""


def bounded(log: str) -> str:
    """The log, or its beginning and its end with a line between that says how much is left out."""
    if len(log) <= MAX_LOG:
        return log
    half = MAX_LOG // 2
    return f"{log[:half]}\n... {len(log) - 2 * half} characters of the build log are left out ...\n{log[-half:]}"
