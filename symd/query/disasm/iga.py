"""Intel GPU code through IGA, the compiler's own disassembler library (libiga64). It is made for the compiler's output
and reads whatever it is given, so it runs in a child process: hostile code costs that process alone."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from symd.errors import SymdError, ToolFailed, ToolMissing, Unsupported
from symd.formats.containers.intel import product_core
from symd.model.code import CodeObject, Vendor
from symd.model.line_tables import Flow
from symd.query.disasm.disassembler import (
    DAMAGED_CODE,
    Decoded,
    DecodeOutcome,
    DisassemblyBudget,
    InstructionBytes,
    has_library,
    lines_of,
    senseless,
)
from symd.system.installed import chosen_folders
from symd.system.process.run import tool_error

NAME = "IGA"
LIBRARIES = ("libiga64.so.2", "libiga64.so.1")
"""The newer generation first: it knows everything that the older one does, and Xe2 and later besides."""
INSTALL = "apt-get install libigc2, or libigc1 on older systems"

GENERATIONS = {
    "gen9": 0x90000,
    "gen11": 0xB0000,
    "gen11lp": 0xB0000,
    "gen12lp": 0x1000000,
    "xe-hp": 0x1000001,
    "xe-hpg": 0x1000002,
    "xe-hpc": 0x1000004,
    "xe2": 0x2000000,
    "xe3": 0x3000000,
    "xe3p": 0x3000003,
}
"""iga_gen_t of iga.h by graphics core."""
_LABEL = re.compile(r"(?<![\w.])L([0-9]+)(?![\w.])")
_MNEMONIC = re.compile(r"\s*(?:\([^)]*\)\s*)?([a-z][a-z0-9]*)")
"""The mnemonic, after the predicate."""
_END_OF_THREAD = re.compile(r"\{[^}]*\bEOT\b")
_FLOW = {
    **dict.fromkeys(
        ("jmpi", "if", "else", "endif", "while", "break", "cont", "halt", "goto", "join", "brd", "brc"), Flow.BRANCH
    ),
    **dict.fromkeys(("call", "calla"), Flow.CALL),
    "ret": Flow.END,
}
_EXIT_NO_LIBRARY = 3
"""The child's exit status when it can load no library."""
IGA_UNSUPPORTED_PLATFORM = 10
"""iga_status_t of iga.h."""


def takes(code: CodeObject) -> bool:
    return code.vendor is Vendor.INTEL


def installed() -> bool:
    return any(has_library(name) for name in LIBRARIES)


def generation(target: str | None) -> int:
    """IGA's number for a product or graphics core. Raises Unsupported: with a wrong one it decodes nonsense."""
    core = product_core(target or "") or target
    number = GENERATIONS.get(core or "")
    if number is None:
        what = (
            f"does not know {target!r}" if target else "cannot tell which device the code is for: the file does not say"
        )
        raise Unsupported(f"symd {what}", hint="name the device, such as dg2")
    return number


def disassemble(ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    """All ranges in one child process; where the library crashes on one of them, the rest in another."""
    outcomes: list[DecodeOutcome] = []
    while len(outcomes) < len(ranges):
        outcomes += _first_outcomes(ranges[len(outcomes) :], budget)
    return outcomes


def _first_outcomes(ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    """Outcomes of the first of ``ranges``: of all of them, or up to the one that cannot be decoded."""
    try:
        first = generation(ranges[0].target)
    except SymdError as error:
        return [error]
    known = [(first, ranges[0])]
    for each in ranges[1:]:
        try:
            known.append((generation(each.target), each))
        except SymdError:
            break
    return _run(known, budget)


def _run(known: Sequence[tuple[int, InstructionBytes]], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    data = b"".join(struct.pack("<II", number, len(each.data)) + each.data for number, each in known)
    package = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("iga_child.py")), str(package), *libraries()]
    ended = budget.run(command, data, own_pipe=True)
    if ended.ending.status == _EXIT_NO_LIBRARY:
        raise ToolMissing("Intel's disassembler library, libiga64, is not installed", hint=INSTALL)
    try:
        outcomes = _understood(lines_of(ended.answer), [each for _, each in known])
    except ValueError as error:
        return [senseless("libiga64", error)] * len(known)
    if len(outcomes) == len(known):
        return outcomes
    return [*outcomes, tool_error("libiga64", ended, DAMAGED_CODE)]


def libraries() -> list[str]:
    """What the child tries to load: files in the folders of SYMD_TOOLS, then names that the loader finds."""
    chosen = [str(path) for folder in chosen_folders() for name in LIBRARIES if (path := Path(folder, name)).is_file()]
    return [*chosen, *LIBRARIES]


def _understood(lines: Iterable[str], ranges: Sequence[InstructionBytes]) -> list[DecodeOutcome]:
    """The outcomes that the child came to write whole. Raises ValueError for what the child, as it was written, writes
    never: the code that it was given may have taken it over."""
    outcomes: list[DecodeOutcome] = []
    current = Decoded("")
    for line in lines:
        first, _, rest = line.partition(" ")
        if len(outcomes) == len(ranges):
            raise ValueError("more texts than were asked about")
        if first == "=":
            current.by = f"IGA ({rest})"
            outcomes.append(current)
            current = Decoded("")
        elif first == "!":
            outcomes.append(_refusal(rest, ranges[len(outcomes)]))
            current = Decoded("")
        else:
            size, _, text = rest.partition(" ")
            given = ranges[len(outcomes)]
            if not 0 <= int(first) < int(first) + int(size) <= len(given.data):
                raise ValueError(f"an instruction of {size} bytes at {first}")
            text = _with_labels(text, given.offset)
            current.add(given.offset + int(first), int(size), text, *_flow(text))
    return outcomes


def _with_labels(text: str, start: int) -> str:
    """Labels are named by where they are in the text that the library was given: here they count from the section's
    start."""
    code, comment, rest = text.partition("//")
    return _LABEL.sub(lambda hit: f"L{int(hit[1]) + start}", code) + comment + rest if start else text


def _flow(text: str) -> tuple[int, tuple[int, ...]]:
    """How an instruction leads elsewhere, and the section offsets of its labels, which only such instructions have
    (IGA's OpSpec)."""
    code = text.partition("//")[0]
    hit = _MNEMONIC.match(code)
    flow = _FLOW.get(hit[1], 0) if hit else 0
    if flow in (Flow.BRANCH, Flow.CALL):
        return flow, tuple(dict.fromkeys(int(label) for label in _LABEL.findall(code)))
    return flow or (Flow.END if _END_OF_THREAD.search(code) else 0), ()


def _refusal(status: str, refused: InstructionBytes) -> SymdError:
    number, _, message = status.partition(" ")
    if int(number) == IGA_UNSUPPORTED_PLATFORM:
        return ToolMissing(
            f"the libiga64 that is installed does not know {refused.target}", hint="apt-get install libigc2"
        )
    said = message or f"status {number}"
    return ToolFailed(f"it refuses the code: {said}", where="libiga64", metadata={"tool": "libiga64"})
