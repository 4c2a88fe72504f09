"""What a disassembler is given and what it gives back; the names that every disassembler's module has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from symd.disasm.process import Allowance
from symd.disasm.spans import Span
from symd.errors import DeadlineExceeded, SymdError
from symd.model.code import CodeObject


@dataclass(frozen=True, slots=True)
class Task:
    """One run of instructions of one code object. Offsets and branch targets in the text count from the start of the
    section that the span lies in."""

    code: CodeObject
    span: Span

    @property
    def target(self) -> str | None:
        return self.code.target


@dataclass(slots=True)
class Decoded:
    """The instructions of one task, in order: ``offset`` counts from the start of the section, ``size`` is in bytes.
    ``by`` names the program or library that wrote the text."""

    by: str
    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def add(self, offset: int, size: int, text: str) -> None:
        self.offset.append(offset)
        self.size.append(size)
        self.text.append(text)


Outcome = Decoded | SymdError


class Disassembler(Protocol):
    """A module of this room that stands in its table."""

    NAME: str
    """What people call it."""

    def takes(self, code: CodeObject) -> bool:
        """Whether the code is of the kind that it reads."""
        ...

    def disassemble(self, tasks: Sequence[Task], clock: Clock) -> list[Outcome]:
        """One outcome a task, in order. Raises ToolMissing when nothing of the kind is installed, and what a run raises
        that spoils all of them."""
        ...


class Clock:
    """The time and memory left to one request, over all the runs that it takes."""

    def __init__(self, seconds: float, memory: int) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._memory = memory

    def allowance(self) -> Allowance:
        """What the next run may take. Raises DeadlineExceeded when no time is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(
                f"disassembling takes longer than {self._seconds:g} seconds",
                hint="ask for one kernel, or raise disassembly_seconds",
            )
        return Allowance(left, self._memory)
