"""What Intel's compilers and drivers wrap code in: the IGC debug container, the patch-token program binary that shares
its magic, and the NEO ELF that holds both. Every size can be made to lie."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .elf import Section, build_elf

MAGIC = b"CTNI"
VERSION = 1081
DG2 = 0xC07
"""The graphics core that the headers name as device."""

ET_OPENCL_EXECUTABLE = 0xFF04
DEVICE_BINARY, OPTIONS, DEVICE_DEBUG, SPIRV = 0xFF000005, 0xFF000006, 0xFF000008, 0xFF000009
SECTION_NAMES = {
    OPTIONS: "BuildOptions",
    SPIRV: "SPIRV Object",
    DEVICE_DEBUG: "Intel(R) OpenCL Device Debug",
    DEVICE_BINARY: "Intel(R) OpenCL Device Binary",
}


class DebugRecord(NamedTuple):
    """A kernel of the debug container. The sizes are what its header claims, where that is not the truth;
    ``terminated`` False leaves the name without its NUL and padding."""

    name: str
    elf: bytes
    isa: bytes = b""
    name_size: int | None = None
    elf_size: int | None = None
    isa_size: int | None = None
    terminated: bool = True


def padded_name(name: str, *, terminated: bool = True) -> bytes:
    """The name with at least one NUL, zero-padded to a multiple of four."""
    raw = name.encode()
    return raw.ljust((len(raw) // 4 + 1) * 4, b"\0") if terminated else raw


def debug_record(record: DebugRecord) -> bytes:
    name = padded_name(record.name, terminated=record.terminated)
    elf = record.elf.ljust(-(-len(record.elf) // 4) * 4, b"\0")
    truth = (len(name), len(elf), len(record.isa))
    claims = (record.name_size, record.elf_size, record.isa_size)
    header = struct.pack("<3I", *(fact if claim is None else claim for claim, fact in zip(claims, truth, strict=True)))
    return header + name + elf + record.isa


def debug_container(
    records: Sequence[DebugRecord],
    *,
    magic: bytes = MAGIC,
    version: int = VERSION,
    size: int = 0,
    device: int = DG2,
    stepping: int = 0,
    pointer_size: int = 0,
    count: int | None = None,
    trailing: bytes = b"",
) -> bytes:
    """An IGC debug container: seven words, then the records. ``count`` is the claimed number of kernels."""
    claimed = len(records) if count is None else count
    header = magic + struct.pack("<6I", version, size, device, stepping, pointer_size, claimed)
    return header + b"".join(map(debug_record, records)) + trailing


class PatchTokenKernel(NamedTuple):
    """A kernel of a patch-token program: its code, and the patch list as (token, payload) pairs."""

    name: str
    code: bytes
    patches: Sequence[tuple[int, bytes]] = ()


def patch_list(patches: Iterable[tuple[int, bytes]]) -> bytes:
    """Token, size with this header of eight bytes, payload."""
    return b"".join(struct.pack("<2I", token, 8 + len(payload)) + payload for token, payload in patches)


def patch_token_kernel(kernel: PatchTokenKernel) -> bytes:
    name, patches = padded_name(kernel.name), patch_list(kernel.patches)
    sizes = (len(name), len(patches), len(kernel.code), 0, 0, 0, len(kernel.code))
    return struct.pack("<IQ7I", 0, 0, *sizes) + name + kernel.code + patches


def patch_token_program(
    kernels: Sequence[PatchTokenKernel], *, device: int = DG2, patches: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    """A program binary: magic and version of a debug container, then other words in the same places."""
    program = patch_list(patches)
    header = MAGIC + struct.pack("<6I", VERSION, device, 8, len(kernels), 0, len(program))
    return header + program + b"".join(map(patch_token_kernel, kernels))


def neo_elf(parts: Sequence[tuple[int, bytes]], *, machine: int = 0) -> bytes:
    """The ELF that OpenCL returns as program binary: (section type, content) pairs."""
    sections = [Section(SECTION_NAMES.get(kind, ""), kind, data=data, align=8) for kind, data in parts]
    return build_elf(machine=machine, type=ET_OPENCL_EXECUTABLE, sections=sections)


def kernel_elf(code: bytes, debug: Iterable[Section] = (), *, name: str = ".text", flags: int = 6) -> bytes:
    """An ELF like the ones inside a debug container: one text, debug sections, machine 182."""
    return build_elf(machine=182, type=2, sections=[Section(name, flags=flags, data=code, align=4), *debug], symbols=[])


def broken_containers(elf: bytes) -> dict[str, bytes]:
    """Debug containers that contradict themselves, by what is wrong with them."""

    def one(**lies: Any) -> list[DebugRecord]:
        return [DebugRecord("kernel", elf)._replace(**lies)]

    return {
        "no records after the header": debug_container([], count=1),
        "header cut off": debug_container([])[:20],
        "record header cut off": debug_container([], count=1, trailing=b"\x08\0\0\0"),
        "2**32-1 kernels": debug_container(one(), count=2**32 - 1),
        "one kernel more than there is": debug_container(one(), count=2),
        "name size past the end": debug_container(one(name_size=2**31)),
        "name size 2**32-1": debug_container(one(name_size=2**32 - 1)),
        "name of no bytes": debug_container(one(name_size=0)),
        "name without an end": debug_container(one(terminated=False)),
        "ELF size past the end": debug_container(one(elf_size=len(elf) + 4096)),
        "ELF size 2**32-1": debug_container(one(elf_size=2**32 - 1)),
        "ELF size of no bytes": debug_container(one(elf_size=0)),
        "ISA size past the end": debug_container(one(isa_size=4096)),
        "sizes that wrap around together": debug_container(one(elf_size=2**32 - 8, isa_size=len(elf) + 8)),
        "an ELF that is not one": debug_container([DebugRecord("kernel", b"not an ELF at all" * 8)]),
        "an ELF that ends in its header": debug_container([DebugRecord("kernel", elf[:40])]),
        "an ELF without its section headers": debug_container([DebugRecord("kernel", elf[: len(elf) // 2])]),
    }
