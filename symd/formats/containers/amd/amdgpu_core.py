"""Core files of ROCm programs, of the GPU alone or of the whole process: the code objects that were loaded. What the
waves were doing is told by ``symd.cores``.

Source: ROCdbgapi and the ROCm runtime's ``amd_core_dump.cpp``."""

from __future__ import annotations

from collections.abc import Sequence

from symd.config import DEFAULT_LIMITS
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import read_by
from symd.formats.elf import ElfSegment
from symd.formats.elf.constants import EM_AMDGPU, ET_CORE, NT_AMDGPU_CORE_STATE, PT_NOTE
from symd.formats.elf.contents import notes_in

NAME = "amdgpu-core"
_OWNER = "AMDGPU"


def claims(data: bytes) -> bool:
    """An ELF core file of AMD's machine, or of a host with the state of AMD's devices among its notes."""
    kind = elf.kind(data)
    if kind is None or kind.type != ET_CORE:
        return False
    return kind.machine == EM_AMDGPU or _has_note(data)


def _has_note(data: bytes) -> bool:
    try:
        image = elf.parse(data, Budget(DEFAULT_LIMITS, len(data)), section_table=False)
        return state_note(data, image.segments) is not None
    except SymdError:
        return False


def state_note(data: bytes, segments: Sequence[ElfSegment]) -> bytes | None:
    """The content of the note of the devices' state, if there is one. Raises Malformed."""
    for segment in segments:
        if segment.type == PT_NOTE:
            content = data[segment.offset : segment.offset + segment.file_size]
            for note in notes_in(content, "notes"):
                if note.owner == _OWNER and note.type == NT_AMDGPU_CORE_STATE:
                    return note.data
    return None


read = read_by("amd.core_state")  # 7 ms, 3 with NumPy: every code object of AMD's passes here
