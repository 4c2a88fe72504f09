"""Register numbers of DWARF as people write the registers, by vendor.

Intel: the compiler's own numbering, 16 + n for general register n. AMD: LLVM's AMDGPU usage guide, "Register
Identifier". NVIDIA: the number is the ASCII text of the PTX register's name.

Where the PTX registers of a CUDA debug build are in the machine's registers: ``.nv_debug_info_reg_sass``.

For each function: its name and NUL, u32 count, then records of u32 piece, PTX register name and NUL, u32 location
(class in the high byte: 5 general, 2 predicate), u32 first and u32 last code offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from symd.model.code import Vendor

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


class RegisterName(NamedTuple):
    """What a register is called; a PTX register with the machine's registers that hold it (None: not known which)."""

    name: str
    machine_registers: tuple[str, ...] | None = None

    @property
    def text(self) -> str:
        if self.machine_registers is None:
            return self.name
        if not self.machine_registers:
            return f"{self.name} (in no machine register here)"
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
