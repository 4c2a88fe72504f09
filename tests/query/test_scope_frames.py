"""Functions around a place and the frames of its answer: who is who, and where nobody can tell."""

from __future__ import annotations

import pytest

from symd.model.answers import Frame
from symd.model.variables import FunctionScope
from symd.query.variables import match


def call(name: str | None, line: int = 0, column: int = 0, linkage: str | None = None) -> FunctionScope:
    return FunctionScope(name, linkage, True, line, column)


def frame(
    name: str | None, line: int = 0, column: int = 0, *, inlined: bool = True, linkage: str | None = None
) -> Frame:
    return Frame(name, linkage, "k.cl", line, column, inlined)


KERNEL = FunctionScope("k", None, False)
IN_KERNEL = {line: frame("k", line, 5, inlined=False) for line in (5, 9)}


def numbers(functions: list[FunctionScope], frames: list[Frame]) -> list[int | str | None]:
    return ["?" if each.uncertain else each.frame for each in match(functions, frames)]


def test_functions_of_one_name_are_told_apart_by_their_places():
    assert numbers([call("f"), call("f"), KERNEL], [frame("f", 1), frame("f", 2), IN_KERNEL[9]]) == [0, 1, 2]


def test_a_frame_that_was_left_out_leaves_its_function_without_one():
    functions = [call("f", 3), call("g", 9), KERNEL]
    assert numbers(functions, [frame("f"), IN_KERNEL[9]]) == [None, None, 1], "line 9 calls g, not f"
    assert numbers(functions, [frame("g", 3), IN_KERNEL[9]]) == [None, 0, 1]


def test_of_two_calls_of_one_function_the_line_of_the_call_decides():
    functions = [call("f", 5), call("f", 9), KERNEL]
    assert numbers(functions, [frame("f", 1), IN_KERNEL[9]]) == [None, 0, 1]
    assert numbers(functions, [frame("f", 1), IN_KERNEL[5]]) == [0, None, 1]
    assert numbers([call("f"), call("f"), KERNEL], [frame("f", 1), IN_KERNEL[5]]) == ["?", "?", 1]


def test_the_column_of_the_call_decides_where_the_line_does_not():
    assert numbers([call("f", 9, 5), call("f", 9, 7), KERNEL], [frame("f"), IN_KERNEL[9]]) == [0, None, 1]


def test_a_frame_that_the_index_added_is_nobodys():
    assert numbers([call("f", 9), KERNEL], [frame("g", 1), frame("f", 2), IN_KERNEL[9]]) == [1, 2]
    assert numbers([KERNEL], [frame("g", 1), frame("f", 2), IN_KERNEL[9]]) == [2]


def test_linkage_names_tell_more_than_names():
    functions = [call("f", linkage="_Zinner"), call("f", linkage="_Zouter"), KERNEL]
    assert numbers(functions, [frame("f", linkage="_Zouter"), IN_KERNEL[5]]) == [None, 0, 1]
    assert numbers([call("f", linkage="_Zf")], [frame("_Zf")]) == [0]
    assert numbers([FunctionScope("f", None, False)], [frame("f")]) == [None], "one is inlined, the other is not"


def test_a_frame_without_a_name_may_be_any_call_in_its_place():
    assert numbers([call("k", 7), call("k", 9), KERNEL], [frame(None, 1), frame(None, 7), IN_KERNEL[9]]) == [0, 1, 2]
    assert numbers([call("f"), call("g"), KERNEL], [frame(None, 1), IN_KERNEL[9]]) == ["?", "?", 1]


@pytest.mark.parametrize(("functions", "frames"), [(0, 0), (0, 1), (1, 0)])
def test_nothing_is_matched_with_nothing(functions: int, frames: int):
    assert numbers([KERNEL] * functions, [IN_KERNEL[5]] * frames) == [None] * functions


def test_too_many_to_compare_are_not_told():
    assert set(numbers([call("f")] * 200, [frame("f")] * 200)) == {"?"}
