"""The callers of AMD's waves, by the call frame information of the code that they were executing.

A return address may be in scalar registers, in lanes of a vector register, or in scratch memory; only call frame
information tells. Where a compiler writes none (LLVM's before 23; ROCm's writes it) the callers are unknown. A return
address counts only if a call instruction is in front of it.

Sources: LLVM's AMDGPU usage guide, "Call Frame Information" and "Register Identifier"; LLVM's SIFrameLowering; AMD's
instruction set architecture manuals, "Instruction formats" (SOP1, SOPK).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from symd.cores import DumpedCode
from symd.cores.amd_waves import SPACES, SavedWave, WaveReader
from symd.cores.frame_expressions import FrameMemory, Location, NotInDump, contents, evaluate
from symd.debuginfo.dwarf.call_frames import CallFrames, FrameRow, RegisterRule, RuleKind
from symd.errors import Malformed
from symd.formats.containers.amd.core_state import CoreMemory

INSTRUCTION_BYTES = 4
MAX_BYTES_BEFORE_RETURN = 32
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


MAX_CALLERS = 128
"""Callers of one wave."""
MAX_NESTED = 32
"""Registers whose rules ask for each other, over all calls."""
_PCS = {0: 4, 16: 8}
"""PC's DWARF numbers, and their sizes in bytes."""
_EXECS = {1: 4, 17: 8}
_SCALARS = ((32, 95, 0), (1088, 1129, 64))
_VECTORS = {32: (1536, 1791), 64: (2560, 2815)}
"""First and last DWARF number of the vector registers of a wave of that many lanes."""
_STACK_POINTER = 64
"""s32."""
_ADDRESS_BITS = 48
_PRIVATE_WAVE = 6
_IN_REGISTER_PAIR = bytes.fromhex("903e9304903f9304")
"""DW_OP_regx s30, DW_OP_piece 4, DW_OP_regx s31, DW_OP_piece 4."""


class CodeFrames(NamedTuple):
    """What is known of one code object's calls. ``bias`` is what was added to its addresses; ``kernels`` are the
    functions that nobody calls, by name."""

    bias: int
    frames: CallFrames | None
    kernels: frozenset[str]


class Callers(NamedTuple):
    """Addresses to return to, innermost first, and why no more are known ("" where the last is a kernel's)."""

    addresses: tuple[int, ...] = ()
    unknown: str = ""


