"""AMD GPU code through llvm-objdump, any version that knows the processor. It is given the bare instructions in an ELF
image made here, never the module's own headers, symbols or relocations.

Source: LLVM's AMDGPU usage guide; the layout of the output (text, then ``// ADDRESS: WORDS <TARGET>``) is that of the
versions 14, 19 and 22."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from symd.errors import ToolMissing, Unsupported
from symd.formats.elf import Header
from symd.formats.elf.constants import (
    ELFABIVERSION_AMDGPU_HSA_V2,
    ELFOSABI_AMDGPU_HSA,
    EM_AMDGPU,
    ET_REL,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_PROGBITS,
)
from symd.formats.elf.writer import SECTION_NAMES, OutputSection, image_of
from symd.model.code import CodeObject, Vendor
from symd.model.line_tables import Flow
from symd.query.disasm.disassembler import (
    DAMAGED_CODE,
    Decoded,
    DecodeOutcome,
    DisassemblyBudget,
    InstructionBytes,
    lines_of,
    senseless,
)
from symd.system.installed import programs
from symd.system.process.run import INPUT, Ended, tool_error

NAME = "LLVM"
PROGRAM = "llvm-objdump"
INSTALL = "apt-get install llvm, or a newer one such as llvm-19"
ROCM = ("/opt/rocm/llvm/bin",)

RANGES_PER_RUN = 5000
"""Each is a section of the image that llvm-objdump is given."""
_SECTION_NUMBER_SHIFT = 32
"""Each text section gets addresses of its own: its number in the bits from here on, the section offset below."""
_UNKNOWN_PROCESSOR = ("is not a recognized processor", "unable to get target", "Disassembly not yet supported")
_LINE = re.compile(r"\t(?P<text>.*?)\s*// (?P<address>[0-9A-F]{12,16}): (?P<words>[0-9A-F]+(?: [0-9A-F]+)*)")
_FLOW = {
    "s_branch": Flow.BRANCH,
    "s_cbranch_": Flow.BRANCH,
    "s_subvector_loop_": Flow.BRANCH,
    "s_setpc_b64": Flow.BRANCH,
    "s_call_b64": Flow.CALL,
    "s_swappc_b64": Flow.CALL,
    "s_endpgm": Flow.END,
    "s_rfe_": Flow.END,
}
"""What mnemonics begin with; that a branch to a register returns is a convention, which no encoding says."""
_COMPUTED = ("s_setpc_b64", "s_swappc_b64", "s_cbranch_g_fork", "s_cbranch_join", "s_endpgm", "s_rfe_")
"""The mnemonics of ``_FLOW`` without a target of their own."""
_WAVE_CHOICE = re.compile(r"gfx1[0-9]")
"""Processors whose kernels choose between 32 and 64 lanes."""


def takes(code: CodeObject) -> bool:
    return code.vendor is Vendor.AMD


def installed() -> bool:
    return bool(installed_programs())


def installed_programs() -> list[str]:
    """Every llvm-objdump, the best first."""
    return programs(PROGRAM, ROCM)


def disassemble(ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    """Ranges of one processor and wave size go through one run."""
    found = installed_programs()
    if not found:
        raise ToolMissing("llvm-objdump, which disassembles AMD code, is not installed", hint=INSTALL)
    budget.prepare()
    outcomes: dict[int, DecodeOutcome] = {}
    for options, numbers in _groups(ranges).items():
        for start in range(0, len(numbers), RANGES_PER_RUN):
            some = numbers[start : start + RANGES_PER_RUN]
            results = _outcomes(options, [ranges[number] for number in some], found, budget)
            outcomes |= dict(zip(some, results, strict=True))
    return [outcomes[number] for number in range(len(ranges))]


def _groups(ranges: Sequence[InstructionBytes]) -> dict[tuple[str, ...], list[int]]:
    """Numbers of ranges by the options that their code needs; no options where the target is unknown."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, each in enumerate(ranges):
        groups.setdefault(options(each), []).append(number)
    return groups


def options(of: InstructionBytes) -> tuple[str, ...]:
    """The processor and features of a target such as ``gfx90a:sramecc+:xnack-``, and the kernel's wave size where the
    processor leaves the choice."""
    if not of.target:
        return ()
    cpu, *features = of.target.split(":")
    chosen = [feature[-1] + feature[:-1] for feature in features if feature.endswith(("+", "-"))]
    if _WAVE_CHOICE.match(cpu) and _lanes(of) == 64:
        chosen += ["-wavefrontsize32", "+wavefrontsize64"]
    return (f"--mcpu={cpu}", *([f"--mattr={','.join(chosen)}"] if chosen else []))


