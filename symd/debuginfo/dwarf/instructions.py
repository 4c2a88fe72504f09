"""Finds where every instruction of a line program begins, without interpreting it.

Almost every instruction is one byte, or one byte and one LEB128. Over such bytes the two states "opcode comes" and
"operand comes" change in three ways: a byte from 0x80 leaves the state as it is (a special opcode, or an operand that
goes on); an opcode with an operand swaps the states (as an operand's last byte it ends it); every other byte leads to
"opcode comes". So the state at a byte is the parity of the swaps since the last other byte, for all bytes at once.
The few irregular instructions (extended ones, fixed_advance_pc) are then walked one after the other, and where one
of them ends in the wrong state the bytes up to the next "other" byte are turned round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.gather import Positions, uleb_at
from symd.debuginfo.dwarf.line_header import ProgramShape
from symd.model import U8

SENTINEL = 0x01
"""The byte put behind every program: as an opcode it is ``copy``, as an operand it ends it."""

_STANDARD_OPERANDS = {1: 0, 2: 1, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 0, 10: 0, 11: 0, 12: 1}
FIXED_ADVANCE_PC = 9


def operand_count(shape: ProgramShape, opcode: int) -> int:
    """LEB128 operands of a standard opcode; those of an unknown one are what the header says."""
    return _STANDARD_OPERANDS.get(opcode, shape.operand_counts[opcode - 1])


@dataclass(frozen=True, slots=True)
class Instructions:
    """``starts`` is a mask over the bytes (1 where an instruction begins); ``extended`` the positions of extended
    instructions in order, ``payload`` where their own opcode is and ``end`` where they end; ``sick`` positions where
    an instruction does not end inside its program."""

    starts: U8
    extended: Positions
    payload: Positions
    end: Positions
    sick: Positions


@dataclass(frozen=True, slots=True)
class _Irregular:
    """Candidates for irregular instructions: position, position behind the length or opcode, end, and whether it
    would pass the end of its program."""

    at: Positions
    payload: Positions
    end: Positions
    sick: NDArray[np.bool_]


def _classes(shape: ProgramShape) -> tuple[U8, U8, U8]:
    """Tables of 256: which bytes swap the states, which lead to "opcode comes", which begin irregular instructions."""
    swap, reset, irregular = np.zeros(256, np.uint8), np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    reset[:0x80] = 1
    irregular[0] = 1
    for opcode in range(1, shape.opcode_base):
        if opcode == FIXED_ADVANCE_PC or operand_count(shape, opcode) > 1:
            irregular[opcode] = 1
        elif operand_count(shape, opcode) == 1:
            swap[opcode], reset[opcode] = 1, 0
    return swap, reset, irregular


def _states(swap: U8, reset_at: Positions) -> U8:
    """The state behind every byte: 1 where an operand comes."""
    parity = np.cumsum(swap, dtype=np.uint8)
    parity &= 1
    if reset_at.size:
        base = np.repeat(parity[reset_at], np.diff(reset_at, append=len(swap)))
        parity[reset_at[0] :] ^= base
    return parity


def find(code: U8, shape: ProgramShape, stops: Positions) -> Instructions:
    """The instructions of programs that lie one behind the other, each with a SENTINEL behind it (at ``stops``)."""
    swap, reset, irregular = _classes(shape)
    reset_at = np.flatnonzero(reset[code])
    states = _states(swap[code], reset_at)
    candidates = _irregular(code, shape, np.flatnonzero(irregular[code]), stops)
    true = _walk(states, reset_at, candidates)
    at, end = candidates.at[true], candidates.end[true]
    _mend(states, reset_at, end)
    starts = np.empty_like(states)
    starts[0] = 1
    np.equal(states[:-1], 0, out=starts[1:], casting="unsafe")
    starts[_spans(at + 1, end)] = 0
    sick = np.concatenate([at[candidates.sick[true]], stops[states[stops - 1] != 0]]) if len(stops) else stops
    extended = code[at] == 0
    return Instructions(starts, at[extended], candidates.payload[true][extended], end[extended], sick)


def _irregular(code: U8, shape: ProgramShape, at: Positions, stops: Positions) -> _Irregular:
    """Where each candidate would end, were it an instruction."""
    limit = stops[np.searchsorted(stops, at)] if at.size else at
    opcode = code[at]
    payload = at + 1
    end = at + 3
    extended = np.flatnonzero(opcode == 0)
    length, payload[extended] = uleb_at(code, at[extended] + 1)
    room = np.maximum(limit[extended] - payload[extended], 0)
    fits = (length >= 1) & (length <= room.astype(np.uint64))
    end[extended] = payload[extended] + np.where(fits, length, 0).astype(np.int64)
    sick = end > limit
    sick[extended] |= ~fits
    for number in np.flatnonzero((opcode != 0) & (opcode != FIXED_ADVANCE_PC)):
        end[number] = _behind_operands(code, int(at[number]) + 1, operand_count(shape, int(opcode[number])))
    sick |= end > limit
    return _Irregular(at, payload, np.where(sick, limit, end), sick)


def _behind_operands(code: U8, at: int, count: int) -> int:
    """The position behind ``count`` LEB128 numbers, or past the end of ``code``."""
    for _ in range(count):
        while at < len(code) and code[at] >= 0x80:
            at += 1
        at += 1
    return at


def _walk(states: U8, reset_at: Positions, candidates: _Irregular) -> NDArray[np.intp]:
    """Which candidates are instructions: from one to the next that begins where an opcode is expected."""
    at, end = candidates.at, candidates.end
    if not at.size:
        return np.zeros(0, np.intp)
    before = states[at - 1]
    before[at == 0] = 0
    free = np.flatnonzero(before == 0)
    follow = np.append(free, len(at))
    step = follow[np.searchsorted(at[free], end)]
    turned = np.flatnonzero(states[end - 1])
    if turned.size:
        settled = reset_at[np.searchsorted(reset_at, end[turned])]
        number = np.minimum(np.searchsorted(at, settled), len(at) - 1)
        hidden = (at[number] == settled) & (before[number] != 0)
        step[turned] = np.where(hidden, number, follow[np.searchsorted(at[free], settled, side="right")])
    steps = step.tolist()
    found = []
    here = int(follow[0])
    while here < len(steps):
        found.append(here)
        here = steps[here]
    return np.array(found, np.intp)


def _mend(states: U8, reset_at: Positions, end: Positions) -> None:
    """Turn the states round between an irregular instruction that seemed to end inside an operand and the next
    byte that settles them."""
    turned = end[states[end - 1] != 0] if end.size else end
    if turned.size:
        settled = reset_at[np.searchsorted(reset_at, turned)]
        states[_spans(turned - 1, settled)] ^= 1


def _spans(first: Positions, last: Positions) -> Positions:
    """Every number of the half-open spans, one span behind the other."""
    length = np.maximum(last - first, 0)
    behind = np.cumsum(length)
    numbers: Positions = np.arange(int(behind[-1]) if behind.size else 0)
    numbers += np.repeat(first - (behind - length), length)
    return numbers