class CallerFinder:
    """Finds the callers of the functions that waves were in. ``known`` has the code objects by their number in the
    dump, ``core`` the memory that the code is in."""

    def __init__(self, code: DumpedCode, known: Mapping[int, CodeFrames], core: CoreMemory) -> None:
        self._code, self._known, self._core = code, known, core
        self._rows: dict[int, FrameRow | str | None] = {}
        self._callable: dict[tuple[int, CallInstructions], bool] = {}

    def callers(self, wave: SavedWave, memory: WaveReader, calls: CallInstructions) -> Callers:
        """Who called the function that a wave was in. What cannot be read, or contradicts itself, ends the list and is
        said."""
        found: list[int] = []
        frame, at = FrameRegisters(wave, memory), wave.pc
        while len(found) < MAX_CALLERS:
            row = self._row(at)
            if not isinstance(row, FrameRow):
                return Callers(tuple(found), row or "")
            caller = FrameRegisters(wave, memory, frame, row)
            back = self._back(at, frame, caller, row, calls)
            if isinstance(back, str):
                return Callers(tuple(found), back)
            found.append(back)
            frame, at = caller, back - 1
        return Callers(tuple(found), f"there are more than {MAX_CALLERS}")

    def _back(
        self, at: int, frame: FrameRegisters, caller: FrameRegisters, row: FrameRow, calls: CallInstructions
    ) -> int | str:
        """The address to return to from the code ``at``; or why it is not known."""
        try:
            wrong = self._contradiction(frame, caller, row, calls)
            if wrong:
                return f"{self._named(at)} {wrong}"
            back = int.from_bytes(caller.register(row.return_register), "little") & (1 << _ADDRESS_BITS) - 1
        except NotInDump as missing:
            return f"the address to return to from {self._named(at)} needs {missing}"
        except Malformed as error:
            return str(error)
        if not self._is_behind_call(back, calls):
            return f"the call frame information of {self._named(at)} leads to {back:#x}, which is behind no call"
        return back

    def _contradiction(
        self, frame: FrameRegisters, caller: FrameRegisters, row: FrameRow, calls: CallInstructions
    ) -> str:
        """Why the row cannot be true: compilers' rows are not, of every instruction. At a function's end they tell of
        registers that it has restored, and at its beginning not of those that it has changed. Raises NotInDump,
        Malformed."""
        below = frame.frame_address_of_callee
        if below is not None and caller.frame_address.address >= below:
            return "has its frame above that of what it called: call frame information contradicts itself"
        rule = row.registers[row.return_register]
        if frame.is_innermost and rule.expression != _IN_REGISTER_PAIR:
            code = self._core.read(frame.pc, MAX_BYTES_BEFORE_RETURN)
            if returns_soon(code, calls):
                return "was about to return, where call frame information tells of registers that are restored already"
        return ""

    def _is_behind_call(self, address: int, calls: CallInstructions) -> bool:
        key = address, calls
        if key not in self._callable:
            word = self._core.read(address - INSTRUCTION_BYTES, INSTRUCTION_BYTES) if address else b""
            self._callable[key] = len(word) == INSTRUCTION_BYTES and is_call(word, calls)
        return self._callable[key]

    def _row(self, address: int) -> FrameRow | str | None:
        """What holds at a device address: why that is not known, None where nobody calls the function."""
        if address not in self._rows:
            try:
                self._rows[address] = self._find_row(address)
            except Malformed as error:
                self._rows[address] = str(error)
        return self._rows[address]

    def _find_row(self, address: int) -> FrameRow | str | None:
        place = self._code.place(address)
        if place is None:
            return f"{address:#x} is in no code that is known"
        known = self._known.get(place.image)
        if known is not None and place.function in known.kernels:
            return None
        name = self._named(address)
        row = known.frames.at(address - known.bias) if known is not None and known.frames is not None else None
        if row is None:
            return f"no call frame information of {name}"
        rule = row.registers.get(row.return_register)
        if rule is None or rule.kind is RuleKind.SAME_VALUE:
            return f"the call frame information of {name} does not say where its caller is"
        return None if rule.kind is RuleKind.UNDEFINED else row

    def _named(self, address: int) -> str:
        place = self._code.place(address)
        return place.function if place is not None and place.function else f"the code at {address:#x}"