def _lanes(of: InstructionBytes) -> int | None:
    """The wave size of the kernels in the range, or that which all kernels of the object share."""
    own = {
        kernel.facts.get("simd_width")
        for kernel in of.code.kernels
        if kernel.section_index == of.section and kernel.offset < of.end and of.offset < kernel.offset + kernel.size
    }
    sizes = own or {kernel.facts.get("simd_width") for kernel in of.code.kernels}
    return sizes.pop() if len(sizes) == 1 else None


def _outcomes(
    options: tuple[str, ...], ranges: Sequence[InstructionBytes], found: Sequence[str], budget: DisassemblyBudget
) -> Sequence[DecodeOutcome]:
    if not options:
        unknown = Unsupported("the file does not say which processor the code is for", hint="name it, such as gfx90a")
        return [unknown] * len(ranges)
    image = _image(ranges)
    for program in found:
        command = [program, "-d", "-z", "--triple=amdgcn-amd-amdhsa", *options, INPUT]
        ended = budget.run(command, image)
        if any(words in ended.printed for words in _UNKNOWN_PROCESSOR):
            continue
        if ended.ending.status:
            return [tool_error(program, ended, DAMAGED_CODE)] * len(ranges)
        try:
            return _understood(ended, ranges, program)
        except (ValueError, IndexError):
            return [senseless(program, "it tells of code that it was not given")] * len(ranges)
    cpu = options[0].removeprefix("--mcpu=")
    return [ToolMissing(f"no llvm-objdump that is installed knows {cpu}", hint=INSTALL)] * len(ranges)


def _bases(ranges: Iterable[InstructionBytes]) -> list[int]:
    """For each range what is added to its section's offsets: ranges of one text section share its number."""
    numbers: dict[tuple[str, int], int] = {}
    keys = [(each.code.path, each.section) for each in ranges]
    return [numbers.setdefault(key, len(numbers)) << _SECTION_NUMBER_SHIFT for key in keys]


def _understood(ended: Ended, ranges: Sequence[InstructionBytes], program: str) -> list[DecodeOutcome]:
    bases = _bases(ranges)
    results = [Decoded(program.rpartition("/")[2]) for _ in ranges]
    current = -1
    for line in lines_of(ended.answer):
        if line.startswith("Disassembly of section .text."):
            current = int(line.rstrip(":").rpartition(".")[2])
            continue
        hit = _LINE.match(line)
        if hit and current >= 0:
            offset = int(hit["address"], 16) - bases[current]
            size = sum(len(word) // 2 for word in hit["words"].split())
            text = hit["text"].strip()
            flow, targets = _flow(text, offset, size, hit["words"])
            results[current].add(offset, size, f"{text} <{targets[0]:#x}>" if targets else text, flow, targets)
    return list(results)


def _flow(text: str, offset: int, size: int, words: str) -> tuple[int, tuple[int, ...]]:
    """How an instruction leads elsewhere, and the section offset where to: those of the formats SOPP and SOPK have it
    in the low 16 bits of their first word, in words from their end (LLVM's SOPInstructions.td)."""
    mnemonic = text.partition(" ")[0]
    if not mnemonic.startswith("s_"):
        return 0, ()
    flow = _flow_of(mnemonic)
    if not flow or mnemonic.startswith(_COMPUTED):
        return flow, ()
    low = int(words.partition(" ")[0], 16) & 0xFFFF
    target = offset + 4 + 4 * (low - ((low & 0x8000) << 1))
    return flow, (target,) if size == 4 and target >= 0 else ()


@lru_cache(1024)
def _flow_of(mnemonic: str) -> int:
    return next((each for prefix, each in _FLOW.items() if mnemonic.startswith(prefix)), 0)


def _image(ranges: Sequence[InstructionBytes]) -> bytes:
    """A relocatable AMDGPU image of code object version 4 whose section ``.text.N`` holds range N and is at its
    offset."""
    header = Header(64, ELFOSABI_AMDGPU_HSA, ELFABIVERSION_AMDGPU_HSA_V2 + 2, ET_REL, EM_AMDGPU)
    texts = [
        OutputSection(
            *(f".text.{number}", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, base + each.offset),
            *(len(each.data), each.data),
            align=4,
        )
        for number, (each, base) in enumerate(zip(ranges, _bases(ranges), strict=True))
    ]
    return image_of(header, [*texts, SECTION_NAMES])
