"""DWARF's register numbers by vendor: the names of the registers, how wide a vector register is and which of its bits
belong to each lane, and the registers that NVIDIA's frame addresses count from.

* Intel: the compiler's own numbering, 16 + n for general register n.
* AMD: LLVM's AMDGPU usage guide, "Register Identifier"; the debug data does not state widths.
* NVIDIA: the number is the ASCII text of the PTX register's name. In a debug build ``.nv_debug_info_reg_sass`` says
  which machine registers hold it: for each function its name and NUL, u32 count, then records of u32 piece, PTX
  register name and NUL, u32 location (class in the high byte: 5 general, 2 predicate), u32 first and u32 last code
  offset. Variables in local memory count from the canonical frame address of ptxas' own call frame information, whose
  register numbers are those locations.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from symd.debuginfo.dwarf.call_frames import CallFrames, FrameAddress
from symd.debuginfo.relocation import SCHEMES, linear_layout
from symd.errors import Malformed
from symd.formats.containers.intel import product_core
from symd.model.code import CodeObject, Vendor
from symd.model.variables import LocationPiece, VariableLocation

_RANGES: Mapping[Vendor, tuple[tuple[int, int, str, int], ...]] = {
    Vendor.INTEL: (
        (16, 271, "r", 0), (272, 287, "a", 0), (288, 303, "f", 0), (304, 334, "acc", 0), (335, 349, "mme", 0),
        (350, 605, "r", 256),
    ),
    Vendor.AMD: (
        (32, 95, "s", 0), (1088, 1129, "s", 64), (1536, 2047, "v", 0), (2048, 2303, "a", 0), (2560, 3071, "v", 0),
        (3072, 3327, "a", 0),
    ),
}  # fmt: skip
"""First and last number, the letter, and the register number that the first stands for."""
_SINGLE: Mapping[Vendor, Mapping[int, str]] = {
    Vendor.INTEL: {
        0: "ip", 1: "emask", 5: "BT base", 6: "scratch base", 7: "general state base", 8: "surface state base",
        9: "bindless surface base", 10: "bindless sampler base", 11: "scratch slot 1 base",
    },
    Vendor.AMD: {0: "pc", 1: "exec_lo", 16: "pc", 17: "exec", 128: "status"},
}  # fmt: skip
_SPACES: Mapping[Vendor, Mapping[int, str]] = {
    Vendor.INTEL: {1: "local"},
    Vendor.AMD: {1: "private", 2: "local", 3: "local", 5: "private", 6: "private wave"},
    Vendor.NVIDIA: {
        1: "code", 3: "special register", 4: "const", 5: "global", 6: "local", 7: "param", 8: "shared", 9: "surface",
        10: "texture", 11: "sampler", 12: "generic", 13: "param", 14: "param", 15: "frame",
    },
}  # fmt: skip
"""Address spaces and classes. AMD: Clang's numbers are 1 and 2 for private and local, those of LLVM's newer proposal 5,
6 and 3. NVIDIA: PTX storage classes; 2 is a register, which is no memory."""
NVIDIA_REGISTER_CLASS = 2
PRIVATE_SPACES = frozenset({1, 5})
"""AMD's, of one lane."""
FRAME_POINTERS = frozenset(range(32 + 32, 32 + 35))
"""s32, s33 and s34: stack, frame and base pointer of LLVM's AMDGPU code."""
_AMD_TARGET = re.compile(r"gfx([0-9]{1,2})(?:([0-9a-f])[0-9a-f]|-?([0-9])?-generic)")


def frame_divisor(code: CodeObject, lanes: int | None) -> int:
    """What a frame pointer of AMD code is divided by to get bytes of one lane's private memory: ``lanes``, those of a
    wave, where LLVM reads that memory by buffer instructions, whose offset counts the bytes of all lanes; 1 where it
    uses scratch instructions (gfx940 and its kin, and from gfx11 on), or where it is not known. In a kernel the pointer
    is 0."""
    found = _AMD_TARGET.fullmatch((code.target or "").partition(":")[0]) if code.vendor is Vendor.AMD else None
    if found is None:
        return 1
    major, minor = int(found[1]), found[2] or found[3]
    if major >= 11 or (major == 9 and minor in ("4", "5")):
        return 1
    return 64 if major < 10 else lanes or 1  # gfx10 was the first to have waves of 32 lanes


class RegisterName(NamedTuple):
    """What a register is called; a PTX register with the machine's registers that hold it (None: not known which)."""

    name: str
    machine_registers: tuple[str, ...] | None = None

    @property
    def text(self) -> str:
        if self.machine_registers is None:
            return self.name
        if not self.machine_registers:
            return f"{self.name} (not in a register here)"
        return f"{':'.join(self.machine_registers)} ({self.name})"


def register_name(vendor: Vendor, number: int) -> str:
    """The register's name; ``reg<number>`` where the vendor's list has no such number."""
    if vendor is Vendor.NVIDIA:
        return ptx_name(number) or f"reg{number}"
    single = _SINGLE.get(vendor, {}).get(number)
    if single is not None:
        return single
    for first, last, letter, base in _RANGES.get(vendor, ()):
        if first <= number <= last:
            return f"{letter}{number - first + base}"
    return f"reg{number}"


def is_vector(number: int) -> bool:
    """Whether the number is one of AMD's vector registers, which have 32 bits for each lane."""
    return any(first <= number <= last and letter in "va" for first, last, letter, _ in _RANGES[Vendor.AMD])


