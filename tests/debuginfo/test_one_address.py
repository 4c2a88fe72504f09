"""What is answered at one address without an index is what the whole index answers, and nearly all that it answers plainly is.

The scopes around it, as far as they are plain.
"""

from __future__ import annotations

import random
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from symd.config import Limits
from symd.debuginfo import address_scopes, rows_alone
from symd.debuginfo.address_scopes import AddressScopes
from symd.debuginfo.dwarf.sections import ELF_NAMES
from symd.debuginfo.one_address import answer_at
from symd.debuginfo.spirv import one_address as spirv
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.spirv.module import parsed_module
from symd.index import Index, build
from symd.index.module import decoded_objects
from symd.model import frame_text
from symd.model.answers import Answer, Reason
from symd.model.code import CodeKind, CodeObject, DebugScheme
from symd.model.debug_info import BODY, NO_FUNCTION, NO_PARENT, RowFlag
from symd.model.frame_text import AnswerTuple, NeedsIndex
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ModuleSummary
from tests.fuzz import spirv_words

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = sorted(
    path
    for folder in ("amdgpu", "cuda", "cute", "kernels", "triton")
    for path in (SAMPLES / folder / "bin").rglob("*.*")
)
STEP, MOST = 12, 40
"""Bytes between addresses, and how many of a section are asked."""
PLAIN = {Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE}
CHANGED = (
    "amdgpu/bin/v4-gfx900.co",
    "amdgpu/bin/v4-gfx900-O0.co",
    "amdgpu/bin/v4-gfx900-dwarf4.co",
    "amdgpu/bin/v5-gfx1100.co",
    "kernels/bin/raycast/dg2-opt.zebin",
    "kernels/bin/raycast/tgllp-opt.zebin",
    "cuda/bin/saxpy.sm_75.lines.cubin",
    "cuda/bin/reduce.sm_80.lines.cubin",
    "cuda/bin/reduce.sm_100.lines.cubin",
    "triton/bin/total-sm_90.cubin",
)


def objects(path: Path) -> list[CodeObject]:
    """The code objects of a file with debug data of its own in DWARF."""
    try:
        opened = containers.unpack(path.read_bytes(), Limits()).objects
    except SymdError:
        return []
    return [code for code in opened if code.kind is CodeKind.MACHINE and code.debug is not DebugScheme.NONE][:4]


def as_plain(answer: Answer) -> AnswerTuple:
    return int(answer.reason), tuple(tuple(frame[:5]) for frame in answer.frames)  # type: ignore[misc]


def plainly(answer: Callable[..., AnswerTuple], *place: Any) -> AnswerTuple | None:
    """What is answered without an index; None where it is left to one."""
    try:
        return answer(*place)
    except (NeedsIndex, SymdError):
        return None


def asked(code: CodeObject) -> Iterator[tuple[AnswerTuple | None, Answer]]:
    """What is answered without an index, and by one."""
    index = Index(build(decoded_objects([code]), ModuleSummary(Digest("0" * 64), 0, "")))
    for number, section in enumerate(index.sections):
        for offset in range(0, min(index.section_size(number), STEP * MOST), STEP):
            assert section.section_index is not None
            yield (
                plainly(answer_at, code, section.section_index, offset, Limits()),
                index._lookup.answer_in(number, offset),
            )


@pytest.mark.parametrize("folder", ["amdgpu", "cuda", "cute", "kernels", "triton"])
def test_every_answer_is_the_whole_indexs(folder: str) -> None:
    """As many are answered as do not become fewer unnoticed: what Triton makes for AMD's devices is left to the index."""
    least = {"amdgpu": 0.85, "cuda": 0.98, "cute": 0, "kernels": 0.9, "triton": 0.6}[folder]
    plain_enough, reasons = 0, Counter[int]()
    for path in FILES:
        if path.is_relative_to(SAMPLES / folder):
            for code in objects(path):
                for said, known in asked(code):
                    plain_enough += known.reason in PLAIN and bool(known.frames)
                    assert said is None or said == as_plain(known), (
                        path,
                        code.path,
                        known.section,
                        known.section_offset,
                    )
                    reasons.update([] if said is None else [said[0]])
    assert reasons.total() >= least * plain_enough > 0 or not least
    assert reasons.keys() >= PLAIN or folder != "amdgpu"
    assert reasons.keys() >= {Reason.INFERRED, Reason.CONTRADICTORY} or folder != "cute"


@pytest.mark.parametrize("seed", range(4))
def test_other_bytes_in_the_debug_data_change_both_answers_alike(seed: int) -> None:
    dice = random.Random(seed)
    answered = 0
    for _ in range(60):
        data = changed(dice, (SAMPLES / dice.choice(CHANGED)).read_bytes())
        code = containers.unpack(data, Limits()).objects[0]
        for said, known in asked(code):
            if dice.random() < 0.5 and said is not None:
                assert said == as_plain(known), known.section_offset
                answered += 1
    assert answered > 500


