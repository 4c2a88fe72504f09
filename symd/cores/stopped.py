"""A dump as it was read, before anybody is asked which lines its addresses mean."""

from __future__ import annotations

from typing import Literal, NamedTuple

from symd.model.cores import CoreDump

MOST_REGISTER_BYTES = 32 << 20
"""Bytes of registers that one answer takes along, all stacks together."""


class WaveMemory(NamedTuple):
    """Where the memory of an AMD wave stands in global memory. ``width`` is its number of lanes; ``scratch`` and ``local`` are
    global addresses and sizes of its private memory, all lanes', and of its work-group's local memory (None: not known).
    The apertures are the upper 32 bits of flat addresses that mean local and private memory. ``scaled_frames``: stack and frame
    pointers count the bytes of all lanes together, and not those of one."""

    width: int
    scratch: tuple[int, int] | None
    local: tuple[int, int] | None
    local_aperture: int
    private_aperture: int
    scaled_frames: bool


class MemoryWindow(NamedTuple):
    """A part of a CUDA warp's memory: ``size`` bytes from address ``start`` of a space, which stand at byte ``position`` of the
    dump. ``lane`` is whose local memory it is; None for what all lanes share, shared memory and the launch's parameters."""

    space: Literal["local", "shared", "param"]
    lane: int | None
    start: int
    size: int
    position: int


class WaveRegisters(NamedTuple):
    """The registers of one warp or wave. ``lanes`` are lane numbers; ``vector`` has the registers of each of them, 32-bit
    little-endian words, and ``predicates`` a word of 0 or 1 each; ``scalar`` those that all lanes share (uniform registers,
    SGPRs)."""

    lanes: tuple[int, ...]
    vector: tuple[bytes, ...]
    predicates: tuple[bytes, ...] = ()
    scalar: bytes = b""
    memory: WaveMemory | None = None
    """AMD's waves: where their memory is."""
    windows: tuple[MemoryWindow, ...] = ()
    """CUDA's warps: their own memory."""


class TextPlace(NamedTuple):
    """A text section of a code object: its number and name, its object address and size in bytes."""

    section: int
    name: str
    address: int
    size: int


class CodeIdentity(NamedTuple):
    """What two code objects must have in common to have the same code. ``known_by`` has the name, size in bytes and SHA-256
    of each executable section (AMD: each executable segment, its address as its name), sorted; ``texts`` are the executable
    sections. ``relocated``: a loader has changed the bytes, so that only names and sizes can be compared."""

    target: str | None
    known_by: tuple[tuple[str, int, str], ...]
    texts: tuple[TextPlace, ...]
    has_debug_data: bool
    relocated: bool = False


class StoppedCore(NamedTuple):
    """``dump`` has stacks whose frames have places and no lines yet. ``registers`` are those of each stack's first wave,
    where they are known, and ``identities`` those of each image's code, where the dump has it."""

    dump: CoreDump
    registers: tuple[WaveRegisters | None, ...]
    identities: tuple[CodeIdentity | None, ...]