def is_general(number: int) -> bool:
    """Whether the number is one of Intel's general registers."""
    return any(first <= number <= last and letter == "r" for first, last, letter, _ in _RANGES[Vendor.INTEL])


def ptx_name(number: int) -> str | None:
    """The PTX register that a DWARF number spells: 0x25726434 is ``%rd4``; None where it spells none."""
    text = number.to_bytes((number.bit_length() + 7) // 8 or 1, "big")
    if text[:1] != b"%" or len(text) < 2 or not all(0x21 <= character < 0x7F for character in text):
        return None
    return text.decode("ascii")


def address_space(vendor: Vendor, number: int) -> str:
    """The name of an address space (or class); its number where it has none."""
    return _SPACES.get(vendor, {}).get(number) or f"address space {number}"


_CLASSES = {5: "R", 2: "P"}
_RECORD = struct.Struct("<III")


def machine_registers(section: bytes, function: str, offset: int) -> dict[str, tuple[str, ...]]:
    """PTX register to machine registers, lowest piece first, of those that hold one at ``offset`` of the function's
    text. Damaged data ends the list early."""
    found: dict[str, dict[int, str]] = {}
    for name, piece, register, location, start, after in _records(section):
        if name == function and start <= offset < after:
            letter = _CLASSES.get(location >> 24, f"class{location >> 24}:")
            found.setdefault(register, {})[piece] = f"{letter}{location & 0xFFFFFF}"
    return {register: tuple(pieces[piece] for piece in sorted(pieces)) for register, pieces in found.items()}


def _records(data: bytes) -> Iterator[tuple[str, int, str, int, int, int]]:
    at = 0
    while at < len(data):
        end = data.find(b"\0", at)
        if end < 0 or end + 5 > len(data):
            return
        function = data[at:end].decode("utf-8", "replace")
        count = int.from_bytes(data[end + 1 : end + 5], "little")
        at = end + 5
        for _ in range(count):
            end = data.find(b"\0", at + 4)
            if end < 0 or end + 1 + _RECORD.size > len(data):
                return
            piece = int.from_bytes(data[at : at + 4], "little")
            location, start, after = _RECORD.unpack_from(data, end + 1)
            yield function, piece, data[at + 4 : end].decode("utf-8", "replace"), location, start, after
            at = end + 1 + _RECORD.size


_INTEL_BYTES = {
    **dict.fromkeys(("gen8", "gen9", "gen11", "gen11lp", "gen12lp", "xe-hp", "xe-hpg"), 32),
    **dict.fromkeys(("xe-hpc", "xe2", "xe3", "xe3p"), 64),
}
"""Bytes of a general register by graphics core."""
_LANE_BITS = 32
"""Bits that AMD's vector registers have for each lane."""


class RegisterWidths:
    """The widths of one code object's vector registers."""

    def __init__(self, code: CodeObject, lanes: int | None) -> None:
        """``lanes`` are those of AMD's wavefronts; None: not known."""
        self._vendor = code.vendor
        core = product_core(code.target or "") or code.target or ""
        self._intel = _INTEL_BYTES.get(core) if self._vendor is Vendor.INTEL else None
        self._amd = None if lanes is None else _LANE_BITS // 8 * lanes

    def told(self, location: VariableLocation) -> VariableLocation:
        """The location with the widths of its vector registers, and what of AMD's is each lane's own."""
        if self._vendor is not Vendor.AMD and self._intel is None:
            return location
        return replace(location, pieces=tuple(map(self._piece, location.pieces)))

    def _piece(self, piece: LocationPiece) -> LocationPiece:
        register = piece.register
        if register is None:
            return piece
        if self._vendor is Vendor.INTEL:
            return replace(
                piece, register=replace(register, bytes=self._intel if is_general(register.number) else None)
            )
        if not is_vector(register.number) or register.lane_bits or register.lane_registers:
            return piece
        return replace(piece, register=replace(register, lane_bits=_LANE_BITS, bytes=self._amd), per_lane=True)


_GENERAL, _KIND_SHIFT = 5, 24
"""The kind of general registers, R0 to R254."""


def frame_addresses(code: CodeObject, places: Sequence[tuple[int, int]]) -> tuple[tuple[int, int] | None, ...]:
    """The canonical frame address at each (section, offset): the number of a general register and the bytes that are
    added to its content; None where call frame information does not say it. Raises Malformed, Unsupported where the
    object cannot be relocated."""
    if code.vendor is not Vendor.NVIDIA:
        return (None,) * len(places)
    linear = linear_layout(code)
    data = SCHEMES[code.relocation](code, linear).get(".debug_frame", b"")
    frames = CallFrames(data, address_size=code.address_bits // 8)
    bases = [linear.base_of(section) for section, _ in places]
    return tuple(
        _register(frames, base + offset) if base is not None else None
        for base, (_, offset) in zip(bases, places, strict=True)
    )


def _register(frames: CallFrames, address: int) -> tuple[int, int] | None:
    try:
        row = frames.at(address)
    except Malformed:
        return None
    cfa = row.cfa if row is not None else None
    return None if cfa is None else _of_general(cfa)


def _of_general(cfa: FrameAddress) -> tuple[int, int] | None:
    if cfa.expression is not None or cfa.register >> _KIND_SHIFT != _GENERAL:
        return None
    return cfa.register & (1 << _KIND_SHIFT) - 1, cfa.offset
