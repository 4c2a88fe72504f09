"""GPU core dumps as targets: every stack; and fault text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from symd.config import Limits
from symd.cores import read
from symd.cores.amd_callers import FrameRegisters
from symd.cores.amd_waves import SavedWave, Space, WaveReader
from symd.cores.fault_text import Annotator, GivenModule
from symd.cores.frame_expressions import FrameMemory, NotInDump, contents, evaluate
from symd.debuginfo.dwarf.call_frames import CallFrames, FrameRow
from symd.errors import Malformed
from symd.formats.budget import Budget
from symd.formats.containers import unpack
from symd.model.addresses import Query
from symd.model.answers import Answer, Frame, Reason
from tests.builders.call_frames import rows_of
from tests.fuzz.elf_sections import section_of
from tests.fuzz.mutations import SAMPLES
from tests.fuzz.target import Target, fitting

LIMITS = Limits()


def read_core(data: bytes) -> None:
    with fitting():
        read.read(data, Budget(LIMITS))


class _Answers:
    """Every module that is asked for is there, and knows every place."""

    def symbolize(self, _digest: str, _query: Query, _path: str | None = None) -> Answer:
        return Answer(Reason.EXACT, frames=(Frame("f", None, None, 0, 0, False),))

    def open(self, uri: str) -> str:
        return uri


def read_call_frames(data: bytes) -> None:
    """Every entry of a section, and what holds at its middle. The first byte says nothing."""
    with fitting():
        frames = CallFrames(data[1:])
        for entry in frames.entries:
            with suppress(Malformed):
                frames.at((entry.start + entry.end) // 2)


class _Everything:
    """A wave whose registers and memory hold whatever is asked for."""

    def register(self, _number: int) -> bytes:
        return bytes(range(256))

    def entry_register(self, _number: int) -> bytes:
        return b"\x0f" * 8

    def memory(self, _location: FrameMemory, size: int) -> bytes:
        if size > 1 << 16:
            raise NotInDump("so much")
        return b"\x12" * size


WAVE = SavedWave(0, 0, 64, 0x1000, 1, False, None, None, None, (), (), bytes(4 * 112), bytes(256 * 256))


class _NoMemory(WaveReader):
    """The memory of a wave of which nothing is in the dump."""

    def __init__(self) -> None:
        self.scaled_frames = True

    def read(self, space: Space, address: int, size: int) -> bytes | None:
        del space, address, size
        return None


NO_MEMORY = _NoMemory()


def follow_call_frames(data: bytes) -> None:
    """Every register that the rows of a section have rules for, as it was in a caller and in that one's caller."""
    with fitting():
        frames = CallFrames(data[1:])
        for entry in frames.entries:
            with suppress(Malformed):
                row = frames.at((entry.start + entry.end) // 2)
                if row is not None:
                    _ask(row)


def _ask(row: FrameRow) -> None:
    frame = FrameRegisters(WAVE, NO_MEMORY)
    for _ in range(2):
        frame = FrameRegisters(WAVE, NO_MEMORY, frame, row)
        for number in row.registers:
            with suppress(NotInDump, Malformed):
                frame.register(number)


def evaluate_frame_expression(data: bytes) -> None:
    with fitting(), suppress(NotInDump):
        found = evaluate(data, _Everything(), FrameMemory(6, 0x100))
        if not isinstance(found, int):
            contents(found, 8, _Everything())


def _call_frames() -> list[bytes]:
    folder = SAMPLES / "amdgpu" / "bin"
    codes = [unpack(path.read_bytes()).objects[0] for path in sorted(folder.glob("*-calls*.co"))]
    return [b"\0" + section.data for code in codes if (section := code.section(".debug_frame")) is not None]


def _expressions() -> list[bytes]:
    found = {
        rule.expression
        for seed in _call_frames()
        for frames in (CallFrames(seed[1:]),)
        for entry in frames.entries
        for row in rows_of(frames, entry)
        for rule in row.registers.values()
    }
    return sorted(each for each in found if each)


def read_fault_text(data: bytes) -> None:
    """Every line, whatever the lines before it said."""
    annotator = Annotator(_Answers(), [GivenModule("a", "a"), GivenModule("b", "b", 0x1000)])
    for line in data.split(b"\n"):
        annotator.line(line.decode("utf-8", "replace"))


_FAULT_TEXTS = (
    (
        b"wave_1: pc=0x7f1940 (kernel_code_entry=0x7f1900 <shade>, kernargs=0x0) (stopped, reason: TRAP)\n"
        b"    code object: file:///a.co#offset=1&size=2\n    loaded at: [0x7f0000-0x7f3000]\n => 0x7f1940 <+64>: v_add\n"
    ),
    (
        b"=========     at probe(float *, const float3 *)+0x160 in a.cu:41\n"
        b"=========     Device Frame:/a.cu:6:probe(float*) (probe(float*) : 0x68)\n=========     at 0x68 in /a.cu:6:k(int)\n"
    ),
    b"=> 0x7fffd6f8e1b0 <reduce<float, Sum>(float const*)+432>:  EXIT\n#1 0x55 in _Z7squaredfff+0x80 (lib.so+0x12)\n",
)


def _dumps() -> list[bytes]:
    return [path.read_bytes() for path in sorted((SAMPLES / "cores" / "bin").iterdir())]


TARGETS: Mapping[str, Target] = {
    "cores.call_frames": Target(read_call_frames, _call_frames, largest=1 << 16),
    "cores.callers": Target(follow_call_frames, _call_frames, largest=1 << 16),
    "cores.frame_expression": Target(evaluate_frame_expression, _expressions, largest=4096),
    "cores": Target(read_core, _dumps, section_of(".cudbg")),
    "fault_text": Target(read_fault_text, lambda: _FAULT_TEXTS, largest=1 << 14),
}
