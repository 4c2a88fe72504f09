"""What a GPU core dump says: devices, loaded code objects, and every stopped warp or wave with its stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from symd.model.answers import Frame, Reason

NOT_LOADED = "none of its functions had been loaded"
"""A note on code of a CUDA dump without device addresses: the driver loads functions when they are needed first."""


class CoreFault(NamedTuple):
    """Why a lane, or a wave, stopped: the vendor's number of it, its name, and what it means."""

    number: int
    name: str
    meaning: str


class CorePlace(NamedTuple):
    """A place in loaded code: the number of the code object in ``CoreDump.images``, the section by its number there and
    the bytes from its start; and the function that holds it, with the bytes from that one's start ("" and those from
    the section's where none does)."""

    image: int
    section_index: int
    section_offset: int
    function: str
    function_offset: int


@dataclass(frozen=True, slots=True)
class CoreFrame:
    """One call of a stack. ``address`` is the device address of the instruction that was to be executed, or that raised
    the error, or for callers the address to return to; ``place`` is where that is in loaded code, for callers the
    last byte of the call before it (None: in none that the dump knows). ``reason`` and ``frames``, innermost first, are
    the answer at that place."""

    kind: Literal["pc", "error_pc", "return"]
    address: int
    place: CorePlace | None
    reason: Reason
    frames: tuple[Frame, ...] = ()


class CoreWave(NamedTuple):
    """A warp or wave that has a stack: ``unit`` is the multiprocessor (SM) or compute die (XCC), ``wave`` its number in
    the unit, ``block`` its thread block (work-group), ``lanes`` the mask of the lanes that are meant, ``thread`` the
    thread index of the lowest of them. None: the dump does not say."""

    unit: int
    wave: int
    block: tuple[int, int, int] | None
    lanes: int
    thread: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class CoreValue:
    """A variable that the dump has a value for, of the stack's first wave: ``lanes`` and ``values`` are equally long;
    one of each where all lanes have the same."""

    name: str
    type: str
    function: str | None
    inlined: bool
    location: str
    lanes: tuple[int, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoreStack:
    """What equal lanes of one launch have in common: where they stopped and how they came there, innermost call first.

    ``grid`` is the number of the launch (CUDA's grid, AMD's dispatch). ``active`` says that the lanes were executing,
    and not waiting for others of their wave. ``pc`` is where they were; ``error_pc`` where their fault was raised, if
    the dump says so. A stack without waves is that of a fault whose warps had ended when the dump was made.
    """

    device: int
    grid: int | None
    kernel: str | None
    fault: CoreFault | None
    active: bool
    pc: int
    error_pc: int | None
    frames: tuple[CoreFrame, ...]
    waves: tuple[CoreWave, ...]
    values: tuple[CoreValue, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CoreImage:
    """A code object that was loaded. ``name`` is a name of its own, or its URI. ``text`` are the device addresses of
    its code, ``(start, end)``, the end excluded. ``path`` is where the dump holds it (None: it does not).
    ``answered_by`` is the module that its lines are from, by digest; "" where that is the dump, None where nobody has
    lines of it; ``answered_path`` is the code object's path in that."""

    name: str
    target: str | None
    text: tuple[tuple[int, int], ...]
    path: str | None
    answered_by: str | None = None
    answered_path: str = ""
    notes: tuple[str, ...] = ()
    bias: int | None = None
    """What was added to its addresses when it was loaded; None where the dump has no such number (CUDA: device
    addresses are in the code objects themselves)."""


class CoreDevice(NamedTuple):
    """A device by its number in the dump; ``target`` is its architecture."""

    number: int
    name: str
    target: str | None


@dataclass(frozen=True, slots=True)
class CoreDump:
    """A GPU core dump, read: what every warp or wave was doing. ``format`` is "cuda-core" or "amdgpu-core";
    ``facts`` is what the dump says of how it was made. ``notes`` name what was damaged or is missing."""

    format: str
    facts: Mapping[str, str | int] = field(default_factory=dict)
    devices: tuple[CoreDevice, ...] = ()
    images: tuple[CoreImage, ...] = ()
    stacks: tuple[CoreStack, ...] = ()
    notes: tuple[str, ...] = ()


def images_with_frames(stacks: Iterable[CoreStack]) -> set[int]:
    """The numbers of the images that some frame lies in."""
    return {frame.place.image for stack in stacks for frame in stack.frames if frame.place is not None}
