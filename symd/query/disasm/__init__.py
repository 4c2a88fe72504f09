"""Disassemblers that may be installed: each is optional at run time, and each is one module and one line in the
table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import SymdError, ToolFailed, Unsupported
from symd.model.code import CodeObject
from symd.model.line_tables import CodeSpan, Instructions
from symd.query.disasm import iga, llvm, nvidia, spirv
from symd.query.disasm.disassembler import (
    Decoded,
    DecodeOutcome,
    Disassembler,
    DisassemblyBudget,
    InstructionBytes,
    code_ranges,
    senseless,
)
from symd.system.process.fork_server import ForkServer

__all__ = ("DISASSEMBLERS", "disassemble")

DISASSEMBLERS: tuple[Disassembler, ...] = (iga, llvm, nvidia, spirv)


def disassemble(
    codes: Sequence[CodeObject],
    spans: Sequence[CodeSpan] | None = None,
    limits: Limits | None = None,
    *,
    fork_server: ForkServer | None = None,
) -> list[Instructions | SymdError]:
    """The instructions of each code object, or those of the ranges of code that ``spans`` reach into, each range whole;
    in place of them the error that says why there are none: ToolMissing, Unsupported, NotFound, DeadlineExceeded,
    LimitExceeded, ToolFailed, ToolCrashed.

    A code object without a target is refused: no disassembler notices that it reads for the wrong device. Every byte
    that symbols call code is in exactly one instruction; what a disassembler cannot decode is shown as such. Programs
    are started by ``fork_server``, or by one that lives as long as this call, and ended where nobody waits any more.
    """
    with ExitStack() as stack:
        fork_server = fork_server or stack.enter_context(ForkServer())
        budget = DisassemblyBudget(limits or DEFAULT_LIMITS, fork_server, of_part=spans is not None)
        return _disassemble_each(codes, spans, budget)


def _disassemble_each(
    codes: Sequence[CodeObject], spans: Sequence[CodeSpan] | None, budget: DisassemblyBudget
) -> list[Instructions | SymdError]:
    results: dict[int, Instructions | SymdError] = {}
    for disassembler in DISASSEMBLERS:
        own = {number: code for number, code in enumerate(codes) if disassembler.takes(code)}
        results |= dict(zip(own, _disassemble_with(disassembler, list(own.values()), spans, budget), strict=True))
    return [results[number] if number in results else _no_disassembler(code) for number, code in enumerate(codes)]


def _no_disassembler(code: CodeObject) -> SymdError:
    return Unsupported(f"{code.format} holds no machine code that symd disassembles", where=code.path)


def _disassemble_with(
    disassembler: Disassembler, codes: Sequence[CodeObject], spans: Sequence[CodeSpan] | None, budget: DisassemblyBudget
) -> list[Instructions | SymdError]:
    """The instructions of each code object by one disassembler, which gets all ranges together."""
    ranges: list[list[InstructionBytes] | SymdError] = [_ranges(code, spans) for code in codes]
    together = [each for own in ranges if not isinstance(own, SymdError) for each in own]
    try:
        outcomes = iter(disassembler.disassemble(together, budget) if together else [])
    except SymdError as error:
        return [error if not isinstance(own, SymdError) else own for own in ranges]
    return [
        own if isinstance(own, SymdError) else _instructions(disassembler.NAME, own, [next(outcomes) for _ in own])
        for own in ranges
    ]


def _ranges(code: CodeObject, spans: Sequence[CodeSpan] | None) -> list[InstructionBytes] | SymdError:
    try:
        return code_ranges(code, spans)
    except SymdError as error:
        return error


def _instructions(
    name: str, ranges: Sequence[InstructionBytes], outcomes: Sequence[DecodeOutcome]
) -> Instructions | SymdError:
    """The instructions of one code object; an error of one of its ranges is its error."""
    done: list[Decoded] = []
    for each, outcome in zip(ranges, outcomes, strict=True):
        if isinstance(outcome, SymdError):
            return outcome
        if not outcome.offset and each.data:
            return ToolFailed("it gave no instructions for the code", where=outcome.by, metadata={"tool": outcome.by})
        if not all(
            each.offset <= at < at + size <= each.end for at, size in zip(outcome.offset, outcome.size, strict=True)
        ):
            return senseless(outcome.by, "instructions outside of the code")
        done.append(outcome)
    counts = [len(decoded.offset) for decoded in done]
    return Instructions(
        section=np.repeat(np.array([each.section for each in ranges], np.uint32), counts),
        offset=np.array([offset for decoded in done for offset in decoded.offset], np.uint64),
        size=np.array([size for decoded in done for size in decoded.size], np.uint32),
        text=[text for decoded in done for text in decoded.text],
        disassembler=done[0].by if done else name,
        code=[
            bytes(each.data[at - each.offset : at - each.offset + size])
            for each, decoded in zip(ranges, done, strict=True)
            for at, size in zip(decoded.offset, decoded.size, strict=True)
        ],
        flow=[flow for decoded in done for flow in decoded.flow],
        targets=[targets for decoded in done for targets in decoded.targets],
    )
