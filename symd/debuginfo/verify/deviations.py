"""What pyelftools 0.33 is known to do otherwise than DWARF says: each by name, read around where it is met, and
counted."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias


class KnownDeviation(NamedTuple):
    """``name`` is for people and scripts; ``reason`` says what pyelftools does and what is right."""

    name: str
    reason: str


PROGRAM_START = KnownDeviation(
    "program-start",
    "pyelftools begins a line program where the file list ends; it begins where header_length says (DWARF 5, 6.2.4)",
)
BLOCK_LOCATION = KnownDeviation(
    "block-location",
    "from DWARF 4 on, pyelftools takes no location from a block form, by which Intel's compiler writes expressions",
)

Met: TypeAlias = Counter[KnownDeviation]
"""How often each was met."""