def changed(dice: random.Random, data: bytes) -> bytes:
    """An image with a few bytes of its debug sections changed."""
    image, found = elf.parse(data, Budget(Limits())), bytearray(data)
    debug = [
        range(section.begin, section.end)
        for section in image.sections
        if section.name in ELF_NAMES and section.end > section.begin
    ]
    for _ in range(dice.choice((1, 1, 2))):
        extent = dice.choice(debug)
        at = dice.randrange(extent.start, extent.stop)
        found[at] = dice.choice(
            (found[at] ^ 1 << dice.randrange(8), found[at] + dice.choice((1, 4, 252, 255)) & 0xFF, 0, 1)
        )
    return bytes(found)


def test_its_numbers_are_those_of_answers_and_scopes() -> None:
    for name in ("EXACT", "APPROXIMATE", "NO_LINE", "INFERRED", "CONTRADICTORY"):
        assert getattr(frame_text, name) == Reason[name]
    assert (address_scopes.NO_PARENT, address_scopes.NO_FUNCTION, address_scopes._BODY) == (
        NO_PARENT,
        NO_FUNCTION,
        BODY,
    )
    assert rows_alone._END_SEQUENCE == RowFlag.END_SEQUENCE
    assert spirv._END_SEQUENCE == RowFlag.END_SEQUENCE


def of_spirv(data: bytes, step: int = 1) -> Iterator[tuple[AnswerTuple | None, Answer]]:
    """The same of the instructions of a SPIR-V module."""
    code = containers.unpack(data, Limits()).objects[0]
    index = Index(build(decoded_objects([code]), ModuleSummary(Digest("0" * 64), 0, "")))
    words = parsed_module(code).words
    for number in range(0, len(words), step):
        offset = words.offset(number)
        yield plainly(spirv.answer_at_offset, code, offset), index._lookup.answer_in(0, offset)


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.spv")), ids=lambda path: path.name)
def test_every_instruction_of_spirv_is_answered_as_by_the_whole_index(path: Path) -> None:
    """Plainly, but for what its source contradicts, and modules without debug data."""
    for said, known in of_spirv(path.read_bytes()):
        if said is None:
            assert known.reason in {Reason.GAP, Reason.NO_DEBUG_INFO, Reason.CONTRADICTORY}
        else:
            assert said == as_plain(known), known.section_offset


@pytest.mark.parametrize("seed", range(4))
def test_other_instructions_change_both_answers_alike(seed: int) -> None:
    dice, answered = random.Random(seed), Counter[int]()
    seeds = [path.read_bytes() for path in sorted(SAMPLES.rglob("*.spv")) if path.stat().st_size < 9000]
    for _ in range(60):
        data = dice.choice(seeds)
        for _ in range(dice.choice((1, 3))):
            data = spirv_words.mutate(dice, data, lambda content: content)
        try:
            answers = [*of_spirv(data, 5)]
        except SymdError:
            continue
        for said, known in answers:
            assert said is None or said == as_plain(known), known.section_offset
            answered.update([] if said is None else [said[0]])
    assert answered.total() > 500


def test_it_imports_neither_numpy_nor_what_takes_as_long() -> None:
    program = "import sys; import symd.debuginfo.one_address, symd.debuginfo.rows_alone; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "click", "symd.index", "pathlib"}.intersection(done.stdout.split())


def test_spirv_inside_a_container_is_left_to_the_whole_index() -> None:
    (code,) = containers.unpack((SAMPLES / "kernels/bin/vadd/O0.spv").read_bytes(), Limits()).objects
    offset = code.kernels[0].offset
    assert spirv.answer_at_offset(code, offset)
    with pytest.raises(NeedsIndex, match="inside a container"):
        spirv.answer_at_offset(code._replace(path=ObjectPath(".rodata")), offset)


_NO_PARENT = 0xFFFFFFFF


def scopes(*call: int) -> AddressScopes:
    """A function at [0x100, 0x200), a call in it at [0x140, 0x180), and one in that whose range is given."""
    none = memoryview(array("I", [0, 0, 0]))
    columns = [memoryview(array("I", [_NO_PARENT, 0, 1])), memoryview(array("I", [0, 1, 2])), none, none, none, none]
    columns.append(memoryview(array("I", [0, 1, 2])))
    ranges = array("I", [0, 1, 2]), array("Q", [0x100, 0x140, call[0]]), array("Q", [0x200, 0x180, call[1]])
    return AddressScopes(columns, memoryview(bytes([0, 1, 1])), ranges, ["shade", "twice", "mix"], [""])


def test_calls_inside_each_other_are_a_chain() -> None:
    assert scopes(0x140, 0x180).chain_at(0x150) == ([2, 1, 0], (0x100, 0x200))


@pytest.mark.parametrize("call", [(0x138, 0x170), (0x148, 0x184)])
def test_a_call_that_reaches_out_of_what_it_was_inlined_into_needs_the_index(call: tuple[int, int]) -> None:
    with pytest.raises(NeedsIndex):
        scopes(*call).chain_at(0x150)
