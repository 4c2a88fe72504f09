"""AMD GPU code through llvm-objdump, any version that knows the processor. It is given the bare instructions in an ELF
image made here, never the module's own headers, symbols or relocations.

Source: LLVM's AMDGPU usage guide; the layout of the output (text, then ``// ADDRESS: WORDS <TARGET>``) is that of the
versions 14, 19 and 22."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence

from symd.disasm import process
from symd.disasm.process import Ran
from symd.disasm.task import Clock, Decoded, Outcome, Task
from symd.disasm.tools import programs
from symd.errors import ToolMissing, Unsupported
from symd.model.code import CodeObject, Vendor

NAME = "LLVM"
PROGRAM = "llvm-objdump"
INSTALL = "apt-get install llvm, or a newer one such as llvm-19"
ROCM = ("/opt/rocm/llvm/bin",)

SECTIONS = 5000
"""Spans of one run."""
_SPACE_BITS = 32
"""Each text section gets addresses of its own: a number in the bits from here on."""
_UNKNOWN = ("is not a recognized processor", "unable to get target", "Disassembly not yet supported")
_LINE = re.compile(
    r"\t(?P<text>.*?)\s*// (?P<address>[0-9A-F]{12,16}): (?P<words>[0-9A-F]+(?: [0-9A-F]+)*)"
    r"(?: <\.text\.(?P<label>[0-9]+)(?:\+0x(?P<delta>[0-9a-f]+))?>)?"
)
_WAVE_CHOICE = re.compile(r"gfx1[0-9]")
"""Processors whose kernels choose between 32 and 64 lanes."""


def takes(code: CodeObject) -> bool:
    return code.vendor is Vendor.AMD


def disassemble(tasks: Sequence[Task], clock: Clock) -> list[Outcome]:
    """Spans of one processor and wave size go through one run."""
    found = programs(PROGRAM, ROCM)
    if not found:
        raise ToolMissing("llvm-objdump, which disassembles AMD code, is not installed", hint=INSTALL)
    outcomes: dict[int, Outcome] = {}
    for options, numbers in _groups(tasks).items():
        for start in range(0, len(numbers), SECTIONS):
            some = numbers[start : start + SECTIONS]
            results = _outcomes(options, [tasks[number] for number in some], found, clock)
            outcomes |= dict(zip(some, results, strict=True))
    return [outcomes[number] for number in range(len(tasks))]


def _groups(tasks: Sequence[Task]) -> dict[tuple[str, ...], list[int]]:
    """Task numbers by the options that their code needs; no options where the target is unknown."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(options(task), []).append(number)
    return groups


def options(task: Task) -> tuple[str, ...]:
    """The processor and features of a target such as ``gfx90a:sramecc+:xnack-``, and the kernel's wave size where the
    processor leaves the choice."""
    if not task.target:
        return ()
    cpu, *features = task.target.split(":")
    chosen = [feature[-1] + feature[:-1] for feature in features if feature.endswith(("+", "-"))]
    if _WAVE_CHOICE.match(cpu) and _lanes(task) == 64:
        chosen += ["-wavefrontsize32", "+wavefrontsize64"]
    return (f"--mcpu={cpu}", *([f"--mattr={','.join(chosen)}"] if chosen else []))


def _lanes(task: Task) -> int | None:
    """The wave size of the kernel at the span, or that which all kernels of the object share."""
    at = task.span
    own = {
        kernel.facts.get("simd_width")
        for kernel in task.code.kernels
        if kernel.section_index == at.section and kernel.offset < at.end and at.offset < kernel.offset + kernel.size
    }
    sizes = own or {kernel.facts.get("simd_width") for kernel in task.code.kernels}
    return sizes.pop() if len(sizes) == 1 else None


def _outcomes(options: tuple[str, ...], tasks: Sequence[Task], found: Sequence[str], clock: Clock) -> Sequence[Outcome]:
    if not options:
        unknown = Unsupported("the file does not say which processor the code is for", hint="name it, such as gfx90a")
        return [unknown] * len(tasks)
    image = _image(tasks)
    for program in found:
        command = [program, "-d", "-z", "--triple=amdgcn-amd-amdhsa", *options, process.INPUT]
        ran = process.run(command, image, clock.allowance())
        if any(words in ran.err for words in _UNKNOWN):
            continue
        if ran.status:
            failure = process.crashed if ran.status < 0 else process.failed
            return [failure(program, ran)] * len(tasks)
        return _understood(ran, tasks, program)
    cpu = options[0].removeprefix("--mcpu=")
    return [ToolMissing(f"no llvm-objdump that is installed knows {cpu}", hint=INSTALL)] * len(tasks)


def _bases(tasks: Iterable[Task]) -> list[int]:
    """For each task what is added to its section's offsets: tasks of one text section share an address space."""
    spaces: dict[tuple[str, int], int] = {}
    keys = [(task.code.path, task.span.section) for task in tasks]
    return [spaces.setdefault(key, len(spaces)) << _SPACE_BITS for key in keys]


def _understood(ran: Ran, tasks: Sequence[Task], program: str) -> list[Outcome]:
    bases = _bases(tasks)
    results = [Decoded(program.rpartition("/")[2]) for _ in tasks]
    current = -1
    for line in ran.out.decode("utf-8", "replace").splitlines():
        if line.startswith("Disassembly of section .text."):
            current = int(line.rstrip(":").rpartition(".")[2])
            continue
        hit = _LINE.match(line)
        if hit and current >= 0:
            offset = int(hit["address"], 16) - bases[current]
            size = sum(len(word) // 2 for word in hit["words"].split())
            results[current].add(offset, size, _text(hit, tasks))
    return list(results)


def _text(hit: re.Match[str], tasks: Sequence[Task]) -> str:
    """The instruction, with the section offset that it jumps to."""
    text = hit["text"].strip()
    if hit["label"] is None:
        return text
    return f"{text} <{tasks[int(hit['label'])].span.offset + int(hit['delta'] or '0', 16):#x}>"


def _image(tasks: Sequence[Task]) -> bytes:
    """A relocatable AMDGPU image whose section ``.text.N`` holds task N and stands at its offset."""
    names, body, heads = bytearray(b"\0"), bytearray(64), [bytes(64)]
    for number, (task, base) in enumerate(zip(tasks, _bases(tasks), strict=True)):
        span = task.span
        body += bytes(-len(body) % 4)
        heads.append(_section(len(names), 1, 0x6, base + span.offset, len(body), len(span.data), 4))
        names += f".text.{number}\0".encode()
        body += span.data
    name = len(names)
    names += b".shstrtab\0"
    heads.append(_section(name, 3, 0, 0, len(body), len(names), 1))
    body += names
    body += bytes(-len(body) % 8)
    body[:64] = _header(len(body), len(heads))
    return b"".join([bytes(body), *heads])


def _section(name: int, kind: int, flags: int, address: int, at: int, size: int, align: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, address, at, size, 0, 0, align, 0)


def _header(table: int, count: int) -> bytes:
    """ET_REL, EM_AMDGPU, ELFOSABI_AMDGPU_HSA, code object version 4."""
    identification = b"\x7fELF" + bytes([2, 1, 1, 64, 2]) + bytes(7)
    return identification + struct.pack("<HHIQQQIHHHHHH", 1, 224, 1, 0, 0, table, 0, 64, 0, 0, 64, count, count - 1)
