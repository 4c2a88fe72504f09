"""NVIDIA GPU code through nvdisasm, where it is installed (it comes with CUDA and with Triton's wheels). It is given
the bare instructions, never the module's own headers: branch targets come out as section offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from symd.errors import SymdError, ToolFailed, ToolMissing, Unsupported
from symd.model.code import CodeObject, Vendor
from symd.model.line_tables import Flow
from symd.query.disasm.disassembler import (
    DAMAGED_CODE,
    NOT_DECODED,
    Decoded,
    DecodeOutcome,
    DisassemblyBudget,
    InstructionBytes,
    lines_of,
)
from symd.system.installed import programs
from symd.system.process.run import INPUT, Ended, tool_error

NAME = "nvdisasm"
INSTALL = "install the CUDA toolkit, or pip install nvidia-cuda-nvdisasm"

_TARGET = re.compile(r"sm_([0-9]{2,3})([af]?)")
_LINE = re.compile(r"\s*(?:\{\s*)?/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*\}?\s*(?:/\*.*)?")
_OPERATION = re.compile(r"(?:@!?U?P[0-9T]+ +)?([A-Z][A-Z0-9]*)((?:\.[A-Z0-9_]+)*)")
_TARGET_NUMBER = re.compile(r" 0x([0-9a-f]+)$")
_FLOW = {
    **dict.fromkeys(("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU", "BRK", "CONT", "SYNC"), Flow.BRANCH),
    **dict.fromkeys(("CALL", "CAL", "JCAL"), Flow.CALL),
    **dict.fromkeys(("EXIT", "RET", "KILL"), Flow.END),
}
"""Kinds of control flow by the mnemonics of NVIDIA's CUDA Binary Utilities."""
_ADDRESS_IN_ERROR = re.compile(r"at address 0x([0-9a-f]+)")
_UNKNOWN_ARCHITECTURE = "is not defined for option 'binary'"
_LAST_TOOLKITS = ((75, None), (50, "12"), (35, "11"), (30, "10"), (20, "8"))
"""The first architecture of a line, and the last toolkit whose nvdisasm knows the line; None: the present ones."""
_CARRIED_IN = {"12": "triton==3.5.1"}
"""Toolkit to the package of PyPI that has its nvdisasm (12.8); Triton 3.9 has that of CUDA 13."""
_MAX_RUNS_PER_RANGE = 4
"""Runs of nvdisasm; before each further one more instructions are replaced, because it refuses a text for one of
them."""
_VOLTA = 70
_NOP = (0x7918).to_bytes(8, "little") + (0x000FC00000000000).to_bytes(8, "little")
"""NOP of Volta and later."""


def takes(code: CodeObject) -> bool:
    return code.vendor is Vendor.NVIDIA


def installed() -> bool:
    return bool(installed_programs())


def installed_programs() -> list[str]:
    """Every nvdisasm, the best first."""
    return programs("nvdisasm", _elsewhere())


