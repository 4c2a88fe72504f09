"""Whole files for the questions that a user asks: a sample, or something inside one, changed by bytes or by sections, and
wrapped again into containers that may compress it."""

from __future__ import annotations

import random
from functools import cache

from tests.fuzz import seeds
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import Change
from tests.hostile.wrappers import WRAPPERS

_any_section = section_of()


@cache
def files() -> tuple[bytes, ...]:
    """Samples, and the images inside them."""
    return tuple(sorted({*seeds.files(), *seeds.images()}, key=lambda data: (len(data), data)))


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """By sections where it is an ELF image, else as bytes; one in six in a container around it."""
    changed = _any_section(dice, data, change) if data[:4] == b"\x7fELF" and dice.random() < 7 / 8 else change(data)
    if dice.random() < 1 / 6:
        others = (dice.choice(files()),) if dice.random() < 1 / 4 else ()
        changed = WRAPPERS[dice.choice(sorted(WRAPPERS))](changed, *others)
    return changed
