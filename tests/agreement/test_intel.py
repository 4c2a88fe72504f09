"""Rows and frames of every Intel sample equal LLVM's, row for row and frame for frame, at every instruction slot."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.model.addresses import BySection, SectionOffset
from symd.model.answers import Reason
from symd.query.symbolize import symbolize
from tests.agreement import oracle_elf, ours
from tests.agreement.comparison import IGC_LINE, STEP, compare, compare_container, compare_zebin
from tests.agreement.samples import KERNELS, Sample, samples


@pytest.mark.parametrize("sample", samples("igc-debug"), ids=str)
def test_a_debug_container_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    assert compare_container(sample.data, set(sample.kernels), tmp_path) > 0


@pytest.mark.parametrize("sample", samples("debug-zebin"), ids=str)
def test_a_debug_zebin_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    assert compare_zebin(sample.data, set(sample.kernels), tmp_path) > 0


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
    for kernel, elf in dumps_of(sample).items():
        if kernel in found.kernels:
            compare(sample.data, found, kernel, elf, tmp_path)


@pytest.mark.parametrize("sample", samples("zebin"), ids=str)
def test_a_zebin_agrees_with_llvm_on_the_addends(sample: Sample, tmp_path: Path) -> None:
    if sample.debug == "none":
        return
    assert compare_zebin(sample.data, set(sample.kernels), tmp_path) > 0


@pytest.mark.parametrize("name", ["bodies/igc2-dg2-O0.zebin", "reduce/igc2-dg2-O0.zebin"])
def test_code_of_the_compilers_own_function_has_no_line(name: str) -> None:
    """``__intel_memfence_optnone`` has a symbol, and neither a DIE nor a row: the kernel's last one is stretched over it."""
    data = (KERNELS / "bin" / name).read_bytes()
    found, elf = ours.index(data), ELFFile(BytesIO(data))
    own = [symbol for symbol in elf.get_section_by_name(".symtab").iter_symbols() if "memfence" in symbol.name]
    assert own
    for symbol in own:
        end = symbol["st_value"] + symbol["st_size"]
        places = [BySection(symbol["st_shndx"], SectionOffset(at)) for at in range(symbol["st_value"], end, STEP)]
        answers = symbolize(found, places)
        assert {(each.reason, *(frame.function for frame in each.frames)) for each in answers} == {
            (Reason.NO_LINE, symbol.name)
        }
        assert {each.reason for each in symbolize(found.view(as_written=True), places)} == {Reason.EXACT}


@pytest.mark.parametrize("sample", samples("igc-elf"), ids=str)
def test_a_dumped_kernel_agrees_with_llvm(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    patched = int.from_bytes(sample.data[18:20], "little") == 182
    elf = oracle_elf.addends_stored(sample.data, IGC_LINE) if patched else sample.data
    for kernel in found.kernels:
        compare(sample.data, found, kernel, elf, tmp_path)
