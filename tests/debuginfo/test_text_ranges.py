"""The part of debug data around some places: whole functions with what is inlined there, and rows that end where it does."""

from __future__ import annotations

import numpy as np
import pytest

from symd.debuginfo.text_ranges import TextRanges, around, narrowed
from symd.model.code import CodeObject, Function, Kernel
from symd.model.debug_info import NO_PARENT, DebugInfo, LineRows, RowFlag, Scopes

END = int(RowFlag.END_SEQUENCE)
NAMES = ("", "f", "g", "h", "i")


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def debug() -> DebugInfo:
    """Section 1: f from 0 to 8; g from 8 to 20 and from 24 to 28, with h inlined from 12 to 16 and i in that, which sticks
    out from 14 to 22. Section 2: rows alone."""
    offsets = [0, 4, 8, 12, 16, 20, 24, 28, 0, 8]
    rows = LineRows(
        section=u32(*[1] * 8, 2, 2),
        offset=u64(*offsets),
        file=u32(*[1] * 10),
        line=u32(*range(10, 20)),
        column=u32(*[0] * 10),
        flags=np.array([1, 1, 1, 0, 1, 1, 1, END, 1, END], np.uint8),
    )
    none = u32(0, 0, 0, 0)
    scopes = Scopes(
        parent=u32(NO_PARENT, NO_PARENT, 1, 2),
        name=u32(1, 2, 3, 4),
        linkage_name=none,
        inlined=np.array([0, 0, 1, 1], np.uint8),
        call_file=none,
        call_line=u32(0, 0, 5, 6),
        call_column=none,
        range_scope=u32(0, 1, 1, 2, 3),
        range_section=u32(1, 1, 1, 1, 1),
        range_offset=u64(0, 8, 24, 12, 14),
        range_end=u64(8, 20, 28, 16, 22),
    )
    return DebugInfo(rows, scopes, ("", "k.cl"), NAMES)


CODE = CodeObject("", "amdgpu", None, b"", kernels=(Kernel("f", 1, 0, 8), Kernel("g", 1, 8, 12), Kernel("other", 2, 0, 8)),
                  functions=(Function("f", 1, 0, 8), Function("g", 1, 8, 12), Function("empty", 1, 9, 0)))  # fmt: skip


def cut(*places: tuple[int, int], kernels: tuple[str, ...] = ()) -> tuple[CodeObject, DebugInfo]:
    window = around(debug(), places)
    assert window is not None
    return narrowed(CODE, debug(), window, kernels)


def stretches(window: TextRanges) -> set[tuple[int, int, int]]:
    columns = (column.tolist() for column in window)
    return set(zip(*columns, strict=True))


def rows(found: DebugInfo) -> list[tuple[int, int, bool]]:
    return [
        (offset, line, bool(flag & END))
        for offset, line, flag in zip(*(column.tolist() for column in (found.rows.offset, found.rows.line, found.rows.flags)),
                                      strict=True)
    ]  # fmt: skip


def test_a_window_is_the_outermost_function_and_all_that_is_inlined_into_it() -> None:
    found = around(debug(), [(1, 13)])
    assert found is not None
    assert stretches(found) == {(1, 8, 20), (1, 24, 28), (1, 12, 16), (1, 14, 22)}
    assert found.holds(1, 21)
    assert not found.holds(1, 22)
    assert not found.holds(2, 13)
    both = around(debug(), [(1, 13), (1, 0)])
    assert both is not None
    assert stretches(both) == stretches(found) | {(1, 0, 8)}


@pytest.mark.parametrize("place", [(1, 22), (1, 28), (2, 4), (1, 21)])
def test_a_place_in_no_function_has_no_window(place: tuple[int, int]) -> None:
    """At 21 there is only what sticks out of its function."""
    assert around(debug(), [place]) is None
    assert around(debug(), [(1, 0), place]) is None


def test_rows_go_up_to_the_one_that_ends_them() -> None:
    _, found = cut((1, 2))
    assert rows(found) == [(0, 10, False), (4, 11, False), (8, 12, True)]
    _, found = cut((1, 13))
    assert rows(found) == [
        (8, 12, False),
        (12, 13, False),
        (16, 14, False),
        (20, 15, False),
        (24, 16, False),
        (28, 17, True),
    ]


def test_scopes_keep_those_around_them() -> None:
    _, found = cut((1, 2))
    assert [NAMES[number] for number in found.scopes.name.tolist()] == ["f"]
    _, found = cut((1, 13))
    assert [NAMES[number] for number in found.scopes.name.tolist()] == ["g", "h", "i"]
    assert found.scopes.parent.tolist() == [NO_PARENT, 0, 1]
    assert found.scopes.call_line.tolist() == [0, 5, 6]
    assert found.scopes.range_scope.tolist() == [0, 0, 1, 2]


def test_symbols_that_have_nothing_there_are_left_out_but_for_kernels_that_are_named() -> None:
    code, _ = cut((1, 2))
    assert [kernel.name for kernel in code.kernels] == ["f"]
    assert [function.name for function in code.functions] == ["f"]
    code, _ = cut((1, 13), kernels=("other",))
    assert [kernel.name for kernel in code.kernels] == ["g", "other"]
    assert [function.name for function in code.functions] == ["g", "empty"], "a place inside is enough"


def test_stretches_inside_others_are_those_that_one_of_them_holds() -> None:
    spans = TextRanges(u32(1, 2, 1), u64(20, 0, 0), u64(30, 8, 10))
    many = TextRanges(u32(1, 1, 1, 1, 2, 2, 3), u64(0, 2, 8, 20, 0, 4, 0), u64(10, 12, 10, 29, 8, 9, 4))
    found = many.inside(spans)
    assert list(zip(found.section.tolist(), found.start.tolist(), found.end.tolist(), strict=True)) == [
        (1, 0, 10),
        (1, 8, 10),
        (1, 20, 29),
        (2, 0, 8),
    ]
    assert not len(TextRanges(u32(), u64(), u64()).inside(spans).start)
    assert not len(many.inside(TextRanges(u32(), u64(), u64())).start)
