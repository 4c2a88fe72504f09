"""The comparison itself: rows and frames of one kernel, symd beside LLVM, at every instruction slot. LLVM answers what
rows and scopes say, also where they contradict each other, and so does symd here; what symd answers otherwise is compared
with the source text (test_source_text)."""

from __future__ import annotations

from pathlib import Path

from symd.index import Index
from symd.model.answers import Answer, Reason
from tests.agreement import llvm, oracle_elf, ours

IGC_LINE = {1: 8}
FUNCTIONS_ONLY = "Intel_Symbol_Table_Void_Program"
STEP = 8
"""Gen instructions start at multiples of 8 bytes."""


def compare(data: bytes, found: Index, kernel: str, elf: bytes, folder: Path, path: str | None = None) -> int:
    """Both comparisons for one kernel of a module; returns the number of rows compared."""
    text_size = found.kernels[kernel][0].size
    theirs = [row for table in llvm.line_tables(elf, folder) for row in table]
    assert ours.rows_by_kernel(found, path).get(kernel, []) == theirs
    offsets = list(range(0, text_size, STEP))
    answers, others = ours.written(found, kernel, offsets), llvm.frames(elf, offsets, folder)
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


def compare_container(data: bytes, kernels: set[str], folder: Path) -> int:
    """Every kernel of an IGC debug container; returns the number of rows compared."""
    found = ours.index(data)
    images = oracle_elf.split_container(data)
    assert set(images) - {FUNCTIONS_ONLY} == kernels == set(found.kernels)
    rows = 0
    for kernel in kernels:
        image = images[kernel]
        assert found.kernels[kernel][0].size == oracle_elf.text_sections(image)[".text"]
        elf = oracle_elf.addends_stored(image, IGC_LINE)
        rows += compare(image, found, kernel, elf, folder, kernel)
    return rows


def compare_zebin(data: bytes, kernels: set[str], folder: Path) -> int:
    """Every kernel of a zebin or debug zebin, LLVM reading it with the kernels placed apart."""
    found = ours.index(data)
    elf, texts = oracle_elf.linked(data)
    symbols = oracle_elf.function_symbols(data)
    mine = ours.rows_by_kernel(found)
    assert set(texts) - {FUNCTIONS_ONLY} == kernels == set(found.kernels)
    theirs = [row for table in llvm.line_tables(elf, folder) for row in table]
    for number, kernel in enumerate(texts):
        base = number * oracle_elf.APART
        own = [row.moved(-base) for row in theirs if base <= row.address < base + oracle_elf.APART]
        if kernel == FUNCTIONS_ONLY:
            continue
        assert mine.get(kernel, []) == own
        offsets = list(range(0, found.kernels[kernel][0].size, STEP))
        others = llvm.frames(elf, [base + offset for offset in offsets], folder)
        for answer, other in zip(ours.written(found, kernel, offsets), others, strict=True):
            assert agrees(answer, other, symbols), f"{kernel}: {answer} != {other}"
    return len(theirs)
