"""Whole files for the questions that a user asks: a sample, or something inside one, changed by bytes or by sections, and
wrapped again into containers that may compress it. What is inside a compressed file is changed before that is packed again: a
change of the packed bytes is found by a checksum, and what is inside is then never read."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from functools import cache, partial

from symd import containers
from symd.budget import Budget
from symd.config import MIB, Limits
from symd.containers.format import Element
from symd.errors import SymdError
from tests.fuzz import seeds
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import Change
from tests.hostile.wrappers import WRAPPERS

_any_section = section_of()
_PACKED: Mapping[str, Callable[..., bytes]] = {"gzip": partial(gzip.compress, mtime=0), "ccob": WRAPPERS["ccob"]}
"""By format that compresses all that is in it: contents in, a file that holds them out."""
_SMALL = Limits(expansion=4 * MIB)
"""What is unpacked here; larger files are changed as they are."""


@cache
def files() -> tuple[bytes, ...]:
    """Samples, and the images inside them."""
    return tuple(sorted({*seeds.files(), *seeds.images()}, key=lambda data: (len(data), data)))


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """Inside where it is compressed, by sections where it is an ELF image, else as bytes; one in six in a container around
    it."""
    form = containers.identify(data)
    if form is not None and form.NAME in _PACKED and dice.random() < 7 / 8:
        try:
            inside = [bytes(each.data) for each in form.read(Element("", data), Budget(_SMALL)).elements]
        except SymdError:
            inside = []
        if inside:
            at = dice.randrange(len(inside))
            inside[at] = mutate(dice, inside[at], change)
            return _PACKED[form.NAME](*inside)
    changed = _any_section(dice, data, change) if data[:4] == b"\x7fELF" and dice.random() < 7 / 8 else change(data)
    if dice.random() < 1 / 6:
        others = (dice.choice(files()),) if dice.random() < 1 / 4 else ()
        changed = WRAPPERS[dice.choice(sorted(WRAPPERS))](changed, *others)
    return changed
