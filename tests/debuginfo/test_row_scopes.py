"""Scopes made of rows alone: chains of NVIDIA's inlined rows against nvdisasm, names against elfutils, hand-made corners, lines of nobody knows whom."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import symd
from symd.core import row_scopes as core
from symd.debuginfo import reading, row_scopes, rows_alone
from symd.debuginfo.relocation import cuda, linear_layout
from symd.debuginfo.text_ranges import section_of
from symd.errors import LimitExceeded
from symd.model.answers import Reason
from symd.model.code import Function
from symd.model.debug_info import NO_PARENT, DebugInfo, Doubt, LineRows, RowCalls, RowFlag, Scopes
from symd.model.reasons import LINED
from tests.core.uncompiled import uncompiled
from tests.debuginfo import nvidia_lines
from tests.golden.cuda import positions, samples

SAMPLES = Path(__file__).parents[2] / "samples"
UNCOMPILED = uncompiled("row_scopes")
WITH_LINES = [name for name in samples.CUBINS if ".none." not in name and not positions.is_debug(name)]


@pytest.fixture(params=[core, UNCOMPILED], ids=["compiled", "uncompiled"], autouse=True)
def _core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_alone, "core", request.param)


def test_its_numbers_are_those_of_rows_and_answers() -> None:
    assert (uncompiled("row_extents")._ENDS, UNCOMPILED._NO_CALLER) == (RowFlag.END_SEQUENCE, Doubt.CALLER)
    assert (core.INFERRED, core.CONTRADICTORY) == (Reason.INFERRED, Reason.CONTRADICTORY)


def _innermost(scopes: Scopes, section: int, offset: int) -> int | None:
    """The deepest scope that covers an offset."""
    covering = [
        int(scopes.range_scope[at])
        for at in range(len(scopes.range_scope))
        if scopes.range_section[at] == section and scopes.range_offset[at] <= offset < scopes.range_end[at]
    ]
    return max(covering, key=lambda scope: len(_path(scopes, scope)), default=None)


def _path(scopes: Scopes, scope: int) -> list[int]:
    """The scope and those around it."""
    result = [scope]
    while scopes.parent[result[-1]] != NO_PARENT:
        result.append(int(scopes.parent[result[-1]]))
    return result


def _row_at(rows: LineRows, section: int, offset: int) -> int | None:
    numbers = np.flatnonzero((rows.section == section) & (rows.offset <= offset))
    return None if not len(numbers) or rows.flags[numbers[-1]] & RowFlag.END_SEQUENCE else int(numbers[-1])


def _frames(rows: LineRows, files: tuple[str, ...], scopes: Scopes, section: int, offset: int) -> positions.Chain:
    row = _row_at(rows, section, offset)
    if row is None:
        return []
    scope = _innermost(scopes, section, offset)
    calls = [one for one in _path(scopes, scope) if scopes.inlined[one]] if scope is not None else []
    outer = [(files[scopes.call_file[one]], int(scopes.call_line[one])) for one in calls]
    return [(files[rows.file[row]], int(rows.line[row])), *outer]


def _is_mended(inlined: row_scopes.InlinedScopes, section: int, offset: int) -> bool:
    """Whether an offset is answered otherwise than is written, as tests/agreement judges by the source text."""
    spans = inlined.written
    return bool(((spans.section == section) & (spans.start <= offset) & (offset < spans.end)).any())


def _read(name: str) -> tuple[DebugInfo, row_scopes.InlinedScopes]:
    code = samples.code(name)
    debug = reading.read(code)
    return debug, row_scopes.scopes(debug.rows, debug.names, code.functions, files=debug.files)


@pytest.mark.parametrize("name", WITH_LINES)
def test_scopes_and_rows_give_the_chain_that_nvdisasm_prints(name):
    debug, inlined = _read(name)
    chains = 0
    for section, shown in positions.matched(samples.code(name), positions.printed("lines.txt", name)):
        for offset, chain, new in positions.instructions(section, shown):
            if new and not _is_mended(inlined, section.index, offset):
                found = _frames(debug.rows, tuple(debug.files), inlined.scopes, section.index, offset)
                assert found == chain, (section.name, hex(offset))
                chains += len(chain) > 1
    assert chains or name.startswith(("saxpy", "tables")), "nothing is inlined in these"


@pytest.mark.parametrize("name", WITH_LINES)
def test_frames_have_the_names_of_the_row_and_of_each_row_around_it(name):
    code = samples.code(name)
    _, inlined = _read(name)
    plan = linear_layout(code)
    sections = cuda(code, plan)
    for sequence in nvidia_lines.decode(sections[".debug_line"], sections.get(".debug_str", b"")):
        section, start, found = section_of(plan, np.array([sequence.rows[0].address], np.uint64))
        if not found[0]:
            continue
        for number, row in enumerate(sequence.rows[:-1], 1):
            offset = row.address - sequence.rows[0].address + int(start[0])
            if sequence.at(row.address) != number or not row.context:
                continue
            if _is_mended(inlined, int(section[0]), offset):
                continue
            scope = _innermost(inlined.scopes, int(section[0]), offset)
            assert scope is not None
            names = [inlined.names[inlined.scopes.name[one]] for one in _path(inlined.scopes, scope)]
            expected = [row.name]
            while (row := sequence.rows[row.context - 1]).context:
                expected.append(row.name)
            covering = [
                one
                for one in code.functions
                if one.section_index == section[0] and one.offset <= offset < one.offset + one.size
            ]
            assert names == [*expected, min(covering, key=lambda one: one.size).name]


FILES = ("", "scale.cu")


def _rows(table: list[tuple[int, int, int, int]], end: int) -> LineRows:
    """Rows of section 1, file 1 from (offset, line, context, name), and the end of the sequence."""
    columns = np.array([*table, (end, 0, 0, 0)]).T
    flags = np.ones(len(table) + 1, np.uint8)
    flags[-1] |= RowFlag.END_SEQUENCE
    one = np.ones(len(table) + 1, np.uint32)
    site, name = columns[2].astype(np.uint32), columns[3].astype(np.uint32)
    calls = RowCalls(site, name, site, name, np.zeros(len(table) + 1, np.uint8))
    return LineRows(one, columns[0].astype(np.uint64), one, columns[1].astype(np.uint32), one * 0, flags, calls)


FUNCTIONS = (Function("kernel", 1, 0, 256), Function("callee", 1, 64, 64))


def test_a_call_inside_a_smaller_function_belongs_to_that_function():
    rows = _rows([(0, 1, 0, 0), (0, 10, 1, 1), (16, 2, 0, 0), (64, 5, 0, 0), (64, 10, 4, 1), (80, 6, 0, 0)], 256)
    found = row_scopes.scopes(rows, ("", "helper"), FUNCTIONS, files=FILES)
    assert [found.names[name] for name in found.scopes.name] == ["kernel", "callee", "helper", "helper"]
    assert found.scopes.parent.tolist() == [NO_PARENT, NO_PARENT, 0, 1]
    assert found.scopes.call_line.tolist() == [0, 0, 1, 5]
    assert list(zip(found.scopes.range_scope, found.scopes.range_offset, found.scopes.range_end, strict=True)) == [
        (0, 0, 16), (1, 64, 80), (2, 0, 16), (3, 64, 80),
    ]  # fmt: skip


def test_neighbouring_rows_of_one_call_are_one_range():
    rows = _rows([(0, 1, 0, 0), (0, 10, 1, 1), (16, 11, 1, 1), (32, 12, 1, 1), (48, 2, 0, 0), (64, 13, 1, 1)], 80)
    found = row_scopes.scopes(rows, ("", "helper"), FUNCTIONS[:1], files=FILES)
    spans = list(zip(found.scopes.range_scope, found.scopes.range_offset, found.scopes.range_end, strict=True))
    assert spans == [(0, 0, 48), (0, 64, 80), (1, 0, 48), (1, 64, 80)]


def test_without_inlined_rows_there_are_no_scopes():
    rows = _rows([(0, 1, 0, 0), (16, 2, 0, 0)], 32)
    for given in (rows, LineRows(rows.section, rows.offset, rows.file, rows.line, rows.column, rows.flags)):
        found = row_scopes.scopes(given, ("",), FUNCTIONS, files=FILES)
        assert (len(found.scopes), len(found.scopes.range_scope), found.warnings) == (0, 0, ())


def test_a_chain_without_end_costs_a_warning_and_not_the_square_of_its_length():
    count = 20_000
    rows = _rows([(16 * number, number, number, 1) for number in range(count)], 16 * count)
    found = row_scopes.scopes(rows, ("", "helper"), [Function("kernel", 1, 0, 16 * count)], files=FILES)
    depth = core.MAX_DEPTH
    assert found.warnings == (f"left out: the callers of {count - 1 - depth:,} rows inlined more than {depth} deep",)
    assert len(found.scopes.range_scope) <= depth * (depth + 3)


def test_code_without_a_symbol_has_a_function_without_a_name():
    found = row_scopes.scopes(_rows([(0, 1, 0, 0), (0, 10, 1, 1)], 16), ("", "helper"), (), files=FILES)
    assert [found.names[name] for name in found.scopes.name] == ["", "helper"]


@pytest.mark.parametrize(("file", "name"), [("scale.py", "kernel"), ("scale.cu", "module.callee")])
def test_a_compiler_of_python_that_names_what_it_inlines_after_the_function_around_it_tells_nothing_of_other_functions(
    file, name
):
    """Triton: a helper is inlined into the kernel and into a function that stays a call, and the assembler writes its name for a line of it in the latter alone."""
    rows = _rows([(0, 1, 0, 0), (0, 10, 1, 1), (16, 11, 1, 2), (32, 2, 0, 0), (64, 5, 0, 0), (64, 11, 5, 2)], 256)
    assert rows.calls is not None
    written = np.array([0, 1, 1, 0, 0, 2, 0], np.uint32)
    found = row_scopes.scopes(
        replace(rows, calls=rows.calls._replace(written_name=written)),
        ("", "kernel", "module.callee"),
        (Function("kernel", 1, 0, 256), Function("$kernel$module_$_callee", 1, 64, 64)),
        files=("", file),
    )
    inlined = _innermost(found.scopes, 1, 16)
    assert inlined is not None
    assert found.names[found.scopes.name[inlined]] == name
    assert _is_mended(found, 1, 16) == (name != "kernel")


def _nested(innermost: list[int], depth: int, spend: Callable[[int], object]) -> list[tuple[int, int, int]]:
    """The ranges (scope, begin, end) of rows of 16 bytes with these innermost scopes, each of ``depth`` inside the one before it."""
    count = len(innermost)
    parent = array("I", [NO_PARENT, *range(depth - 1)])
    begins, ends = (array("Q", range(first, first + 16 * count, 16)) for first in (0, 16))
    rows = array("I", [1]) * count, begins, ends, array("I", range(count)), array("i", innermost)
    scope, _, start, end = rows_alone.core.scope_ranges(parent, rows, spend)
    return [*zip(scope, start, end, strict=True)]


def test_rows_inside_of_many_calls_are_one_range_of_each() -> None:
    depth, count = 60, 2000
    spent: list[int] = []
    assert _nested([depth - 1] * count, depth, spent.append) == [(scope, 0, 16 * count) for scope in range(depth)]
    assert sum(spent) == depth


def test_ranges_are_asked_for_before_they_are_made() -> None:
    """Rows that are by turns in the innermost of many calls and in none of them have a range for each."""
    depth, count = 60, 2000
    spent: list[int] = []

    def spend(ranges: int) -> None:
        spent.append(ranges)
        if sum(spent) > 3000:
            raise LimitExceeded("too many")

    with pytest.raises(LimitExceeded, match="too many"):
        _nested([depth - 1, -1] * count, depth, spend)
    assert max(spent) < 1024 + depth
    assert len(_nested([depth - 1, 0] * 20, depth, bool)) == 1 + 20 * (depth - 1)


def test_functions_inside_each_other_take_no_longer_than_those_that_are_not() -> None:
    count = 3000
    rows = _rows([(number, 1, 0, 0) for number in range(count)], count)
    functions = [Function(f"f{number}", 1, number // 2, count - number) for number in range(count)]
    found = row_scopes.scopes(rows, ("",), functions, files=FILES, leaves_out_calls=True)
    said = zip(found.written.start.tolist(), found.scopes.name[found.written.scope].tolist(), strict=True)
    around = {at: [one for one in functions if one.offset <= at < one.offset + one.size] for at in range(0, count, 500)}
    wanted = {at: min(each, key=lambda one: one.size).name for at, each in around.items() if each}
    assert {at: found.names[name] for at, name in said if at in wanted} == wanted


def test_lines_of_slang_that_may_be_a_callees_are_doubted() -> None:
    """``fall`` begins on line 11 of eased.slang, and ``eased``, which was inlined into it, ends on line 8."""
    with symd.open(SAMPLES / "slang" / "bin" / "eased.g1.spv") as module:
        start = module.kernels[0].offset
        offsets = range(start, start + module.kernels[0].size, 4)
        said = {
            (answer.frames[0].line, answer.reason) for answer in module.symbolize(offsets) if answer.reason in LINED
        }
        written = {answer.reason for answer in module.symbolize(offsets, as_written=True) if answer.reason in LINED}
    assert {line for line, reason in said if reason is Reason.CONTRADICTORY} == {6, 7}
    assert {line for line, reason in said if reason is Reason.INFERRED} <= set(range(11, 18))
    assert {reason for _, reason in said} == {Reason.CONTRADICTORY, Reason.INFERRED}
    assert written == {Reason.EXACT}


def test_what_ends_a_sequence_and_what_has_no_line_is_no_first_row() -> None:
    """A function begins with its first row that has a line; the end of the code in front of it says nothing of it."""
    rows = _rows([(0, 50, 0, 0), (0x10, 60, 0, 0), (0x10, 0, 0, 0), (0x20, 5, 0, 0), (0x30, 7, 0, 0)], 0x40)
    rows.flags[1] |= RowFlag.END_SEQUENCE
    functions = [Function("before", 1, 0, 0x10), Function("it", 1, 0x10, 0x30)]
    found = row_scopes.scopes(rows, ("",), functions, files=FILES, leaves_out_calls=True).written
    said = dict(zip(found.start.tolist(), found.reason.tolist(), strict=True))
    assert said[0x20] == said[0x30] == Reason.INFERRED
