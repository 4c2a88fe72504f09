"""Host programs with SPIR-V modules among their data, as Vulkan's are, and changes to them that know where modules and
instructions begin."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

from symd.formats import elf
from symd.formats.containers import host_elf
from tests.builders.elf import ALLOC, AX, WRITE, Section, build_elf
from tests.formats.containers.khronos.test_modules_in_data import (
    CAPABILITY,
    FUNCTION,
    FUNCTION_END,
    HEADER,
    NO_LINE,
    WHOLE,
    ext_inst,
    ext_inst_import,
)
from tests.fuzz import spirv_words
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import SAMPLES, Change, below

MAGIC = b"\x03\x02\x23\x07"
_DEVICE_SECTION = re.compile(
    rb"\.hip_?[fF]at|\.nv_fatbin|__nv_relfatbin|\.llvm\.offloading|OFFLOAD|\.gnu\.offload|\.rocm_kpack_ref"
)
"""What stands in an image that has a section of device code: in such a one no modules are looked for."""
_any_section = section_of()
_data_section = section_of(".rodata", ".data")
_GAPS = (b"", bytes(8), b"text of the program\0", b"\xff")
"""What lies between modules."""


def holds(data: bytes) -> bool:
    """Whether that is such a program, by its bytes: a damaged one is one still."""
    kind = elf.kind(data)
    return kind is not None and kind.machine in host_elf.MACHINES and MAGIC in data and not _DEVICE_SECTION.search(data)


def program(constant: Sequence[bytes], variable: Sequence[bytes] = (), *, machine: int = 62, bits: int = 64) -> bytes:
    """One with these pieces in ``.rodata`` and in ``.data``."""
    return build_elf(
        machine=machine,
        bits=bits,
        sections=[
            Section(".text", flags=AX, address=0x1000, data=b"\xc3"),
            Section(".rodata", flags=ALLOC, address=0x2000, data=b"".join(constant), align=8),
            Section(".data", flags=ALLOC | WRITE, address=0x80000, data=b"".join(variable)),
        ],
    )


@cache
def modules() -> tuple[bytes, ...]:
    """Samples, the smallest first."""
    paths = sorted((SAMPLES / "spirv/bin").glob("*.spv"), key=lambda path: (path.stat().st_size, path.name))
    return tuple(path.read_bytes() for path in paths if "big-endian" not in path.name)


@cache
def programs() -> tuple[bytes, ...]:
    """Small ones: with one module and with several, in one section and in two, aligned and not, with headers that begin none."""
    small = modules()[:4]
    followed = [module + gap for module, gap in zip(small, _GAPS, strict=True)]
    return (
        *(program([bytes(32), module, bytes(16)]) for module in modules()[:8]),
        program(small),
        program(followed[:2], followed[2:]),
        program([b"\1", small[1], b"\0\0\0", small[0]], machine=3, bits=32),
        program([small[0][:24] * 3, small[1][:400], small[2]], [MAGIC, small[0]]),
    )


@cache
def sections() -> tuple[bytes, ...]:
    """What may stand in a section: a few samples, and modules of as few instructions as there can be."""
    sets = ext_inst_import(7, b"NonSemantic.ClspvReflection.5") + ext_inst_import(6, b"GLSL.std.450")
    reflected = HEADER + CAPABILITY + sets + FUNCTION + FUNCTION_END + ext_inst(7) * 2
    lined = WHOLE + NO_LINE + FUNCTION + FUNCTION_END + NO_LINE
    return (
        *(bytes(4) + module + bytes(8) for module in (WHOLE, reflected, lined, *modules()[:3])),
        (WHOLE + reflected + lined) * 2,
        b"text\0".join((b"", WHOLE, HEADER + CAPABILITY, reflected + ext_inst(6), WHOLE)),
        (HEADER + CAPABILITY) * 3 + lined + HEADER,
    )


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """A program with one module in one of its sections changed; now and then any section or any bytes."""
    if dice.random() < 1 / 8:
        return _any_section(dice, data, change)
    return _data_section(dice, data, lambda content: mutate_section(dice, content, change))


def mutate_section(dice: random.Random, content: bytes, change: Change) -> bytes:
    """What stands in a section, with one of its modules changed; now and then any bytes."""
    starts = [found.start() for found in re.finditer(re.escape(MAGIC), content)]
    if not starts or dice.random() < 1 / 8:
        return change(content)
    number = below(dice, len(starts))
    start, end = starts[number], (*starts[1:], len(content))[number]
    module = content[start:end]
    size = spirv_words.extent(module)
    what = below(dice, 8)
    if what < 4:
        changed = spirv_words.mutate(dice, module[:size], change) + module[size:]
    elif what == 4:
        changed = change(module[: spirv_words.HEADER_BYTES]) + module[spirv_words.HEADER_BYTES :]
    elif what == 5:
        changed = dice.randbytes(1 + below(dice, 7)) + module
    elif what == 6:
        changed = module[: below(dice, len(module) + 1)] + (b"", module)[below(dice, 2)]
    else:
        changed = module[:size] + change(module[size:] or bytes(8))
    return content[:start] + changed + content[end:]
