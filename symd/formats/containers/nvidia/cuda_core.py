"""CUDA core dumps: the cubins of the modules that were loaded. What the warps were doing is told by ``symd.cores``.

Source: NVIDIA's ``cudacoredump.h``, published with cuda-gdb."""

from __future__ import annotations

from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.constants import ELFOSABI_CUDA, EM_CUDA, ET_CORE

NAME = "cuda-core"


def claims(data: bytes) -> bool:
    """An ELF core file with CUDA's OS ABI and machine."""
    kind = elf.kind(data)
    return kind is not None and kind.type == ET_CORE and kind.machine == EM_CUDA and data[7] == ELFOSABI_CUDA


def read(element: Element, budget: Budget) -> Contents:
    """An element for every loaded module whose cubin is in the dump. Raises Malformed, LimitExceeded."""
    from symd.formats.containers.nvidia.core_sections import (  # noqa: PLC0415 - 68 ms: every cubin passes here
        CoreSections,
        element_of,
        loaded_modules,
    )

    sections = CoreSections(element.data, budget)
    modules = loaded_modules(sections)
    budget.count_elements(NAME, len(modules))
    found = [(each, element_of(sections, each, budget)) for each in modules]
    notes = [f"{each.name}: the dump does not have its code" for each, cubin in found if cubin is None]
    return Contents(tuple(cubin for _, cubin in found if cubin is not None), notes=(*sections.notes, *notes))