def disassemble(ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
    """One run or a few for each range; its outcome where it can be decoded, else why not."""
    found = installed_programs()
    if not found:
        raise ToolMissing("nvdisasm, which disassembles NVIDIA code, is not installed", hint=INSTALL)
    budget.prepare()
    outcomes: list[DecodeOutcome] = []
    for each in ranges:
        try:
            outcomes.append(_decoded(each, found, budget))
        except SymdError as error:
            outcomes.append(error)
    return outcomes


def _elsewhere() -> list[str]:
    """CUDA's usual folder, NVIDIA's wheels, each with a folder below ``nvidia``, and the wheel of Triton."""
    folders = ["/usr/local/cuda/bin"]
    nvidia = find_spec("nvidia")
    for where in (nvidia.submodule_search_locations or ()) if nvidia is not None else ():
        folders += [str(program.parent) for program in sorted(Path(where).glob("*/bin/nvdisasm"))]
    wheel = find_spec("triton")
    if wheel is not None and wheel.submodule_search_locations:
        folders += [str(Path(where, "backends/nvidia/bin")) for where in wheel.submodule_search_locations]
    return folders


def _decoded(given: InstructionBytes, found: Sequence[str], budget: DisassemblyBudget) -> Decoded:
    architecture, width = _architecture(given.target)
    whole = len(given.data) // width * width
    for program in found:
        decoded = _run(program, architecture, width, given.offset, given.data[:whole], budget)
        if decoded is not None:
            _add_tail(decoded, given, whole)
            return decoded
    raise ToolMissing(f"no nvdisasm that is installed knows {given.target}", hint=_which_knows(architecture))


def instruction_bytes(number: int) -> int:
    """The bytes of one instruction of the architecture sm_NUMBER: 16 since Volta; 8 before, where every fourth word
    schedules the three behind it and is no instruction."""
    return 16 if number >= _VOLTA else 8


def _architecture(target: str | None) -> tuple[str, int]:
    """nvdisasm's name, and the bytes of one instruction."""
    hit = _TARGET.fullmatch(target or "")
    if not hit:
        raise Unsupported(f"symd cannot tell which NVIDIA architecture {target!r} is", hint="name it, such as sm_90")
    return f"SM{hit[1]}{hit[2]}", instruction_bytes(int(hit[1]))


def _which_knows(architecture: str) -> str:
    """Which program to install for an architecture that the installed ones do not know: each toolkit forgets old
    ones."""
    number = int(architecture.removeprefix("SM").rstrip("af"))
    last = next((toolkit for first, toolkit in _LAST_TOOLKITS if number >= first), None)
    if last is None:
        return f"{INSTALL}: the newest one"
    put = "put its nvdisasm into a folder of SYMD_TOOLS"
    carrier = _CARRIED_IN.get(last)
    return f"CUDA {last} is the last that knows it: {f'pip install {carrier}, or {put}' if carrier else put}"


def _run(
    program: str, architecture: str, width: int, base: int, text: bytes, budget: DisassemblyBudget
) -> Decoded | None:
    """The instructions of ``text``, which begins at section offset ``base``; None when the program does not know the
    architecture. What it cannot decode is replaced and shown as undecoded."""
    bad: set[int] = set()
    command = [program, "-b", architecture, "-base", f"{base:#x}", INPUT]
    for _ in range(_MAX_RUNS_PER_RANGE):
        code = _patched(text, bad, base, width)
        ended = budget.run(command, code)
        if ended.ending.status == 0:
            return _understood(ended, program, width, bad)
        if ended.ending.signal:
            raise tool_error(program, ended, DAMAGED_CODE)
        said = ended.printed + ended.answer.decode("utf-8", "replace")
        if _UNKNOWN_ARCHITECTURE in said:
            return None
        refused = {int(address, 16) // width * width for address in _ADDRESS_IN_ERROR.findall(said)}
        refused &= set(range(base, base + len(text), width))
        if width != len(_NOP) or refused <= bad:
            raise tool_error(program, ended)
        bad |= refused
    name = Path(program).name
    raise ToolFailed("it refuses the code again and again", where=name, metadata={"tool": name})


def _patched(text: bytes, bad: set[int], base: int, width: int) -> bytes:
    changed = bytearray(text)
    for offset in bad:
        changed[offset - base : offset - base + width] = _NOP
    return bytes(changed)


def _understood(ended: Ended, program: str, width: int, bad: set[int]) -> Decoded:
    decoded = Decoded(Path(program).name)
    for line in lines_of(ended.answer):
        hit = _LINE.fullmatch(line)
        if hit:
            offset = int(hit[1], 16)
            text = NOT_DECODED if offset in bad else hit[2]
            decoded.add(offset, width, text, *_flow(text))
    return decoded


def _flow(text: str) -> tuple[int, tuple[int, ...]]:
    """How an instruction leads elsewhere, and the section offset where to, which nvdisasm writes as the last number of
    a relative one."""
    hit = _OPERATION.match(text)
    flow = _FLOW.get(hit[1], 0) if hit else 0
    relative = hit and (hit[1] == "BRA" or ".REL" in hit[2] or hit[1] in ("CAL", "BRK", "CONT"))
    target = _TARGET_NUMBER.search(text) if relative and flow in (Flow.BRANCH, Flow.CALL) else None
    return flow, (int(target[1], 16),) if target else ()


def _add_tail(decoded: Decoded, given: InstructionBytes, whole: int) -> None:
    """Bytes that do not fill an instruction."""
    rest = len(given.data) - whole
    if rest:
        decoded.add(given.offset + whole, rest, NOT_DECODED)
