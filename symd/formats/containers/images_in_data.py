"""ELF images for GPUs among the data of a host program: AMD's code objects and cubins that a compiler (Mojo, TVM) or a C array put there,
at any byte, in no section of their own and in no table.

An image begins with the magic number and an ELF header of a GPU's machine, and reaches as far as its own tables do."""

from __future__ import annotations

from typing import Final

from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.file_part import FilePart
from symd.formats.elf.constants import ELFDATA2LSB, EM_AMDGPU, EM_CUDA, EM_INTELGT, ET_CORE, EV_CURRENT

_MACHINES: Final = (EM_AMDGPU, EM_CUDA, EM_INTELGT)
_HEADER_BYTES: Final = 64
_TABLE_BYTES_A_STEP: Final = 8
"""Of tables, which are read for every header that may begin an image."""


def images_in(data: FilePart, name: str, budget: Budget) -> list[slice]:
    """Where whole images are in a section's content, in order, none inside another. Each header of a GPU's counts as an element,
    and what is read of its tables as work; a magic number alone is a step. Raises LimitExceeded."""
    found, at = [], 0
    while (at := data.find(elf.MAGIC, at)) >= 0:
        budget.spend(1, name)
        size = _size(data, at, name, budget) if _begins_image(data[at : at + _HEADER_BYTES]) else None
        if size is not None:
            found.append(slice(at, at + size))
        at += size or len(elf.MAGIC)
    return found


def _begins_image(head: bytes) -> bool:
    kind = elf.kind(head)
    if kind is None or kind.machine not in _MACHINES or kind.type == ET_CORE:
        return False
    return head[5:7] == bytes((ELFDATA2LSB, EV_CURRENT))


def _size(data: FilePart, start: int, name: str, budget: Budget) -> int | None:
    """Bytes of the image that begins at ``start``; None where there is none, or not all of it."""
    budget.count_elements(name)

    def read(at: int, size: int) -> bytes:
        budget.spend(min(size, len(data)) // _TABLE_BYTES_A_STEP, name)
        return data[start + at : start + at + size]

    try:
        size = elf.image_size(read)
    except SymdError:
        return None
    return size if size is not None and start + size <= len(data) else None
