"""Rows and frames of every Intel sample equal LLVM's, row for row and frame for frame, at every instruction slot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement import llvm, oracle_elf, ours
from tests.agreement.samples import KERNELS, Sample, samples

IGC_LINE = {1: 8}
ZEBIN = {1: 8, 2: 4}
STEP = 8
"""Gen instructions start at multiples of 8 bytes."""


def compare(found: ours.Index, kernel: str, elf: bytes, text_size: int, folder: Path, path: str | None = None) -> int:
    """Both comparisons for one kernel; returns the number of rows compared."""
    theirs = [row for table in llvm.line_tables(elf, folder) for row in table]
    assert ours.rows_by_kernel(found, path).get(kernel, []) == theirs
    offsets = list(range(0, text_size, STEP))
    for offset, mine, other in zip(
        offsets, ours.frames(found, kernel, offsets), llvm.frames(elf, offsets, folder), strict=True
    ):
        assert mine == other, f"{kernel}+{offset:#x}"
    return len(theirs)


@pytest.mark.parametrize("sample", samples("igc-debug"), ids=str)
def test_a_debug_container_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    images = oracle_elf.split_container(sample.data)
    assert set(images) == set(sample.kernels) == set(found.kernels)
    rows = 0
    for kernel, image in images.items():
        elf = oracle_elf.addends_stored(image, IGC_LINE)
        rows += compare(found, kernel, elf, oracle_elf.text_sections(image)[".text"], tmp_path, kernel)
    assert rows > 0


@pytest.mark.parametrize("sample", samples("neo-elf"), ids=str)
def test_a_program_binary_answers_as_the_container_inside_it(sample: Sample) -> None:
    found = ours.index(sample.data)
    if sample.debug == "none":
        assert not found.kernels
        return
    inside = ours.index(oracle_elf.neo_debug_section(sample.data))
    for kernel, entries in inside.kernels.items():
        offsets = list(range(0, entries[0].size, STEP))
        assert ours.frames(found, kernel, offsets) == ours.frames(inside, kernel, offsets)
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
            compare(found, kernel, elf, found.kernels[kernel][0].size, tmp_path)


@pytest.mark.parametrize("sample", samples("igc-elf"), ids=str)
def test_a_dumped_kernel_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    patched = int.from_bytes(sample.data[18:20], "little") == 182
    elf = oracle_elf.addends_stored(sample.data, IGC_LINE) if patched else sample.data
    for kernel, entries in found.kernels.items():
        compare(found, kernel, elf, entries[0].size, tmp_path)
