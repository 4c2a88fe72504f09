"""Rows and frames of every Intel sample equal LLVM's, row for row and frame for frame, at every instruction slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.index import Index
from symd.model import Answer, Reason
from tests.agreement import llvm, oracle_elf, ours
from tests.agreement.samples import KERNELS, Sample, samples

IGC_LINE = {1: 8}
ZEBIN = {1: 8, 2: 4}
FUNCTIONS_ONLY = "Intel_Symbol_Table_Void_Program"
STEP = 8
"""Gen instructions start at multiples of 8 bytes."""


def compare(data: bytes, found: Index, kernel: str, elf: bytes, folder: Path, path: str | None = None) -> int:
    """Both comparisons for one kernel of a module; returns the number of rows compared."""
    text_size = found.kernels[kernel][0].size
    theirs = [row for table in llvm.line_tables(elf, folder) for row in table]
    assert ours.rows_by_kernel(found, path).get(kernel, []) == theirs
    offsets = list(range(0, text_size, STEP))
    answers, others = ours.answers(found, kernel, offsets), llvm.frames(elf, offsets, folder)
    symbols = oracle_elf.function_symbols(data)
    for offset, answer, other in zip(offsets, answers, others, strict=True):
        assert agrees(answer, other, symbols), f"{kernel}+{offset:#x}: {answer} != {other}"
    return len(theirs)


def agrees(answer: Answer, other: list[llvm.Frame], symbols: set[str]) -> bool:
    """Frames equal LLVM's, but for two differences. Where the row says line 0, which LLVM 14 passes on, the innermost
    position is that of an earlier line, said to be approximate. Where the debug data knows no function, the one that
    the module's symbol table has there is named; what LLVM reads here has no symbols."""
    mine = ours.frames(answer)
    if other[0][0] == "" and mine[0][0] in symbols and len(other) == 1:
        mine[0] = ("", *mine[0][1:])
    if answer.reason is Reason.APPROXIMATE:
        return other[0][2] == 0 and mine[0][0] == other[0][0] and mine[1:] == other[1:]
    if answer.reason is Reason.NO_DEBUG_INFO:
        return other == [("", "", 0, 0)]
    return mine == other


@pytest.mark.parametrize("sample", samples("igc-debug"), ids=str)
def test_a_debug_container_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    images = oracle_elf.split_container(sample.data)
    assert set(images) - {FUNCTIONS_ONLY} == set(sample.kernels) == set(found.kernels)
    rows = 0
    for kernel in sample.kernels:
        image = images[kernel]
        elf = oracle_elf.addends_stored(image, IGC_LINE)
        assert found.kernels[kernel][0].size == oracle_elf.text_sections(image)[".text"]
        rows += compare(image, found, kernel, elf, tmp_path, kernel)
    assert rows > 0


@pytest.mark.parametrize("sample", samples("neo-elf"), ids=str)
def test_a_program_binary_answers_as_the_container_inside_it(sample: Sample) -> None:
    found = ours.index(sample.data)
    if sample.debug == "none":
        assert [answer.reason for answer in ours.answers(found, "saxpy", [0])] == [Reason.UNKNOWN_KERNEL]
        assert ours.rows_by_kernel(found) == {}
        assert any("without debug information" in note for note in found.summary.notes)
        return
    inside = ours.index(oracle_elf.neo_debug_section(sample.data))
    for kernel, entries in inside.kernels.items():
        offsets = list(range(0, entries[0].size, STEP))
        mine, other = (ours.answers(index, kernel, offsets) for index in (found, inside))
        assert [(a.reason, a.frames) for a in mine] == [(a.reason, a.frames) for a in other]
    assert ours.rows_by_kernel(found) == ours.rows_by_kernel(inside)


def dumps_of(sample: Sample) -> dict[str, bytes]:
    """What the same compilation dumped: one x86-64 ELF a kernel, which LLVM relocates by itself."""
    stem = KERNELS / "bin" / sample.path.removesuffix(".zebin")
    return {
        path.name.removesuffix(".elf").partition("-zebin.")[2]: path.read_bytes()
        for path in stem.parent.glob(f"{stem.name}-zebin.*.elf")
    }


@pytest.mark.parametrize("sample", samples("zebin"), ids=str)
def test_a_zebin_agrees_with_llvm_on_what_the_same_compilation_dumped(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    assert set(found.kernels) == set(sample.kernels)
    if sample.debug == "none":
        return
    dumps = dumps_of(sample)
    if not dumps and len(oracle_elf.text_sections(sample.data)) == 1:
        dumps = {sample.kernels[0]: oracle_elf.addends_stored(sample.data, ZEBIN)}
    for kernel, elf in dumps.items():
        if kernel in found.kernels:
            compare(sample.data, found, kernel, elf, tmp_path)


@pytest.mark.parametrize("sample", samples("igc-elf"), ids=str)
def test_a_dumped_kernel_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    patched = int.from_bytes(sample.data[18:20], "little") == 182
    elf = oracle_elf.addends_stored(sample.data, IGC_LINE) if patched else sample.data
    for kernel in found.kernels:
        compare(sample.data, found, kernel, elf, tmp_path)
