"""SPIR-V through spirv-dis of the SPIRV-Tools. It takes whole modules only: the instructions of a range are those of
its lines that begin there."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from symd.errors import SymdError, ToolMissing
from symd.formats.spirv import Opcode, parse
from symd.model.code import CodeKind, CodeObject
from symd.model.line_tables import Flow
from symd.query.disasm.disassembler import (
    DAMAGED_CODE,
    Decoded,
    DecodeOutcome,
    DisassemblyBudget,
    InstructionBytes,
    lines_of,
)
from symd.system.installed import programs
from symd.system.process.run import INPUT, Ended, tool_error

NAME: Final = "SPIRV-Tools"
PROGRAM: Final = "spirv-dis"
INSTALL: Final = "apt-get install spirv-tools; for what DPC++ 2026 writes v2025.5 or newer, docs/listing.md says how"

NEWEST_LANGUAGE: Final = 6
"""The last source language that every spirv-dis in use knows: C++ for OpenCL."""
_PLACE: Final = re.compile(r"(%\S+) = Op(?:Label|Function) ?")
_FLOW: Final = {
    **dict.fromkeys(("OpBranch", "OpBranchConditional", "OpSwitch"), Flow.BRANCH),
    "OpFunctionCall": Flow.CALL,
    **dict.fromkeys(
        (
            "OpReturn",
            "OpReturnValue",
            "OpKill",
            "OpUnreachable",
            "OpTerminateInvocation",
            "OpIgnoreIntersectionKHR",
            "OpTerminateRayKHR",
            "OpEmitMeshTasksEXT",
            "OpAbortKHR",
        ),
        Flow.END,
    ),
}
"""The instructions that end a block (SPIR-V 2.16, Termination Instruction), and calls."""
_DAMAGED_OR_NEW: Final = f"{DAMAGED_CODE}, or newer than this {PROGRAM}: v2025.5 knows what DPC++ 2026 writes, docs/listing.md says how to install it"
"""Hint for a module that it refuses: each version knows the capabilities and instructions of its day."""
_LINE: Final = re.compile(r"(.*) ; 0x([0-9a-f]{8,})", re.DOTALL)
"""What ``--offsets`` writes behind each instruction: the byte of the module that it begins at."""


def takes(code: CodeObject) -> bool:
    return code.kind is CodeKind.SPIRV


def installed() -> bool:
    return bool(programs(PROGRAM))


def disassemble(ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    """One run for each code object."""
    found = programs(PROGRAM)
    if not found:
        raise ToolMissing("spirv-dis, which disassembles SPIR-V, is not installed", hint=INSTALL)
    budget.prepare()
    whole: dict[tuple[str, int], list[tuple[int, str]] | SymdError] = {}
    outcomes: list[DecodeOutcome] = []
    for each in ranges:
        key = each.code.path, each.section
        if key not in whole:
            whole[key] = _whole(each, found[0], budget)
        instructions = whole[key]
        if isinstance(instructions, SymdError):
            outcomes.append(instructions)
            continue
        outcomes.append(_within(each, instructions, found[0]))
    return outcomes


def _whole(given: InstructionBytes, program: str, budget: DisassemblyBudget) -> list[tuple[int, str]] | SymdError:
    """Every instruction of the module that a range belongs to, with the byte that it begins at."""
    (data,) = (section.data for section in given.code.sections if section.index == given.section)
    command = [program, "--offsets", "--no-color", "--no-indent", "--no-header", INPUT]
    try:
        ended = budget.run(command, _as_every_version_takes_it(data))
    except SymdError as error:
        return error
    if ended.ending.status:
        return tool_error(program, ended, _DAMAGED_OR_NEW)
    return _understood(ended)


def _as_every_version_takes_it(data: bytes) -> bytes:
    """The module with every instruction where it was: little-endian, because spirv-dis reads strings of the other order
    wrongly, and with source languages called unknown that an older one refuses the whole module for (Slang, Zig)."""
    module = parse(data)
    words = module.words[:]
    for number, operands in module.each(Opcode.Source):
        if operands and operands[0] > NEWEST_LANGUAGE:
            words[module.start[number] + 1] = 0
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def _understood(ended: Ended) -> list[tuple[int, str]]:
    """A string may hold line ends: what follows one belongs to the same instruction."""
    found, begun = [], ""
    for line in lines_of(ended.answer):
        begun = f"{begun} {line}" if begun else line
        hit = _LINE.fullmatch(begun)
        if hit:
            found.append((int(hit[2], 16), hit[1]))
            begun = ""
    return found


def _within(given: InstructionBytes, instructions: Sequence[tuple[int, str]], program: str) -> Decoded:
    decoded = Decoded(program.rpartition("/")[2])
    ends = [*(offset for offset, _ in instructions[1:]), given.end]
    places = {hit[1]: offset for offset, text in instructions if (hit := _PLACE.match(text))}
    for (offset, text), end in zip(instructions, ends, strict=False):  # of no instructions there is an end
        if given.offset <= offset < given.end:
            decoded.add(offset, min(end, given.end) - offset, text, *_flow(text, places))
    return decoded


def _flow(text: str, places: Mapping[str, int]) -> tuple[int, tuple[int, ...]]:
    """How an instruction leads elsewhere, and the bytes of the module at which the labels and functions that it names
    begin."""
    words = text.split()
    operation = words[2] if words[1:2] == ["="] else words[0]
    flow = _FLOW.get(operation, 0)
    named = (word for word in words if word in places) if flow in (Flow.BRANCH, Flow.CALL) else ()
    return flow, tuple(dict.fromkeys(places[word] for word in named))
