"""A core file of a ROCm program, opened: the state of the devices, memory, what was loaded.

Source: ROCdbgapi and the ROCm runtime's ``amd_core_dump.cpp``."""

from __future__ import annotations

from symd.errors import Malformed, SymdError, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import core_state
from symd.formats.containers.amd.core_memory import CoreMemory
from symd.formats.containers.amd.core_state import LoadedObject


def without_state(data: bytes, budget: Budget) -> SymdError:
    """What is to be said of the core file of a process that says nothing of AMD's devices. Raises Malformed, LimitExceeded."""
    missing = CoreMemory(data, _image(data, budget).segments).missing
    if missing:
        said = f"the core file was not written to its end: {missing} bytes are missing, and what it says of GPUs may be among them"
        return Malformed(said, hint="copy it again, or raise the limit of core files (ulimit -c)")
    hint = "the ROCm runtime writes the GPU's in a file of its own, gpucore.PID"
    return Unsupported("it is the core file of a process, and says nothing of AMD's devices", hint=hint)


def _image(data: bytes, budget: Budget) -> elf.Elf:
    try:
        return elf.parse(data, budget, section_table=False)
    except Malformed as error:
        hint = "the core file was not written to its end, or was cut off"
        raise Malformed(error.message, where=error.where, hint=hint) from None


class Core:
    """An opened core file: its state and its memory. Raises Malformed, LimitExceeded."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        image = _image(data, budget)
        note = core_state.state_note(data, image.segments)
        if note is None:
            hint = "the dump was not written to its end, or the runtime could not tell the state"
            raise Malformed("there is no note of the devices' state (AMDGPU, type 33)", hint=hint)
        self.state = core_state.read_state(note, budget)
        self.memory = CoreMemory(data, image.segments)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with the file itself."""
        if not self.memory.missing:
            return ()
        lost = "waves and code objects may be missing too, or be without names and debug data"
        return (f"the dump was not written to its end: {self.memory.missing} bytes are missing; {lost}",)

    def objects(self, budget: Budget) -> list[tuple[str, LoadedObject]]:
        """The code objects that were loaded, each with its element of the nesting path."""
        found = core_state.loaded_objects(self.memory, self.state, budget)
        return [(f"object{number}", each) for number, each in enumerate(found)]
