"""Instructions of AMD's processors that call and return: what an address to return to stands behind.

Source: AMD's instruction set architecture manuals, "Instruction formats" (SOP1, SOPK)."""

from __future__ import annotations

from typing import NamedTuple

INSTRUCTION_BYTES = 4
MOST_BYTES_BEFORE_RETURN = 32
"""Bytes of a function's end in which it restores registers."""
_SOP1, _SOP1_MASK = 0xBE80_0000, 0xFF80_0000
_SOPK = 0xB
_RETURN_REGISTER = 30
"""s[30:31]: LLVM's calling convention has the address to return to there."""


class CallInstructions(NamedTuple):
    """The numbers of operations: ``swap`` and ``call`` leave an address to return to, ``go`` goes to one."""

    swap: int
    call: int
    go: int


def instructions_of(version: tuple[int, int, int]) -> CallInstructions:
    """s_swappc_b64, s_call_b64 and s_setpc_b64 of a processor."""
    if version[0] >= 11:
        return CallInstructions(73, 20, 72)
    return CallInstructions(33, 22, 32) if version[0] == 10 else CallInstructions(30, 21, 29)


def is_call(word: bytes, known: CallInstructions) -> bool:
    """Whether an instruction is a call."""
    number = int.from_bytes(word, "little")
    if number & _SOP1_MASK == _SOP1:
        return number >> 8 & 0xFF == known.swap
    return number >> 28 == _SOPK and number >> 23 & 0x1F == known.call


def returns_soon(code: bytes, known: CallInstructions) -> bool:
    """Whether these bytes have an instruction that goes to s[30:31], before any call."""
    for at in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
        word = code[at : at + INSTRUCTION_BYTES]
        if int.from_bytes(word, "little") == _SOP1 | known.go << 8 | _RETURN_REGISTER:
            return True
        if is_call(word, known):
            return False
    return False
