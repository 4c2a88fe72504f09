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
from functools import lru_cache

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
    """``at`` is where instructions begin, in order, the sentinels among them; ``extended`` the positions of the extended ones, ``payload`` where
    their own opcode is and ``end`` where they end; ``sick`` positions where an instruction does not end inside its
    program."""

    at: Positions
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


@lru_cache(maxsize=16)
def _classes(counts: tuple[int, ...]) -> tuple[bytes, bytes, bytes]:
    """Tables of 256: which bytes swap the states, which leave them as they are, which begin irregular instructions.

    ``counts`` are the operand counts of the standard opcodes 1, 2, ...; all of them are below 0x80.
    """
    swap, keep, irregular = bytearray(256), bytearray(256), bytearray(256)
    keep[0x80:] = b"\1" * 0x80
    irregular[0] = 1
    for opcode, count in enumerate(counts, 1):
        if opcode == FIXED_ADVANCE_PC or count > 1:
            irregular[opcode] = 1
        elif count == 1:
            swap[opcode] = keep[opcode] = 1
    return bytes(swap), bytes(keep), bytes(irregular)


def _states(swap: U8, keep: U8) -> U8:
    """The state behind every byte: 1 where an operand comes.

    A byte's effect is "swap if ``swap``, then forget what was before unless ``keep``"; effects are joined over
    stretches of 1, 2, 4, ... bytes until every stretch has a byte that forgets.
    """
    state, width = swap, 1
    while keep.any():
        behind = state.copy()
        behind[width:] ^= state[:-width] & keep[width:]
        reach = keep.copy()
        reach[width:] &= keep[:-width]
        reach[:width] = 0
        state, keep = behind, reach
        width *= 2
    return state


def find(code: bytes, shape: ProgramShape, stops: Positions) -> Instructions:
    """The instructions of programs that lie one behind the other, each with a SENTINEL behind it (at ``stops``)."""
    u8 = np.frombuffer(code, np.uint8)
    counts = tuple(operand_count(shape, opcode) for opcode in range(1, shape.opcode_base))
    swap, keep, irregular = (np.frombuffer(code.translate(t), np.uint8) for t in _classes(counts))
    states = _states(swap, keep)
    candidates = _irregular(u8, shape, np.flatnonzero(irregular.view(np.bool_)), stops)
    true = _walk(states, keep, candidates)
    at, end = candidates.at[true], candidates.end[true]
    states = _mend(states, keep, end)
    starts = np.empty(len(states), np.bool_)
    starts[0] = True
    np.equal(states[:-1], 0, out=starts[1:])
    starts[_spans(at + 1, end)] = False
    starts[stops] = True
    sick = np.concatenate([at[candidates.sick[true]], stops[states[stops - 1] != 0]])
    extended = u8[at] == 0
    return Instructions(np.flatnonzero(starts), at[extended], candidates.payload[true][extended], end[extended], sick)


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
    unknown = np.flatnonzero((opcode != 0) & (opcode != FIXED_ADVANCE_PC))
    if unknown.size:
        end[unknown] = _behind_operands(code, shape, at[unknown])
    sick |= end > limit
    return _Irregular(at, payload, np.where(sick, limit, end), sick)


def _behind_operands(code: U8, shape: ProgramShape, at: Positions) -> Positions:
    """The position behind the LEB128 operands of standard opcodes, or past the end of ``code``."""
    counts = np.array([0] + [operand_count(shape, opcode) for opcode in range(1, shape.opcode_base)])
    last_bytes = np.append(np.flatnonzero(code < 0x80), len(code))
    number = np.searchsorted(last_bytes, at + 1) + counts[code[at]] - 1
    behind: Positions = last_bytes[np.minimum(number, len(last_bytes) - 1)] + 1
    return behind


def _walk(states: U8, keep: U8, candidates: _Irregular) -> NDArray[np.intp]:
    """Which candidates are instructions: from one to the next that begins where an opcode is expected."""
    at, end = candidates.at, candidates.end
    before = states[at - 1]
    before[at == 0] = 0
    free = np.flatnonzero(before == 0)
    follow = np.append(free, len(at))
    step = follow[np.searchsorted(at[free], end)]
    turned = np.flatnonzero(states[end - 1])
    if turned.size:
        settled = _settled(keep, end[turned])
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


def _settled(keep: U8, at: Positions) -> Positions:
    """The first byte from each position on that leads to "opcode comes" whatever was before."""
    settling = np.flatnonzero(keep == 0)
    return settling[np.searchsorted(settling, at)]


def _mend(states: U8, keep: U8, end: Positions) -> U8:
    """The states, turned round between an irregular instruction that seemed to end inside an operand and the next
    byte that settles them."""
    turned = end[states[end - 1] != 0]
    if turned.size:
        states = states.copy()
        states[_spans(turned - 1, _settled(keep, turned))] ^= 1
    return states


def _spans(first: Positions, last: Positions) -> Positions:
    """Every number of the half-open spans, one span behind the other."""
    length = np.maximum(last - first, 0)
    behind = np.cumsum(length)
    numbers: Positions = np.arange(int(behind[-1]) if behind.size else 0)
    numbers += np.repeat(first - (behind - length), length)
    return numbers
