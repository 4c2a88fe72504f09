"""Whole files for the questions that a user asks: a sample, or something inside one, changed by bytes or by sections, and
wrapped again into containers that may compress it. What is inside a container is often changed before that is made anew: most
changes of its own bytes make it one that nobody can read, and what is inside is then never looked at."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from functools import cache, partial

from symd.config import MIB, Limits
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.budget import Budget
from symd.formats.containers.format import Element
from tests.fuzz import seeds, spirv_words, vulkan
from tests.fuzz.elf_sections import section_of
from tests.fuzz.folded import objects as folded
from tests.fuzz.mutations import Change
from tests.hostile.wrappers import WRAPPERS

_any_section = section_of()
_MADE_ANEW: Mapping[str, tuple[float, Callable[..., bytes]]] = {
    "gzip": (7 / 8, partial(gzip.compress, mtime=0, compresslevel=1)),
    "ccob": (7 / 8, WRAPPERS["ccob"]),
    **{
        name: (1 / 2, WRAPPERS[name])
        for name in ("offload-bundle", "cuda-fatbin", "offload-binary", "archive", "kpack", "igc-debug", "neo-elf")
    },
}
"""By format: the share of its files of which something inside is changed, and what makes a file of contents. Those that compress all
that is in them have a checksum."""
_SMALL = Limits(expansion=4 * MIB)
"""What is unpacked here; larger files are changed as they are."""


@cache
def files() -> tuple[bytes, ...]:
    """Samples, and the images inside them; host programs with modules among their data, and code objects with folded functions."""
    made = (*vulkan.programs(), *folded.objects())
    return tuple(sorted({*seeds.files(), *seeds.images(), *made}, key=lambda data: (len(data), data)))


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """Inside where it is a container, by sections where it is an ELF image, by instructions where it is SPIR-V, else as bytes;
    one in six in a container around it."""
    form = containers.identify(data)
    share, make = _MADE_ANEW.get(form.NAME if form else "", (0.0, bytes))
    if form is not None and dice.random() < share:
        try:
            inside = [bytes(each.data) for each in form.read(Element("", data), Budget(_SMALL)).elements]
        except SymdError:
            inside = []
        if inside:
            at = dice.randrange(len(inside))
            inside[at] = mutate(dice, inside[at], change)
            return make(*inside)
    if vulkan.holds(data):
        changed = vulkan.mutate(dice, data, change)
    elif folded.is_folded(data):
        changed = folded.mutate(dice, data, change)
    elif data[:4] == b"\x7fELF" and dice.random() < 7 / 8:
        changed = _any_section(dice, data, change)
    else:
        changed = spirv_words.mutate(dice, data, change)
    if dice.random() < 1 / 6:
        others = (dice.choice(files()),) if dice.random() < 1 / 4 else ()
        changed = WRAPPERS[dice.choice(sorted(WRAPPERS))](changed, *others)
    return changed
