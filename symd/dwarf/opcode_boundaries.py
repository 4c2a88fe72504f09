"""Finds where every instruction of a line program begins, without interpreting it.

Almost every instruction is one byte, or one byte and one LEB128. Over such bytes the two states "opcode comes" and
"operand comes" change in three ways: a byte from 0x80 leaves the state as it is (a special opcode, or an operand that
goes on); an opcode with an operand swaps the states (as an operand's last byte it ends it); every other byte leads to
"opcode comes". So the state at a byte is the parity of the swaps since the last other byte, for all bytes at once.
The few irregular instructions (extended ones, fixed_advance_pc) are then walked one after the other, and where one
of them ends in the wrong state the bytes up to the next "other" byte are turned round.

An example of eight bytes, after an opcode that ended. O: opcode comes, P: operand comes::

    byte            05   8a   01    03   05   4b    02   01
    as an opcode    swap keep other swap swap other swap other
    state after     P    P    O     P    O    O     P    O
    begins here     x               x         x     x

They are set_column 138, advance_line 5, the special opcode 0x4b, and advance_pc 1. Nobody has asked which 05 is an
opcode and which an operand: after the second one two swaps have passed since the last "other" byte, so an opcode comes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.bulk_read import Positions, spans, uleb_at
from symd.dwarf.constants import Lns
from symd.dwarf.line_header import EXTENDED_OPCODE, ProgramParameters
from symd.model.columns import U8

SENTINEL = int(Lns.DW_LNS_copy)
"""The byte put after every program: as an opcode it takes no operand, as an operand it ends it."""
_STANDARD_OPERANDS: dict[int, int] = {
    Lns.DW_LNS_copy: 0,
    Lns.DW_LNS_advance_pc: 1,
    Lns.DW_LNS_advance_line: 1,
    Lns.DW_LNS_set_file: 1,
    Lns.DW_LNS_set_column: 1,
    Lns.DW_LNS_negate_stmt: 0,
    Lns.DW_LNS_set_basic_block: 0,
    Lns.DW_LNS_const_add_pc: 0,
    Lns.DW_LNS_set_prologue_end: 0,
    Lns.DW_LNS_set_epilogue_begin: 0,
    Lns.DW_LNS_set_isa: 1,
}
"""LEB128 operands of the standard opcodes; DW_LNS_fixed_advance_pc alone has one of another kind."""
_FIXED_ADVANCE_PC = int(Lns.DW_LNS_fixed_advance_pc)
Mask = NDArray[np.bool_]
Runs = tuple[tuple[np.uint8, np.uint8], ...]


def operand_count(parameters: ProgramParameters, opcode: int) -> int:
    """LEB128 operands of a standard opcode; those of an unknown one are what the header says."""
    return _STANDARD_OPERANDS.get(opcode, parameters.operand_counts[opcode - 1])


class Instructions(NamedTuple):
    """``starts`` marks the bytes at which instructions begin, the sentinels among them; ``extended`` holds the
    positions of the extended ones, ``payload`` where their own opcode is and ``end`` where they end; ``malformed``
    positions where an instruction does not end inside its program."""

    starts: Mask
    extended: Positions
    payload: Positions
    end: Positions
    malformed: Positions


class _Irregular(NamedTuple):
    """Candidates for irregular instructions: position, position after the length or opcode, end, and whether it
    would pass the end of its program."""

    at: Positions
    payload: Positions
    end: Positions
    malformed: Mask


@lru_cache(maxsize=16)
def _classes(counts: tuple[int, ...]) -> tuple[Runs, Runs]:
    """Opcodes that swap the states, and those that begin irregular instructions, as runs.

    ``counts`` are the operand counts of the standard opcodes 1, 2, ...; all of them are below 0x80.
    """
    irregular = [opcode for opcode, count in enumerate(counts, 1) if opcode == _FIXED_ADVANCE_PC or count > 1]
    swap = [opcode for opcode, count in enumerate(counts, 1) if count == 1 and opcode not in irregular]
    return _runs(swap), _runs([EXTENDED_OPCODE, *irregular])


def _runs(opcodes: list[int]) -> Runs:
    """Ascending numbers as (first, how many more) of every run."""
    first = [opcode for opcode in opcodes if opcode - 1 not in opcodes]
    last = [opcode for opcode in opcodes if opcode + 1 not in opcodes]
    return tuple((np.uint8(a), np.uint8(b - a)) for a, b in zip(first, last, strict=True))


def _among(code: U8, runs: Runs) -> Mask:
    """Which bytes are in one of the runs: comparisons cost a tenth of a look-up."""
    found = np.zeros(len(code), np.bool_)
    for first, more in runs:
        found |= code - first <= more
    return found


def _states(swap: Mask, keep: Mask) -> Mask:
    """The state after every byte: whether an operand comes.

    A byte's effect is "swap if ``swap``, then forget what was before unless ``keep``"; effects are joined over
    stretches of 1, 2, 4, ... bytes until every stretch has a byte that forgets.
    """
    state, width = swap, 1
    while keep.any():
        after = state.copy()
        after[width:] ^= state[:-width] & keep[width:]
        reach = keep.copy()
        reach[width:] &= keep[:-width]
        reach[:width] = False
        state, keep = after, reach
        width *= 2
    return state


def find(code: bytes, parameters: ProgramParameters, stops: Positions) -> Instructions:
    """The instructions of programs that lie one after the other, each with a SENTINEL after it (at ``stops``)."""
    u8 = np.frombuffer(code, np.uint8)
    swapping, beginning = _classes(
        tuple(operand_count(parameters, opcode) for opcode in range(1, parameters.opcode_base))
    )
    swap, irregular = _among(u8, swapping), _among(u8, beginning)
    keep = swap | (u8 >= 0x80)
    states = _states(swap, keep)
    starts = np.empty(len(states), np.bool_)
    starts[0] = True
    np.logical_not(states[:-1], out=starts[1:])
    candidates = _irregular(u8, parameters, np.flatnonzero(irregular & starts), stops)
    if states[candidates.end - 1].any():
        candidates = _irregular(u8, parameters, np.flatnonzero(irregular), stops)
    true = _walk(states, keep, candidates)
    at, end = candidates.at[true], candidates.end[true]
    states = _mend(states, keep, end)
    np.logical_not(states[:-1], out=starts[1:])
    starts[_spans(at + 1, end)] = False
    starts[stops] = True
    malformed = np.concatenate([at[candidates.malformed[true]], stops[states[stops - 1]]])
    extended = u8[at] == EXTENDED_OPCODE
    return Instructions(starts, at[extended], candidates.payload[true][extended], end[extended], malformed)


def _irregular(code: U8, parameters: ProgramParameters, at: Positions, stops: Positions) -> _Irregular:
    """Where each candidate would end, were it an instruction."""
    limit = stops[np.searchsorted(stops, at)] if at.size else at
    opcode = code[at]
    payload = at + 1
    end = at + 3
    extended = np.flatnonzero(opcode == EXTENDED_OPCODE)
    length, payload[extended] = uleb_at(code, at[extended] + 1)
    room = np.maximum(limit[extended] - payload[extended], 0)
    fits = (length >= 1) & (length <= room.astype(np.uint64))
    end[extended] = payload[extended] + np.where(fits, length, 0).astype(np.int64)
    malformed = end > limit
    malformed[extended] |= ~fits
    unknown = np.flatnonzero((opcode != EXTENDED_OPCODE) & (opcode != _FIXED_ADVANCE_PC))
    if unknown.size:
        end[unknown] = _after_operands(code, parameters, at[unknown])
    malformed |= end > limit
    return _Irregular(at, payload, np.where(malformed, limit, end), malformed)


def _after_operands(code: U8, parameters: ProgramParameters, at: Positions) -> Positions:
    """The position after the LEB128 operands of standard opcodes, or past the end of ``code``."""
    counts = np.array([0] + [operand_count(parameters, opcode) for opcode in range(1, parameters.opcode_base)])
    last_bytes = np.append(np.flatnonzero(code < 0x80), len(code))
    number = np.searchsorted(last_bytes, at + 1) + counts[code[at]] - 1
    after: Positions = last_bytes[np.minimum(number, len(last_bytes) - 1)] + 1
    return after


def _walk(states: Mask, keep: Mask, candidates: _Irregular) -> NDArray[np.intp]:
    """Which candidates are instructions: from one to the next that begins where an opcode is expected.

    They may leave out those that begin where an operand is, unless one of the others ends where an operand seems to
    come.
    """
    at, end = candidates.at, candidates.end
    before = states[at - 1]
    before[at == 0] = False
    free = np.flatnonzero(~before)
    follow = np.append(free, len(at))
    step = follow[np.searchsorted(at[free], end)]
    turned = np.flatnonzero(states[end - 1])
    if turned.size:
        settled = _settled(keep, end[turned])
        number = np.minimum(np.searchsorted(at, settled), len(at) - 1)
        hidden = (at[number] == settled) & before[number]
        step[turned] = np.where(hidden, number, follow[np.searchsorted(at[free], settled, side="right")])
    steps = step.tolist()
    found = []
    here = int(follow[0])
    while here < len(steps):
        found.append(here)
        here = steps[here]
    return np.array(found, np.intp)


def _settled(keep: Mask, at: Positions) -> Positions:
    """The first byte from each position on that leads to "opcode comes" whatever was before."""
    settling = np.flatnonzero(~keep)
    return settling[np.searchsorted(settling, at)]


def _mend(states: Mask, keep: Mask, end: Positions) -> Mask:
    """The states, turned round between an irregular instruction that seemed to end inside an operand and the next
    byte that settles them."""
    turned = end[states[end - 1]]
    if turned.size:
        states = states.copy()
        states[_spans(turned - 1, _settled(keep, turned))] ^= True
    return states


def _spans(first: Positions, last: Positions) -> Positions:
    """Every number of the half-open spans, one span after the other."""
    return spans(first, np.maximum(last - first, 0))[0]
