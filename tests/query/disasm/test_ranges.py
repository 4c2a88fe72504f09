"""What is disassembled: what symbols cover, each byte once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import NotFound
from symd.model.code import CodeObject, Function, Kernel
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodeSpan
from symd.query.disasm.disassembler import MAX_RANGES_PER_SECTION, InstructionBytes, code_ranges
from tests.query.disasm.objects import made

DATA = bytes(range(200))


def code_range(start: int, end: int) -> InstructionBytes:
    return InstructionBytes(made(DATA), 1, start, DATA[start:end])


def function(start: int, size: int) -> Function:
    return Function(f"f{start}", 1, start, size)


def test_functions_that_touch_or_overlap_are_one_run_and_padding_is_left_out() -> None:
    code = made(DATA, functions=(function(40, 10), function(0, 20), function(20, 8), function(44, 20)))
    assert code_ranges(code) == [code_range(0, 28), code_range(40, 64)]


def test_a_section_without_symbols_is_code_from_end_to_end() -> None:
    assert code_ranges(made(DATA)) == [code_range(0, 200)]


def test_symbols_that_leave_their_section_are_cut() -> None:
    assert code_ranges(made(DATA, functions=(function(190, 1 << 60), function(500, 10)))) == [code_range(190, 200)]


def test_what_is_asked_for_is_the_range_that_has_a_byte_of_it() -> None:
    code = made(DATA, kernels=(Kernel("a", 1, 0, 64), Kernel("b", 1, 64, 32)), functions=(function(100, 8),))
    assert code_ranges(code, [CodeSpan(code.path, 1, 95, 96)]) == [code_range(0, 96)]
    assert code_ranges(code, [CodeSpan(code.path, 1, 90, 101)]) == [code_range(0, 96), code_range(100, 108)]
    for nowhere in (
        CodeSpan(code.path, 1, 96, 100),
        CodeSpan(code.path, 2, 0, 8),
        CodeSpan(ObjectPath("other"), 1, 0, 8),
    ):
        with pytest.raises(NotFound):
            code_ranges(code, [nowhere])


def test_the_descriptor_in_front_of_an_old_amd_kernel_is_no_code() -> None:
    code = made(
        DATA,
        kernels=(Kernel("a", 1, 16, 100, {"entry_offset": 40}), Kernel("b", 1, 130, 20, {"entry_offset": 4})),
        functions=(function(0, 16), function(16, 100)),
    )
    assert code_ranges(code) == [code_range(0, 16), code_range(56, 116), code_range(134, 150)]


def test_very_many_runs_are_taken_as_one() -> None:
    data = bytes(4 * MAX_RANGES_PER_SECTION + 8)
    code = made(data, functions=tuple(Function("f", 1, 4 * number, 2) for number in range(MAX_RANGES_PER_SECTION + 1)))
    assert [(each.offset, each.end) for each in code_ranges(code)] == [(0, 4 * MAX_RANGES_PER_SECTION + 2)]


@given(st.lists(st.tuples(st.integers(0, 260), st.integers(0, 260)), max_size=8))
def test_runs_hold_exactly_what_some_symbol_covers(ranges: list[tuple[int, int]]) -> None:
    code: CodeObject = made(DATA, functions=tuple(function(start, size) for start, size in ranges))
    covered = {at for start, size in ranges for at in range(start, min(start + size, len(DATA)))}
    expected = sorted(covered) if ranges else list(range(200))
    assert [at for each in code_ranges(code) for at in range(each.offset, each.end)] == expected
