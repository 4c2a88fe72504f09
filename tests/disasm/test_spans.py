"""What is disassembled: what symbols cover, each byte once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.disasm.spans import MOST, Span, spans
from symd.errors import KernelNotFound
from symd.model.code import CodeObject, Function, Kernel
from tests.disasm.objects import made

DATA = bytes(range(200))


def span(start: int, end: int) -> Span:
    return Span(1, start, DATA[start:end])


def function(start: int, size: int) -> Function:
    return Function(f"f{start}", 1, start, size)


def test_functions_that_touch_or_overlap_are_one_run_and_padding_is_left_out() -> None:
    code = made(DATA, functions=(function(40, 10), function(0, 20), function(20, 8), function(44, 20)))
    assert spans(code) == [span(0, 28), span(40, 64)]


def test_a_section_without_symbols_is_code_from_end_to_end() -> None:
    assert spans(made(DATA)) == [span(0, 200)]


def test_symbols_that_leave_their_section_are_cut() -> None:
    assert spans(made(DATA, functions=(function(190, 1 << 60), function(500, 10)))) == [span(190, 200)]


def test_one_kernel_is_its_range() -> None:
    code = made(DATA, kernels=(Kernel("a", 1, 0, 64), Kernel("b", 1, 64, 32)), functions=(function(100, 8),))
    assert spans(code, "b") == [span(64, 96)]
    with pytest.raises(KernelNotFound):
        spans(code, "c")


def test_the_descriptor_in_front_of_an_old_amd_kernel_is_no_code() -> None:
    code = made(
        DATA,
        kernels=(Kernel("a", 1, 16, 100, {"entry_offset": 40}), Kernel("b", 1, 130, 20, {"entry_offset": 4})),
        functions=(function(0, 16), function(16, 100)),
    )
    assert spans(code) == [span(0, 16), span(56, 116), span(134, 150)]


def test_very_many_runs_are_taken_as_one() -> None:
    data = bytes(4 * MOST + 8)
    code = made(data, functions=tuple(Function("f", 1, 4 * number, 2) for number in range(MOST + 1)))
    assert [(each.offset, each.end) for each in spans(code)] == [(0, 4 * MOST + 2)]


@given(st.lists(st.tuples(st.integers(0, 260), st.integers(0, 260)), max_size=8))
def test_runs_hold_exactly_what_some_symbol_covers(ranges: list[tuple[int, int]]) -> None:
    code: CodeObject = made(DATA, functions=tuple(function(start, size) for start, size in ranges))
    covered = {at for start, size in ranges for at in range(start, min(start + size, len(DATA)))}
    expected = sorted(covered) if ranges else list(range(200))
    assert [at for each in spans(code) for at in range(each.offset, each.end)] == expected
