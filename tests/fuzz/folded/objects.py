"""The code objects themselves, and changes to them that leave most of them folded."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from symd.formats import elf
from symd.formats.elf.constants import EM_AMDGPU
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import Change

FOLDER = Path(__file__).parent
MARK = "folded-"
"""How the names of their sources begin, which stand in several sections: by that one is known, however damaged it is."""
_debug_section = section_of(".debug_line", ".debug_info", ".debug_abbrev", ".debug_r", ".debug_addr", ".symtab")
_any_section = section_of()


@cache
def objects() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(FOLDER.glob("*.co")))


def is_folded(data: bytes) -> bool:
    """Whether that is one of them, or was."""
    kind = elf.kind(data)
    return kind is not None and kind.machine == EM_AMDGPU and MARK.encode() in data


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """One section changed, mostly one that says where functions are and which lines they have."""
    return (_debug_section if dice.random() < 3 / 4 else _any_section)(dice, data, change)
