"""The PTX level of cubins against nvdisasm -gp at every instruction, and its text against the source's own marks."""

from __future__ import annotations

import bisect

import pytest

from symd.debuginfo import embedded_sources
from symd.debuginfo.relocation import linear_layout
from symd.model.debug_info import RowFlag
from tests.golden.cuda import positions, samples

WITH_LINES = [name for name in samples.CUBINS if ".none." not in name]
LOST_BY_NVDISASM = ("linked.sm_90.debug.cubin", ".text.sqrtf__1")
"""The second of two functions with one name. Its sequence has a relocation (entry 0x2ce of .rela.nv_debug_line_sass, as
cuobjdump -elf lists it) against the second symbol of that name, and nvdisasm prints no line for it."""


def _read(name: str) -> embedded_sources.PtxLines:
    code = samples.code(name)
    found = embedded_sources.read(code, linear_layout(code))
    assert found is not None
    assert found.warnings == ()
    return found


def _changes(lines: embedded_sources.PtxLines, section: int) -> tuple[list[int], list[tuple[str, int] | None]]:
    """Offsets in rising order and the position from each on; None where a sequence ends."""
    at: dict[int, tuple[str, int] | None] = {}
    rows = lines.rows
    for number in range(len(rows)):
        if rows.section[number] == section:
            ended = rows.flags[number] & RowFlag.END_SEQUENCE
            position = (lines.files[rows.file[number]], int(rows.line[number]))
            at[int(rows.offset[number])] = None if ended else position
    return sorted(at), [at[offset] for offset in sorted(at)]


@pytest.mark.parametrize("name", WITH_LINES)
def test_every_instruction_has_the_ptx_line_that_nvdisasm_prints(name):
    code = samples.code(name)
    lines = _read(name)
    compared = 0
    for section, shown in positions.matched(code, positions.printed("ptx_lines.txt", name)):
        offsets, found = _changes(lines, section.index)
        if (name, shown.name) == LOST_BY_NVDISASM:
            assert list(shown.changes.values()) == [[]]
            assert found[0] == (".nv_debug_ptx_txt.4119973759", 350)
            continue
        for offset, chain, _ in positions.instructions(section, shown):
            slot = bisect.bisect_right(offsets, offset) - 1
            position = found[slot] if slot >= 0 else None
            assert ([position] if position else []) == chain, (section.name, hex(offset))
            compared += bool(chain)
    assert compared > 20


@pytest.mark.parametrize("name", WITH_LINES)
def test_every_row_has_its_text(name):
    lines = _read(name)
    for file, line in zip(lines.rows.file.tolist(), lines.rows.line.tolist(), strict=True):
        assert lines.text(file, line)


def test_the_text_is_the_instruction_that_the_machine_code_came_from():
    lines = _read("saxpy.sm_75.lines.cubin")
    kernel = next(one for one in samples.code("saxpy.sm_75.lines.cubin").kernels if one.name == "scale")
    texts = [
        lines.text(int(lines.rows.file[at]), int(lines.rows.line[at])) or ""
        for at in range(len(lines.rows))
        if lines.rows.section[at] == kernel.section_index
    ]
    assert any("%tid.x" in text for text in texts)
    assert any(text.strip().startswith("st.global.f32") for text in texts)
    assert any(text.strip() == "ret;" for text in texts)


def test_an_image_without_ptx_lines_has_no_such_level():
    code = samples.code("saxpy.sm_90.none.cubin")
    assert embedded_sources.read(code, linear_layout(code)) is None


def test_linked_images_keep_the_text_of_each_unit():
    lines = _read("linked.sm_80.lines.cubin")
    assert len(lines.texts) == 2
    assert set(lines.files[1:]) == set(lines.texts)


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", []), (b"a\0b\0", ["a", "b"]), (b"a\0\0b", ["a", "", "b"]), (b"\0", [""]), (b"\xff\0", ["\ufffd"])],
)
def test_text_is_lines_that_end_in_nul_and_count_from_one(data, lines):
    text = embedded_sources.PtxText.read(data)
    assert [text.line(number + 1) for number in range(len(text))] == lines
    assert (text.line(0), text.line(-1), text.line(len(lines) + 1)) == (None, None, None)
