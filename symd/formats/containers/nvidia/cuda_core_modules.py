"""The modules that were loaded when a CUDA core dump was written, and the sections that have their cubins.

Source: NVIDIA's ``cudacoredump.h``, published with cuda-gdb."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from symd.errors import Malformed, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Element
from symd.formats.containers.nvidia.core_sections import (
    CONTEXTS,
    IMAGE,
    MODULES,
    NO_ROW,
    RELOCATED_IMAGE,
    CoreSections,
    TableRows,
)
from symd.formats.containers.nvidia.relocated_image import is_relocated


class LoadedModule(NamedTuple):
    """A module of a dump: ``name`` is unique in it; ``device`` is the row of its device; ``image`` and ``relocated`` are the numbers of the sections with its
    cubin, as loaded from and as relocated. The element of the dump is the relocated one where it has device addresses."""

    name: str
    handle: int
    device: int
    image: int | None
    relocated: int | None


def loaded_modules(sections: CoreSections) -> list[LoadedModule]:
    """Every module that the dump lists, and every cubin that no list names, in the order of the file."""
    rows, contexts = sections.rows(MODULES), sections.rows(CONTEXTS)
    context = rows.parents_in(contexts)
    images, relocated = (_by_module(sections, rows, kind) for kind in (IMAGE, RELOCATED_IMAGE))
    found = []
    for number, (handle, owner) in enumerate(zip(rows["handle"].tolist(), context.tolist(), strict=True)):
        device = int(contexts["device"][owner]) if owner != NO_ROW else 0
        name = f"device{device}.module{number}"
        found.append(LoadedModule(name, handle, device, images.pop(number, None), relocated.pop(number, None)))
    orphans = sorted({*images, *relocated})
    found += [LoadedModule(f"module{each}", 0, 0, images.get(each), relocated.get(each)) for each in orphans]
    return found


def _by_module(sections: CoreSections, modules: TableRows, kind: int) -> dict[int, int]:
    """Sections with cubins by the row of their module; those of no module by numbers after the last."""
    numbers = sections.of_kind(kind)
    rows = modules.find(*sections.parents(numbers))
    orphan = rows == NO_ROW
    keys = np.where(orphan, len(modules) - 1 + np.cumsum(orphan), rows).tolist()
    return dict(zip(reversed(keys), reversed(numbers.tolist()), strict=True))


def element_of(sections: CoreSections, module: LoadedModule, budget: Budget) -> Element | None:
    """The module's cubin, where the dump has it: as relocated, so that device addresses are known in it, unless none of its functions had
    been loaded. Which of the two it is, is looked at when the element is opened."""
    if module.relocated is None:
        return None if module.image is None else Element(module.name, partial(sections.content, module.image))
    return Element(module.name, partial(_loaded_or_plain, sections, module.relocated, module.image, budget))


def _loaded_or_plain(sections: CoreSections, relocated: int, plain: int | None, budget: Budget) -> bytes:
    cubin = sections.content(relocated)
    return cubin if plain is None or _has_addresses(cubin, budget) else sections.content(plain)


def _has_addresses(cubin: bytes, budget: Budget) -> bool:
    try:
        image = elf.parse(cubin, budget)
        table = image.by_name.get(".symtab")
        return table is not None and is_relocated(image, image.symbols(table))
    except (Malformed, Unsupported):
        return False
