"""The names that every disassembler's module has, what it gives back, and what one request may cost."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from symd.child.process import ProcessLimits
from symd.disasm.ranges import InstructionBytes
from symd.errors import DeadlineExceeded, SymdError
from symd.model.code import CodeObject

NOT_DECODED: Final = "(not decoded)"
"""The text of bytes that are no instruction to the disassembler."""
DAMAGED_CODE: Final = "the code may be damaged, or for another device"
"""Hint for a disassembler that died."""
SMALLER_REQUEST: Final = "ask for one kernel, or raise disassembly_seconds"
"""Hint for a disassembler that took too long or wrote too much."""

_ANSWER_BYTES_PER_BYTE_OF_CODE: Final = 256
_ANSWER_BYTES_BESIDE: Final = 1 << 22
"""Bytes of answer that are allowed besides those that the code explains."""


@dataclass(slots=True)
class Decoded:
    """The instructions of one range, in order: ``offset`` counts from the start of the section, ``size`` is in bytes.
    ``by`` names the program or library that wrote the text."""

    by: str
    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def add(self, offset: int, size: int, text: str) -> None:
        self.offset.append(offset)
        self.size.append(size)
        self.text.append(text)


DecodeOutcome = Decoded | SymdError
"""What became of one range."""


class Disassembler(Protocol):
    """A module of this room that stands in its table."""

    NAME: str
    """What people call it."""

    def takes(self, code: CodeObject) -> bool:
        """Whether the code is of the kind that it reads."""
        ...

    def installed(self) -> bool:
        """Whether this machine has the program or library, by its name: nothing is run or loaded."""
        ...

    def disassemble(self, ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
        """One outcome a range, in order. Raises ToolMissing when nothing of the kind is installed, and what a run raises
        that spoils all of them."""
        ...


class DisassemblyBudget:
    """The time and memory left to one request, over all the runs that it takes: ``seconds`` and bytes of address space."""

    def __init__(self, seconds: float, memory: int) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._memory = memory

    def next_run(self, code_size: int) -> ProcessLimits:
        """What the next run may cost, which is given ``code_size`` bytes. Raises DeadlineExceeded when no time is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(
                f"disassembling takes longer than {self._seconds:g} seconds",
                hint=SMALLER_REQUEST,
            )
        answer = _ANSWER_BYTES_BESIDE + _ANSWER_BYTES_PER_BYTE_OF_CODE * code_size
        # The processor's time is limited too: a run that outlives this process has nobody who watches the clock.
        return ProcessLimits(left, self._memory, answer, cpu_seconds=math.ceil(left), file_size=answer)
