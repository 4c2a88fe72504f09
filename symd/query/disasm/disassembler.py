"""The protocol of a disassembler's module, its results, and a budget for one request; the folders in which
disassemblers are looked for (those that the user names, then PATH, then vendors' usual ones); and the bytes of a code
object that are instructions: what its symbols cover, without padding and headers between.
"""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

from symd.config import Limits
from symd.errors import DeadlineExceeded, LimitExceeded, NotFound, SymdError, ToolFailed
from symd.model.code import CodeObject, Function, Kernel, Section
from symd.model.line_tables import CodeSpan
from symd.system.installed import chosen_folders
from symd.system.process import confinement
from symd.system.process.fork_server import ForkServer
from symd.system.process.process import ProcessLimits
from symd.system.process.run import Ended, run_tool

_LIBRARY_FOLDERS = (
    *(f"{prefix}/lib/{os.uname().machine}-linux-gnu" for prefix in ("", "/usr", "/usr/local")),
    *(f"{prefix}/{lib}" for prefix in ("", "/usr", "/usr/local") for lib in ("lib64", "lib")),
)


def has_library(file: str) -> bool:
    """Whether a library with that file name lies in SYMD_TOOLS or where the system keeps libraries."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return any(Path(folder, file).exists() for folder in (*chosen_folders(), *filter(None, named), *_LIBRARY_FOLDERS))


def library(name: str) -> str | None:
    """The file name under which the system's loader finds library ``name`` ("iga64" for libiga64.so), or None."""
    return find_library(name)


_Symbol = TypeVar("_Symbol", Kernel, Function)

DISASSEMBLY_MEMORY = 4 << 30
"""Address space of a disassembler's process."""
DISASSEMBLY_SIZE = 32 << 20
"""Bytes of text that disassemblers may write for one request."""
MAX_RANGES_PER_SECTION: Final = 10_000
"""Where symbols make more of them, the section is taken from the first to the last."""


@dataclass(frozen=True, slots=True)
class InstructionBytes:
    """Bytes of a code object that are instructions: ``data`` begins ``offset`` bytes from the start of the section
    whose number is ``section``. Offsets and branch targets in disassembled text count from the start of the section,
    too."""

    code: CodeObject = field(repr=False, compare=False)
    section: int
    offset: int
    data: bytes = field(repr=False)

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    @property
    def target(self) -> str | None:
        return self.code.target


def code_ranges(code: CodeObject, spans: Sequence[CodeSpan] | None = None) -> list[InstructionBytes]:
    """The ranges of a code object in the order of its sections, or only those that ``spans`` reach into. A text section
    that no symbol reaches into is one range. Raises NotFound where spans reach into none."""
    entries, functions = _by_section(code.kernels), _by_section(code.functions)
    found = []
    for section in code.sections:
        if section.executable and section.data:
            ranges = _ranges(
                section,
                entries.get(section.index, []),
                functions.get(section.index, []),
                spans_in(code, section, spans),
            )
            found += [InstructionBytes(code, section.index, start, section.data[start:end]) for start, end in ranges]
    if not found and any(each.start < each.end for each in spans or ()):
        raise NotFound("there is no code in what was asked for", where=code.path, hint="no function has these bytes")
    return found


def spans_in(code: CodeObject, section: Section, spans: Sequence[CodeSpan] | None) -> list[tuple[int, int]] | None:
    """The bytes of a section that are wanted; None: all of them."""
    if spans is None:
        return None
    return [(each.start, each.end) for each in spans if (each.path, each.section) == (code.path, section.index)]


def _by_section(symbols: Iterable[_Symbol]) -> dict[int, list[_Symbol]]:
    found: dict[int, list[_Symbol]] = {}
    for each in symbols:
        found.setdefault(each.section_index, []).append(each)
    return found


def _ranges(
    section: Section,
    entries: Sequence[Kernel],
    functions: Sequence[Function],
    wanted: Sequence[tuple[int, int]] | None,
) -> list[tuple[int, int]]:
    covered = [(each.offset, each.offset + each.size) for each in entries]
    covered += [(each.offset, each.offset + each.size) for each in functions]
    if not covered:
        covered = [(0, len(section.data))]
    merged = _merged((start, min(end, len(section.data))) for start, end in covered)
    if wanted is not None:
        merged = [(start, end) for start, end in merged if any(first < end and start < last for first, last in wanted)]
    if len(merged) > MAX_RANGES_PER_SECTION:
        merged = [(merged[0][0], merged[-1][1])]
    descriptors = {k.offset: k.offset + k.facts["entry_offset"] for k in entries if k.facts.get("entry_offset")}
    return [piece for each in merged for piece in _without(each, descriptors)]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, disjoint, and none of them empty."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif start < end:
            merged.append((start, end))
    return merged


