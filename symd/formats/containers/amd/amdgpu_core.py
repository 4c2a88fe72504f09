"""Core files of ROCm programs, of the GPU alone or of the whole process: the code objects that were loaded. What the
waves were doing is told by ``symd.cores``.

Source: ROCdbgapi and the ROCm runtime's ``amd_core_dump.cpp``."""

from __future__ import annotations

from symd.config import DEFAULT_LIMITS
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.constants import EM_AMDGPU, ET_CORE

NAME = "amdgpu-core"


def claims(data: bytes) -> bool:
    """An ELF core file of AMD's machine, or of a host with the state of AMD's devices among its notes."""
    kind = elf.kind(data)
    if kind is None or kind.type != ET_CORE:
        return False
    return kind.machine == EM_AMDGPU or _has_note(data)


def _has_note(data: bytes) -> bool:
    from symd.formats.containers.amd import core_state  # noqa: PLC0415 - few files are dumps

    try:
        image = elf.parse(data, Budget(DEFAULT_LIMITS, len(data)), section_table=False)
        return core_state.state_note(data, image.segments) is not None
    except SymdError:
        return False


def read(element: Element, budget: Budget) -> Contents:
    """An element for every code object whose bytes the file has. Raises Malformed, LimitExceeded."""
    from symd.formats.containers.amd.core_state import Core  # noqa: PLC0415 - few files are dumps

    core = Core(element.data, budget)
    named = core.objects(budget)
    elements = tuple(Element(name, each.data, bias=each.bias) for name, each in named if each.data is not None)
    notes = tuple(f"{each.name}: its code is not in the dump" for _, each in named if each.data is None)
    return Contents(elements, notes=(*core.notes, *notes))