class FrameRegisters:
    """The registers as a call had them: those of the wave, or what ``row`` says of those of ``callee``, which was
    called."""

    def __init__(
        self, wave: SavedWave, memory: WaveReader, callee: FrameRegisters | None = None, row: FrameRow | None = None
    ) -> None:
        self._wave, self._memory, self._callee, self._row = wave, memory, callee, row
        self._known: dict[int, bytes] = {}
        self._computing: list[tuple[FrameRegisters, int]] = callee._computing if callee else []  # noqa: SLF001 - of its kind
        self.pc, self.is_innermost = wave.pc, callee is None

    @property
    def frame_address_of_callee(self) -> int | None:
        """The CFA of the function that was called from here; None where none was."""
        return None if self.is_innermost else self.frame_address.address

    def register(self, number: int) -> bytes:
        """A register's content. Raises NotInDump, Malformed."""
        if number not in self._known:
            self._known[number] = self._find(number)
        return self._known[number]

    def memory(self, place: FrameMemory, size: int) -> bytes:
        """``size`` bytes of memory at a place. Raises NotInDump."""
        space = SPACES.get(place.space)
        found = self._memory.read(space, place.address, size) if space is not None else None
        if found is None:
            raise NotInDump(
                f"{size} bytes of {space or 'an unknown'} memory at {place.address:#x}, which are not in the dump"
            )
        return found

    def _find(self, number: int) -> bytes:
        if self._callee is None or self._row is None:
            return _of_wave(self._wave, number)
        rule = self._row.registers.get(number)
        if rule is None:
            if number == _STACK_POINTER and not self._is_cfa(number):
                raise NotInDump("the stack pointer of a caller")
            return self._callee.register(number)
        if (self, number) in self._computing:
            raise NotInDump(f"register {number}, whose rule asks for itself")
        if len(self._computing) >= MAX_NESTED:
            raise NotInDump(f"more than {MAX_NESTED} registers, each by the rule of another")
        self._computing.append((self, number))
        try:
            return self._by_rule(number, rule, self._callee)
        finally:
            self._computing.pop()

    def _is_cfa(self, number: int) -> bool:
        """Whether the callee's CFA is what the register holds there."""
        cfa = self._row.cfa if self._row is not None else None
        return cfa is not None and cfa.expression is None and (cfa.register, cfa.offset) == (number, 0)

    def _by_rule(self, number: int, rule: RegisterRule, callee: FrameRegisters) -> bytes:
        size = _size(number, self._wave.lanes)
        reader = _Reader(callee, self)
        if rule.kind is RuleKind.UNDEFINED:
            raise NotInDump(f"register {number}, which the caller does not keep")
        if rule.kind is RuleKind.SAME_VALUE:
            return callee.register(number)
        if rule.kind is RuleKind.REGISTER:
            return callee.register(rule.number)[:size].ljust(size, b"\0")
        if rule.kind is RuleKind.OFFSET:
            return contents(self.frame_address._replace(address=self.frame_address.address + rule.number), size, reader)
        if rule.kind is RuleKind.VALUE_OFFSET:
            return _number(self.frame_address.address + rule.number, size)
        found = evaluate(rule.expression, reader, self.frame_address)
        if rule.kind is RuleKind.VALUE_EXPRESSION:
            return _number(
                found if isinstance(found, int) else int.from_bytes(contents(found, 8, reader), "little"), size
            )
        return contents(FrameMemory(0, found) if isinstance(found, int) else found, size, reader)

    @cached_property
    def frame_address(self) -> FrameMemory:
        """The CFA of the callee. Raises NotInDump, Malformed."""
        cfa = self._row.cfa if self._row is not None else None
        if cfa is None or self._callee is None:
            raise NotInDump("the frame's address, which nothing says")
        if cfa.expression is None:
            base = int.from_bytes(self._callee.register(cfa.register), "little")
            if cfa.address_space == _PRIVATE_WAVE and not self._memory.scaled_frames:
                base *= self._wave.lanes  # LLVM 23 leaves that out where stack pointers count the bytes of one lane
            return FrameMemory(cfa.address_space or 0, base + cfa.offset)
        found: Location | int = evaluate(cfa.expression, _Reader(self._callee, self))
        if isinstance(found, FrameMemory):
            return found
        if isinstance(found, int):
            return FrameMemory(0, found)
        raise NotInDump("a frame in memory")


class _Reader:
    """Expressions read the callee's registers, and the caller's by name."""

    def __init__(self, callee: FrameRegisters, caller: FrameRegisters) -> None:
        self._caller = caller
        self.register, self.memory = callee.register, callee.memory

    def entry_register(self, number: int) -> bytes:
        return self._caller.register(number)


def _number(value: int, size: int) -> bytes:
    return (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _size(number: int, lanes: int) -> int:
    """Bytes of a register."""
    if number in _PCS:
        return _PCS[number]
    if number in _EXECS:
        return _EXECS[number]
    return 4 if any(first <= number <= last for first, last, _ in _SCALARS) else 4 * lanes


def _of_wave(wave: SavedWave, number: int) -> bytes:
    """A register as it was saved. Raises NotInDump."""
    if number in _PCS:
        return _number(wave.pc, _PCS[number])
    if number in _EXECS:
        return _number(wave.exec, _EXECS[number])
    for first, last, base in _SCALARS:
        if first <= number <= last:
            return _part(wave.scalar, number - first + base, 4, f"s{number - first + base}")
    first, last = _VECTORS[wave.lanes]
    if first <= number <= last:
        return _part(wave.vector, number - first, 4 * wave.lanes, f"v{number - first}")
    raise NotInDump(f"register {number}, which is not read")


def _part(registers: bytes, number: int, size: int, name: str) -> bytes:
    found = registers[number * size : (number + 1) * size]
    if len(found) < size:
        raise NotInDump(f"{name}, which was not saved")
    return found