def _without(whole: tuple[int, int], descriptors: dict[int, int]) -> Iterable[tuple[int, int]]:
    """A range without the descriptors that older AMD kernels have in front of their code: from the kernel's symbol (the
    key) to its entry (the value)."""
    begin, end = whole
    for descriptor, entry in sorted(descriptors.items()):
        if begin <= descriptor < end and descriptor < entry:
            yield from [(begin, descriptor)] if begin < descriptor else []
            begin = min(entry, end)
    yield from [(begin, end)] if begin < end else []


NOT_DECODED: Final = "(not decoded)"
"""The text of bytes that are no instruction to the disassembler."""
DAMAGED_CODE: Final = "the code may be damaged, or for another device"
"""Hint for a disassembler that died."""

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
    flow: list[int] = field(default_factory=list)
    targets: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, offset: int, size: int, text: str, flow: int = 0, targets: tuple[int, ...] = ()) -> None:
        self.offset.append(offset)
        self.size.append(size)
        self.text.append(text)
        self.flow.append(flow)
        self.targets.append(targets)


DecodeOutcome = Decoded | SymdError
"""What became of one range."""


def senseless(program: str, why: object) -> ToolFailed:
    """The error for an answer that a disassembler, as it was written, gives never: the code that it was given may have
    taken it over."""
    name = Path(program).name
    return ToolFailed(f"its answer makes no sense: {why}", where=name, hint=DAMAGED_CODE, metadata={"tool": name})


_FILES: Final = 16
"""Files and folders that a disassembler may make beside its input; those that were tried make none."""


class Disassembler(Protocol):
    """A module of this room that is in its table."""

    NAME: str
    """What people call it."""

    def takes(self, code: CodeObject) -> bool:
        """Whether the code is of the kind that it reads."""
        ...

    def installed(self) -> bool:
        """Whether this machine has the program or library, by its name: nothing is run or loaded."""
        ...

    def disassemble(self, ranges: Sequence[InstructionBytes], budget: DisassemblyBudget) -> list[DecodeOutcome]:
        """One outcome a range, in order. Raises ToolMissing when nothing of the kind is installed, and what a run
        raises that spoils all of them."""
        ...


class DisassemblyBudget:
    """What is left to one request, over all the runs that it takes: seconds, bytes of address space of each, and bytes
    of text.
    ``of_part``: the request is for a part of the code, such as a kernel, which may be in many code objects."""

    def __init__(
        self,
        limits: Limits,
        fork_server: ForkServer | None = None,
        *,
        of_part: bool = False,
    ) -> None:
        self._smaller = "ask for one code object" if of_part else "ask for one function"
        self._hint = f"{self._smaller}, or raise disassembly_seconds"
        self._fork_server = fork_server
        self._seconds = seconds = limits.disassembly_seconds
        self._size_left = DISASSEMBLY_SIZE
        self._end = time.monotonic() + seconds

    def prepare(self) -> None:
        """Let what starts programs come up, while their input is made."""
        if self._fork_server is not None and confinement.available():
            self._fork_server.begin()

    def run(self, command: Sequence[str], data: bytes, *, own_pipe: bool = False) -> Ended:
        """Run a program on the code in ``data``, confined where it has no ``own_pipe``: then it confines itself. Raises
        DeadlineExceeded when no time is left, and as ``run_tool``."""
        limits = self._next_run(len(data))
        try:
            fork_server = None if own_pipe else self._fork_server
            ended = run_tool(
                command,
                limits,
                data=data,
                own_pipe=own_pipe,
                fork_server=fork_server,
                hint=self._hint,
            )
        except LimitExceeded as error:
            if limits.answer < self._size_left:
                raise
            raise LimitExceeded(
                f"the instructions have more than {DISASSEMBLY_SIZE} bytes of text",
                where=error.where,
                hint=self._smaller,
                metadata={**error.metadata, "limit": "disassembly_size", "value": str(DISASSEMBLY_SIZE)},
            ) from None
        self._size_left -= len(ended.answer)
        return ended

    def _next_run(self, code_size: int) -> ProcessLimits:
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(
                f"disassembling takes longer than {self._seconds:g} seconds",
                hint=self._hint,
            )
        answer = min(_ANSWER_BYTES_BESIDE + _ANSWER_BYTES_PER_BYTE_OF_CODE * code_size, self._size_left)
        # The processor's time is limited too: a run that outlives this process has nobody who watches the clock.
        return ProcessLimits(
            left,
            DISASSEMBLY_MEMORY,
            answer,
            cpu_seconds=math.ceil(left),
            file_size=answer,
            written=code_size + DISASSEMBLY_SIZE,
            files=_FILES,
        )


def lines_of(answer: bytes) -> Iterator[str]:
    """The lines that a program wrote, one at a time: all together they take several times the memory."""
    with io.TextIOWrapper(io.BytesIO(answer), "utf-8", "replace") as lines:
        for line in lines:
            yield line.removesuffix("\n")
