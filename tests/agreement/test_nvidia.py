"""Answers about CUDA samples, through the whole path from the file to the frames, against nvdisasm at every instruction."""

from __future__ import annotations

import pytest

from symd.index import Index
from symd.model.addresses import BySection, SectionOffset
from symd.model.answers import Answer, Reason
from symd.query.symbolize import symbolize
from tests.agreement import ours
from tests.golden.cuda import make, positions, samples

WITH_LINES = [name for name in samples.CUBINS if ".none." not in name]


def _answers(found: Index, section: int, size: int) -> list[Answer]:
    queries = [BySection(section, SectionOffset(offset)) for offset in range(0, size, positions.INSTRUCTION)]
    return list(symbolize(found, queries))


def _functions(answer: Answer) -> list[str]:
    return [frame.function or "" for frame in answer.frames]


@pytest.mark.parametrize("name", WITH_LINES)
def test_frames_are_the_chain_that_nvdisasm_prints(name):
    """As it is written: nvdisasm follows the numbers that ptxas miscounts, and says nothing of functions without rows."""
    found = ours.index(samples.data(name)).view(as_written=True)
    compared = 0
    for section, shown in positions.matched(samples.code(name), positions.printed("lines.txt", name)):
        answers = _answers(found, section.index, section.size)
        for answer, (offset, chain, new) in zip(answers, positions.instructions(section, shown), strict=True):
            frames = [(frame.file, frame.line) for frame in answer.frames]
            if not chain or any("__cuda_sm" in part for part in _functions(answer)):
                assert answer.reason == Reason.NO_LINE, (section.name, hex(offset))
                continue
            assert answer.reason == Reason.EXACT
            assert frames[0] == chain[0], (section.name, hex(offset))
            if new and not positions.is_debug(name):
                assert frames == chain, (section.name, hex(offset))
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("name", ["tonemap.sm_90a.lines.cubin", "linked.sm_80.lines.cubin"])
def test_the_deepest_chain_of_the_source_is_found_by_name(name):
    """In tonemap.cu and linked_kernel.cu the kernel calls tone, that calls to_linear, that calls cubic."""
    code = samples.code(name)
    found = ours.index(samples.data(name))
    kernel = code.kernels[0]
    chains = {
        tuple(frame.function for frame in answer.frames)
        for answer in _answers(found, kernel.section_index, kernel.size)
    }
    assert ("_Z5cubicffff", "_Z9to_linearf", "_Z4toneff", kernel.name) in chains
    assert max(map(len, chains)) == 4


def test_the_two_copies_of_a_function_in_a_linked_image_are_two_places():
    code = samples.code("linked.sm_80.lines.cubin")
    found = ours.index(samples.data("linked.sm_80.lines.cubin"))
    slow = [one.section_index for one in code.functions if one.name == "__cuda_sm20_sqrt_rn_f32_slowpath"]
    answers = [answer for section in slow for answer in _answers(found, section, 16)]
    assert [answer.section_index for answer in answers] == slow
    assert {answer.frames[0].function for answer in answers} == {"__cuda_sm20_sqrt_rn_f32_slowpath"}


@pytest.mark.parametrize("name", sorted(make.read("extracted.txt")))
def test_fat_binaries_and_host_programs_hold_the_code_that_cuobjdump_extracts(name):
    found = ours.index(samples.data(name))
    golden = {line.split()[2] for line in make.read("extracted.txt")[name]}
    assert golden <= {one.sha256 for one in found.summary.objects}
