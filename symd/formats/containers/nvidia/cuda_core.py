"""CUDA core dumps: the cubins of the modules that were loaded. What the warps were doing is told by ``symd.cores``.

Source: NVIDIA's ``cudacoredump.h``, published with cuda-gdb."""

from __future__ import annotations

from symd.formats import elf
from symd.formats.containers.format import read_by
from symd.formats.elf.constants import ELFOSABI_CUDA, EM_CUDA, ET_CORE

NAME = "cuda-core"


def claims(data: bytes) -> bool:
    """An ELF core file with CUDA's OS ABI and machine."""
    kind = elf.kind(data)
    return kind is not None and kind.type == ET_CORE and kind.machine == EM_CUDA and data[7] == ELFOSABI_CUDA


read = read_by("nvidia.core_sections")  # 68 ms: every cubin passes here
