"""A wave that executes a code object's instructions one by one, as far as its registers, its private memory and its calls depend on
them: what is true of a dump that was made between two of them. llvm-objdump decodes; loads of data give 0."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tests import tools

LANES = 64
ALL = (1 << LANES) - 1
_WORD = 0xFFFF_FFFF
_IGNORED = (
    "s_waitcnt",
    "s_nop",
    "s_load",
    "flat_load",
    "global_store",
    "v_ashrrev",
    "v_lshl",
    "v_mul",
    "v_fma",
    "v_addc",
)


def disassembled(path: Path) -> dict[int, tuple[str, list[str]]]:
    """Object address to mnemonic and operands."""
    objdump = tools.require("llvm-objdump-22", "llvm-objdump")
    text = tools.output(objdump, "-d", "--no-show-raw-insn", path)
    found = {}
    for line in text.splitlines():
        match = re.match(r"\t(\S+)\s*(.*?)\s*// ([0-9A-F]+):", line)
        if match:
            found[int(match[3], 16)] = match[1], [each.strip() for each in match[2].split(",")]
    return found


class Machine:
    """A gfx9 wave at the start of a kernel. ``calls`` are the addresses to return to, outermost first."""

    def __init__(self, path: Path, start: int, *, exec_mask: int, count: int) -> None:
        self.code = disassembled(path)
        self.pc, self.exec, self.vcc, self.carry = start, exec_mask, 0, 0
        self.scalar = [0x5EED_0000 + number for number in range(96)]
        self.vector = [[number << 8 | lane for lane in range(LANES)] for number in range(64)]
        self.scratch = bytearray(16384)
        self.calls: list[int] = []
        self.scalar[6], self.count = count, count

    def run(self, base: int) -> Iterator[None]:
        """Execute to the end of the kernel, which was loaded at ``base``; stops before each instruction."""
        while self.code[self.pc][0] != "s_endpgm":
            yield
            name, operands = self.code[self.pc]
            following = min(address for address in self.code if address > self.pc)
            self.pc = self._execute(name, operands, following, base)

    def _execute(self, name: str, operands: list[str], following: int, base: int) -> int:
        if name.startswith(_IGNORED) or name == "v_add_co_u32_e32":
            if name == "s_load_dword":
                self.scalar[6] = self.count
            return following
        if name == "s_swappc_b64":
            self._set_pair(operands[0], base + following)
            self.calls.append(base + following)
            return self._pair(operands[1]) - base
        if name == "s_setpc_b64":
            target = self._pair(operands[0])
            assert target == self.calls.pop()
            return target - base
        if name == "s_cbranch_execz":
            return following if self.exec else following + 4 * int(operands[0])
        getattr(self, f"_{name}")(operands, following + base)
        return following

    def _s_mov_b32(self, operands: list[str], _: int) -> None:
        self.scalar[_number(operands[0])] = self._word(operands[1])

    def _s_mov_b64(self, operands: list[str], _: int) -> None:
        assert operands[0] == "exec"
        self.exec = self._pair(operands[1])

    def _s_or_saveexec_b64(self, operands: list[str], _: int) -> None:
        assert operands[1] == "-1"
        self._set_pair(operands[0], self.exec)
        self.exec = ALL

    def _s_and_saveexec_b64(self, operands: list[str], _: int) -> None:
        self._set_pair(operands[0], self.exec)
        self.exec &= self.vcc

    def _s_or_b64(self, operands: list[str], _: int) -> None:
        self.exec |= self._pair(operands[2])

    def _s_addk_i32(self, operands: list[str], _: int) -> None:
        number = _number(operands[0])
        self.scalar[number] = self.scalar[number] + int(operands[1], 0) & _WORD

    def _s_getpc_b64(self, operands: list[str], following: int) -> None:
        self._set_pair(operands[0], following)

    def _s_add_u32(self, operands: list[str], _: int) -> None:
        total = self._word(operands[1]) + self._word(operands[2])
        self.scalar[_number(operands[0])], self.carry = total & _WORD, total >> 32

    def _s_addc_u32(self, operands: list[str], _: int) -> None:
        self.scalar[_number(operands[0])] = self._word(operands[1]) + self._word(operands[2]) + self.carry & _WORD

    def _v_writelane_b32(self, operands: list[str], _: int) -> None:
        self.vector[_number(operands[0])][int(operands[2])] = self._word(operands[1])

    def _v_readlane_b32(self, operands: list[str], _: int) -> None:
        self.scalar[_number(operands[0])] = self.vector[_number(operands[1])][int(operands[2])]

    def _v_mov_b32_e32(self, operands: list[str], _: int) -> None:
        for lane in self._active():
            self.vector[_number(operands[0])][lane] = self._lane(operands[1], lane)

    def _v_add_u32_e32(self, operands: list[str], _: int) -> None:
        for lane in self._active():
            total = self._lane(operands[1], lane) + self._lane(operands[2], lane)
            self.vector[_number(operands[0])][lane] = total & _WORD

    def _v_cmp_lt_i32_e32(self, operands: list[str], _: int) -> None:
        self.vcc = sum(
            1 << lane for lane in self._active() if self._lane(operands[1], lane) < self._lane(operands[2], lane)
        )

    def _buffer_store_dword(self, operands: list[str], _: int) -> None:
        for lane, at in self._addresses(operands):
            struct.pack_into("<I", self.scratch, at, self.vector[_number(operands[0])][lane])

    def _buffer_load_dword(self, operands: list[str], _: int) -> None:
        for lane, at in self._addresses(operands):
            (self.vector[_number(operands[0])][lane],) = struct.unpack_from("<I", self.scratch, at)

    def _addresses(self, operands: list[str]) -> Iterator[tuple[int, int]]:
        """Where the active lanes' words are: s33, which counts all lanes, and what the instruction adds for each."""
        base, _, offset = operands[-1].partition(" offset:")
        for lane in self._active():
            yield lane, self._word(base) + (int(offset or "0") // 4 * LANES + lane) * 4

    def _active(self) -> list[int]:
        return [lane for lane in range(LANES) if self.exec >> lane & 1]

    def _word(self, operand: str) -> int:
        literal = re.fullmatch(r"(?:lit\()?(-?(?:0x)?[0-9a-f]+)\)?", operand)
        return int(literal[1], 0) & _WORD if literal else self.scalar[_number(operand)]

    def _lane(self, operand: str, lane: int) -> int:
        return self.vector[_number(operand)][lane] if operand[0] == "v" else self._word(operand)

    def _pair(self, operand: str) -> int:
        first = _number(operand)
        return self.scalar[first] | self.scalar[first + 1] << 32

    def _set_pair(self, operand: str, value: int) -> None:
        first = _number(operand)
        self.scalar[first : first + 2] = value & _WORD, value >> 32


def _number(operand: str) -> int:
    """s33 is 33, s[30:31] 30."""
    match = re.match(r"[sv]\[?([0-9]+)", operand)
    assert match is not None, operand
    return int(match[1])
