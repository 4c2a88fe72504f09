"""The 64-bit words of a host program's data as the loader makes them, for a program that is loaded at 0: in position-independent
programs a pointer may be 0 in the file, and a relative relocation of ``.rela.dyn`` has it as its addend.

Source: System V ABI, chapter 4, "Relocation"; the processor supplements, R_X86_64_RELATIVE and R_AARCH64_RELATIVE."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symd.formats.elf import Elf
from symd.formats.elf.constants import EM_AARCH64, EM_X86_64, R_AARCH64_RELATIVE, R_X86_64_RELATIVE
from symd.model.code import Section
from symd.model.columns import U64

DYNAMIC_RELOCATIONS = ".rela.dyn"
WORD_BYTES = 8
_RELATIVE: Mapping[int, int] = {EM_X86_64: R_X86_64_RELATIVE, EM_AARCH64: R_AARCH64_RELATIVE}
_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])


def loaded_words(program: Elf, section: Section) -> U64:
    """The words of the section, from its first byte on. Relocations that are not relative change nothing."""
    data = section.data
    found = np.frombuffer(data[: len(data) // WORD_BYTES * WORD_BYTES], "<u8").astype(np.uint64)
    relocations = program.by_name.get(DYNAMIC_RELOCATIONS)
    relative = _RELATIVE.get(program.header.machine)
    if relocations is None or relative is None:
        return found
    rows = np.frombuffer(relocations.data[: len(relocations.data) // _RELA.itemsize * _RELA.itemsize], _RELA)
    place = rows["offset"] - np.uint64(section.address)
    meant = (place < len(found) * WORD_BYTES) & (place % WORD_BYTES == 0) & (rows["info"] == relative)
    found[place[meant] // WORD_BYTES] = rows["addend"][meant].astype(np.uint64)
    return found
