"""Modules of so many of one thing, for every format that lists things, and the work that something takes, counted: what each
thing costs to read must not depend on how many there are."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgpack

from tests.builders.elf import ALLOC, AX, NOTE, OBJECT, Section, Symbol, build_elf
from tests.builders.igc import DebugRecord, debug_container
from tests.formats.containers.llvm.test_offload_binary import binary
from tests.formats.containers.nvidia.test_fatbin import container, entry
from tests.hostile.wrappers import in_archive, in_bundle

INTEL, AMD, NVIDIA, HOST = 205, 224, 190, 62
ZE_INFO, CUDA_INFO, STO_CUDA_ENTRY = 0xFF000011, 0x70000000, 0x10
TEXT, DATA = 0x1000, 0x8000_0000


def steps(work: Callable[[], object]) -> int:
    """Bytecodes of the interpreter that something takes: no other process of the machine changes them."""
    count = 0

    def step(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def literal(text: str) -> list[int]:
    """A string of SPIR-V."""
    data = text.encode() + b"\0"
    return list(struct.unpack(f"<{-(-len(data) // 4)}I", data + b"\0" * (-len(data) % 4)))


def instruction(opcode: int, *operands: int) -> list[int]:
    return [(len(operands) + 1) << 16 | opcode, *operands]


def spirv(entries: int = 1, lines: int = 1) -> bytes:
    """A module of so many entry points, each with a function, a name, a decoration and so many OpLine."""
    words = [0x07230203, 0x10200, 0, 10_000 + 4 * entries, 0, *instruction(17, 6), *instruction(14, 2, 2)]
    for number in range(entries):
        words += instruction(15, 6, 1000 + 4 * number, *literal(f"k{number}"))
    words += instruction(7, 5, *literal("a.cl"))
    for number in range(entries):
        words += instruction(5, 1000 + 4 * number, *literal(f"k{number}"))
        words += instruction(71, 1000 + 4 * number, 41, *literal(f"k{number}"), 0)
    words += instruction(19, 1) + instruction(33, 2, 1)
    for number in range(entries):
        words += instruction(54, 1, 1000 + 4 * number, 0, 2) + instruction(248, 1001 + 4 * number)
        words += (instruction(8, 5, number + 1, 1) + instruction(0)) * lines + instruction(253) + instruction(56)
    return struct.pack(f"<{len(words)}I", *words)


def code_object(kernels: int = 1, *sections: Section, descriptors: bool = False) -> bytes:
    """An AMD code object of so many kernels; ``descriptors`` without a function of their name lead to their middle."""
    places = [TEXT + 64 * number for number in range(kernels)]
    symbols = [Symbol(f"k{at}", value=place, size=64, section=".text") for at, place in enumerate(places)]
    stored = b""
    for number, place in enumerate(places):
        at = DATA + 64 * number
        symbols.append(Symbol(f"{'d' * descriptors}k{number}.kd", at, 64, ".rodata", OBJECT))
        stored += struct.pack("<IIIxxxxq32xHH4x", 0, 0, 0, place + 4 * descriptors - at, 0, 0)
    text = Section(".text", flags=AX, address=TEXT, data=bytes(64 * kernels))
    descriptor = Section(".rodata", flags=ALLOC, address=DATA, data=stored)
    return build_elf(
        machine=AMD, osabi=64, abiversion=2, type=3, sections=[text, descriptor, *sections], symbols=symbols
    )


def namesakes(count: int) -> bytes:
    """An AMD code object of so many functions of one name, each described from its second instruction on."""
    places = [TEXT + 64 * number for number in range(count)]
    tree = b"\x01" + b"".join(b"\x02f\0" + struct.pack("<QI", place + 4, 8) for place in places) + b"\0"
    unit = struct.pack("<IHIB", 7 + len(tree), 4, 0, 8) + tree
    abbreviations = b"\x01\x11\1\0\0" + b"\x02\x2e\0\x03\x08\x11\x01\x12\x06\0\0" + b"\0"
    return build_elf(
        machine=AMD,
        osabi=64,
        type=3,
        sections=[
            Section(".text", flags=AX, address=TEXT, data=bytes(64 * count)),
            Section(".debug_info", data=unit),
            Section(".debug_abbrev", data=abbreviations),
        ],
        symbols=[Symbol("f", value=place, size=64, section=".text") for place in places],
    )


def metadata(count: int) -> bytes:
    """An AMD code object whose note describes so many kernels."""
    kernels = [
        {".symbol": f"k{at}.kd", ".vgpr_count": 3, ".args": [{".name": f"a{at}", ".size": 8}]} for at in range(count)
    ]
    said = msgpack.packb({"amdhsa.version": [1, 1], "amdhsa.kernels": kernels})
    note = struct.pack("<III8s", 7, len(said), 32, b"AMDGPU\0") + said + b"\0" * (-len(said) % 4)
    return code_object(count, Section(".note", NOTE, flags=ALLOC, data=note))


def zebin(kernels: int) -> bytes:
    """A zebin of so many kernels, each with a symbol and a description."""
    said = "kernels:\n" + "".join(f"  - name: k{at}\n    execution_env: {{simd_size: 8}}\n" for at in range(kernels))
    texts = [Section(f".text.k{at}", flags=AX, data=bytes(8)) for at in range(kernels)]
    symbols = [Symbol(f"k{at}", size=8, section=at + 1) for at in range(kernels)]
    return build_elf(
        machine=INTEL, sections=[*texts, Section(".ze_info", ZE_INFO, data=said.encode())], symbols=symbols
    )


def cubin(kernels: int) -> bytes:
    """A cubin of so many kernels, each with a symbol and attributes."""
    texts = [Section(f".text.k{at}", flags=AX, data=bytes(16)) for at in range(kernels)]
    attributes = [
        Section(f".nv.info.k{at}", CUDA_INFO, data=struct.pack("<BBH", 1, 1, 0), info=at + 1) for at in range(kernels)
    ]
    symbols = [Symbol(f"k{at}", size=16, section=at + 1, other=STO_CUDA_ENTRY) for at in range(kernels)]
    return build_elf(machine=NVIDIA, type=2, sections=[*texts, *attributes], symbols=symbols)


def bundles(count: int) -> bytes:
    """A host program with so many damaged bundles, each of whose tables reaches to the end of the section: the IDs of its
    entries hold the beginnings of the others."""
    data = b""
    for number in range(count):
        data += b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", count - number, 0, 0, 40) + b"i" * 8
    return build_elf(machine=HOST, sections=[Section(".hip_fatbin", data=data)])


OF_MANY: dict[str, Callable[[int], bytes]] = {
    "SPIR-V functions": spirv,
    "SPIR-V lines": lambda count: spirv(lines=count),
    "AMD kernels": code_object,
    "AMD descriptors": lambda count: code_object(count, descriptors=True),
    "AMD metadata": metadata,
    "AMD functions of one name": namesakes,
    "zebin kernels": zebin,
    "cubin sections": cubin,
    "archive members": lambda count: in_archive(*[spirv()] * count),
    "bundle entries": lambda count: in_bundle(*[spirv()] * count),
    "fat binary members": lambda count: container(*[entry(code_object())] * count),
    "fat binaries": lambda count: container(entry(code_object())) * count,
    "offload binary images": lambda count: binary(*[spirv()] * count),
    "IGC kernels": lambda count: debug_container([DebugRecord(f"k{at}", code_object()) for at in range(count)]),
}
"""By what they hold many of."""
