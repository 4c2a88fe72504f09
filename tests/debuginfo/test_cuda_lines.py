"""The bulk decoder on real cubins, every row and inlined call, against the plain reader of these tests and nvdisasm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.relocation import LinearLayout, cuda, linear_layout
from symd.debuginfo.text_ranges import section_of
from symd.model.debug_info import NO_PARENT, RowFlag
from tests.debuginfo import nvidia_lines
from tests.debuginfo.dwarf.decode import read_lines, read_scopes
from tests.golden.cuda import positions, samples

WITH_LINES = [name for name in samples.CUBINS if ".none." not in name]


def _bulk(name: str) -> tuple[LineColumns, dict[str, bytes], LinearLayout]:
    code = samples.code(name)
    plan = linear_layout(code)
    sections = cuda(code, plan)
    return read_lines(sections), sections, plan


def _plain_rows(sections: dict[str, bytes]) -> Iterator[tuple[object, ...]]:
    start = 0
    for sequence in nvidia_lines.decode(sections[".debug_line"], sections.get(".debug_str", b"")):
        for row in sequence.rows:
            context = start + row.context if row.context else 0
            yield row.address, sequence.files[row.file - 1], row.line, context, row.name, row.end
        start += len(sequence.rows)


@pytest.mark.parametrize("name", WITH_LINES)
def test_rows_are_those_of_the_plain_reader(name):
    lines, sections, _ = _bulk(name)
    assert lines.warnings == ()
    none = np.zeros(len(lines), np.uint32)
    sites = none if lines.calls is None else lines.calls.written_site
    called = none if lines.calls is None else lines.calls.written_name
    written = np.flatnonzero((lines.flags & RowFlag.IMPLIED) == 0)
    context = np.searchsorted(written, sites, side="left")
    found = [
        (
            int(lines.address[at]),
            lines.files[lines.file[at]],
            int(lines.line[at]),
            int(context[at]),
            lines.names[called[at]],
            bool(lines.flags[at] & RowFlag.END_SEQUENCE),
        )
        for at in written.tolist()
    ]
    assert found == list(_plain_rows(sections))


def _chain(lines: LineColumns, row: int) -> positions.Chain:
    """As it is written, as nvdisasm has it."""
    result = [(lines.files[lines.file[row]], int(lines.line[row]))]
    while lines.calls is not None and lines.calls.written_site[row]:
        row = int(lines.calls.written_site[row]) - 1
        result.append((lines.files[lines.file[row]], int(lines.line[row])))
    return result


@pytest.mark.parametrize("name", WITH_LINES)
def test_every_instruction_has_the_inline_chain_that_nvdisasm_prints(name):
    code = samples.code(name)
    lines, _, plan = _bulk(name)
    compared = 0
    for section, shown in positions.matched(code, positions.printed("lines.txt", name)):
        base = plan.base_of(section.index)
        assert base is not None
        inside = np.flatnonzero((lines.address >= base) & (lines.address <= base + section.size))
        starts = lines.address[inside]
        for offset, chain, new in positions.instructions(section, shown):
            slot = int(np.searchsorted(starts, base + offset, side="right")) - 1
            ended = slot < 0 or bool(lines.flags[inside[slot]] & RowFlag.END_SEQUENCE)
            found = [] if ended else _chain(lines, int(inside[slot]))
            assert found[:1] == chain[:1], (section.name, hex(offset))
            if new and not positions.is_debug(name):
                assert found == chain, (section.name, hex(offset))
            compared += bool(chain)
    assert compared > 20


@pytest.mark.parametrize("name", [name for name in WITH_LINES if positions.is_debug(name)])
def test_functions_of_full_debug_information_cover_exactly_their_own_symbol(name):
    code = samples.code(name)
    lines, sections, plan = _bulk(name)
    scopes = read_scopes(sections, lines)
    section, offset, found = section_of(plan, scopes.range_start)
    symbols = {(one.name, one.section_index): (one.offset, one.size) for one in code.functions}
    compared = set()
    for at in np.flatnonzero(found):
        scope = scopes.range_scope[at]
        if scopes.parent[scope] != NO_PARENT:
            continue
        linkage = scopes.names[scopes.linkage_name[scope]] or scopes.names[scopes.name[scope]]
        size = int(scopes.range_end[at] - scopes.range_start[at])
        assert symbols[linkage, int(section[at])] == (int(offset[at]), size)
        compared.add(linkage)
    assert compared >= {kernel.name for kernel in code.kernels}
