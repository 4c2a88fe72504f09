"""Where rows, scopes and declarations contradict each other, by small examples: what is answered, and what is as written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import DataLoss
from symd.index import Index
from symd.index.format import decode
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Answer, Reason
from symd.query.symbolize import symbolize
from tests.builders.index_file import encode
from tests.query.small import E, Object, S, Scope, index

OUTER, INNER, OTHER = (20, 40), (1, 10), (10, 20)
"""The lines of three functions: ``outer`` is the last one in the file."""


def answer(found: Index, offset: int) -> Answer:
    query = ByKernel("k", KernelOffset(offset))
    given = symbolize(found, [query])[0]
    assert given == found.answer(query)
    return given


def said(found: Index, offset: int) -> tuple[str, list[tuple[str | None, int]]]:
    given = answer(found, offset)
    return given.reason.name, [(frame.function, frame.line) for frame in given.frames]


def said_of_address(found: Index, offset: int) -> tuple[str, list[tuple[str | None, int]]]:
    given = symbolize(found, [ByAddress(ObjectAddress(0x1000 + offset))])[0]
    return given.reason.name, [(frame.function, frame.line) for frame in given.frames]


def one_inlined(rows: Sequence[tuple[int, int, int]], *more: Scope) -> Index:
    """outer has 0x00 to 0x80, inner is inlined on line 30 at 0x20 to 0x40."""
    scopes = [
        Scope("outer", 0, 0x80, lines=OUTER),
        Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=INNER),
        *more,
    ]
    return index(Object(rows=[*rows, (0x80, 0, E)], scopes=scopes))


def test_sound_data_is_answered_as_it_is_written() -> None:
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S)])
    assert found.view(as_written=True) is found
    assert said(found, 0x20) == ("EXACT", [("inner", 5), ("outer", 30)])
    assert said(found, 0x40) == ("EXACT", [("outer", 31)])


def test_a_row_that_reaches_into_an_inlined_call_is_not_its_line() -> None:
    found = one_inlined([(0, 21, S), (0x40, 31, S)])
    assert said(found, 0x1F) == ("EXACT", [("outer", 21)])
    assert said(found, 0x20) == ("CONTRADICTORY", [("inner", 0), ("outer", 30)])
    assert said(found, 0x3F) == ("CONTRADICTORY", [("inner", 0), ("outer", 30)])
    assert said(found, 0x40) == ("EXACT", [("outer", 31)])
    assert said(found.view(as_written=True), 0x20) == ("EXACT", [("inner", 21), ("outer", 30)])
    assert answer(found, 0x20).frames[0].file is None


def test_a_row_that_reaches_out_of_an_inlined_call_is_not_the_callers_line() -> None:
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x60, 31, S)])
    assert said(found, 0x3F) == ("EXACT", [("inner", 5), ("outer", 30)])
    assert said(found, 0x40) == ("CONTRADICTORY", [("outer", 0)])
    assert said(found, 0x60) == ("EXACT", [("outer", 31)])


def test_a_row_is_believed_again_in_the_scope_in_which_it_begins() -> None:
    found = one_inlined([(0, 21, S)])
    assert said(found, 0x20)[0] == "CONTRADICTORY"
    assert said(found, 0x40) == ("EXACT", [("outer", 21)])


def test_a_row_with_a_line_of_the_only_copy_is_that_copys() -> None:
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x50, 5, S), (0x60, 31, S)])
    assert said(found, 0x50) == ("INFERRED", [("inner", 5), ("outer", 30)])
    assert said(found, 0x60) == ("EXACT", [("outer", 31)])
    assert said(found.view(as_written=True), 0x50) == ("EXACT", [("outer", 5)])


def test_of_two_copies_neither_is_chosen() -> None:
    again = Scope("inner", 0x60, 0x70, parent=0, call_line=33, lines=INNER)
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x50, 5, S), (0x58, 31, S), (0x60, 5, S)], again)
    assert said(found, 0x50) == ("CONTRADICTORY", [("outer", 0)])
    assert said(found, 0x60) == ("EXACT", [("inner", 5), ("outer", 33)])


def lost(line: int, parent: int = 0, name: str = "inner", lines: tuple[int, int] = INNER) -> Scope:
    """A copy that does not say where its code is."""
    return Scope(name, 0, 0, parent=parent, call_line=line, lines=lines)


def test_a_row_with_a_line_of_the_only_copy_is_that_copys_though_it_has_no_range() -> None:
    """No other row has a line of inner."""
    scopes = [Scope("outer", 0, 0x80, lines=OUTER), lost(33)]
    found = index(Object(rows=[(0, 21, S), (0x50, 5, S), (0x60, 31, S), (0x80, 0, E)], scopes=scopes))
    assert said(found, 0x50) == ("INFERRED", [("inner", 5), ("outer", 33)])
    assert said(found, 0x60) == ("EXACT", [("outer", 31)])
    assert said(found.view(as_written=True), 0x50) == ("EXACT", [("outer", 5)])


def test_of_two_copies_without_ranges_neither_is_chosen() -> None:
    """inner stands in helper once, and in outer itself."""
    scopes = [Scope("outer", 0, 0x80, lines=OUTER), lost(33), lost(35, name="helper", lines=OTHER), lost(12, parent=2)]
    found = index(Object(rows=[(0, 21, S), (0x50, 5, S), (0x58, 15, S), (0x60, 31, S), (0x80, 0, E)], scopes=scopes))
    assert said(found, 0x50) == ("CONTRADICTORY", [("outer", 0)])
    assert said(found, 0x58) == ("INFERRED", [("helper", 15), ("outer", 35)])


def test_a_copy_without_a_range_is_a_copy_too() -> None:
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x50, 5, S), (0x60, 31, S)], lost(33))
    assert said(found, 0x20) == ("EXACT", [("inner", 5), ("outer", 30)])
    assert said(found, 0x50) == ("CONTRADICTORY", [("outer", 0)])


def test_a_line_of_a_function_that_is_not_inlined_here_is_believed() -> None:
    """``#line`` moves a line of outer into other, which was not inlined (clang -O0)."""
    scopes = [Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0x80, 0x90, lines=OTHER)]
    found = index(Object(rows=[(0, 21, S), (0x50, 15, S), (0x60, 31, S), (0x80, 15, S), (0x90, 0, E)], scopes=scopes))
    assert said(found, 0x50) == ("EXACT", [("outer", 15)])
    assert found.view(as_written=True) is found
    assert not found.summary.objects[0].notes


def test_a_copy_in_another_function_says_nothing() -> None:
    scopes = [Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0x80, 0x90, lines=OTHER), lost(15, parent=1)]
    found = index(Object(rows=[(0, 21, S), (0x50, 5, S), (0x80, 15, S), (0x90, 0, E)], scopes=scopes))
    assert said(found, 0x50) == ("EXACT", [("outer", 5)])


def test_copies_without_code_are_not_counted_among_copies() -> None:
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S)], lost(33), lost(34, name="gone", lines=OTHER))
    functions = found.derived.functions
    assert [
        (found.strings[name], int(copies)) for name, copies in zip(functions.name, functions.copies, strict=True)
    ] == [
        ("outer", 0),
        ("inner", 1),
    ]


def test_what_stands_around_every_copy_is_sure() -> None:
    """helper is inlined into inner twice; a row of its line begins in inner."""
    twice = [Scope("helper", at, at + 4, parent=1, call_line=line, lines=OTHER) for at, line in ((0x28, 4), (0x30, 6))]
    rows = [
        (0, 21, S),
        (0x20, 5, S),
        (0x28, 12, S),
        (0x2C, 5, S),
        (0x30, 12, S),
        (0x34, 5, S),
        (0x38, 12, S),
        (0x40, 22, S),
    ]
    found = one_inlined(rows, *twice)
    assert said(found, 0x30) == ("EXACT", [("helper", 12), ("inner", 6), ("outer", 30)])
    assert said(found, 0x38) == ("CONTRADICTORY", [("inner", 0), ("outer", 30)])


def test_a_line_that_no_other_function_is_known_to_have_is_believed() -> None:
    """``#line`` moves lines; inner never has line 7 of its own."""
    found = one_inlined([(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x50, 7, S)])
    assert said(found, 0x50) == ("EXACT", [("outer", 7)])
    assert found.view(as_written=True) is found


def test_each_of_many_instances_of_a_template_has_its_lines() -> None:
    """Whatever number of its 12 instances the function has: a row that reaches into a call makes its line suspicious."""
    for first in range(0, 12, 11):
        names = [f"outer<{(first + number) % 12}>" for number in range(12)]
        scopes = [
            Scope(names[0], 0, 0x80, lines=OUTER),
            Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=INNER),
        ]
        scopes += [Scope(name, 0x80 + at, 0x81 + at, lines=OUTER) for at, name in enumerate(names[1:])]
        rows: list[tuple[int, ...]] = [
            (0, 21, S),
            (0x40, 31, S),
            *((0x80 + at, 21, S) for at in range(11)),
            (0x8B, 0, E),
        ]
        found = index(Object(rows=rows, scopes=scopes))
        assert said(found, 0) == ("EXACT", [(names[0], 21)])
        assert said(found, 0x20) == ("CONTRADICTORY", [("inner", 0), (names[0], 30)])


def test_of_two_instances_of_a_template_neither_is_chosen() -> None:
    """Nor where more than eight others are declared on the same line."""
    again = Scope("inner<0>", 0x60, 0x70, parent=0, call_line=33, lines=INNER)
    more = [Scope(f"inner<{number}>", 0x80 + number, 0x81 + number, lines=INNER) for number in range(1, 12)]
    rows = [(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x50, 5, S), (0x58, 31, S), (0x60, 5, S), (0x70, 31, S)]
    scopes = [
        Scope("outer", 0, 0x80, lines=OUTER),
        Scope("inner<9>", 0x20, 0x40, parent=0, call_line=30, lines=INNER),
        again,
        *more,
    ]
    others = [(0x80 + number, 5, S) for number in range(12)]
    found = index(Object(rows=[*rows, *others, (0x8C, 0, E)], scopes=scopes))
    assert said(found, 0x50) == ("CONTRADICTORY", [("outer", 0)])
    assert said(found, 0x60) == ("EXACT", [("inner<0>", 5), ("outer", 33)])


def test_a_function_of_unknown_lines_is_believed() -> None:
    scopes = [Scope("outer", 0, 0x80), Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=INNER)]
    found = index(Object(rows=[(0, 21, S), (0x20, 5, S), (0x40, 5, S), (0x80, 0, E)], scopes=scopes))
    assert said(found, 0x40) == ("EXACT", [("outer", 5)])


def test_a_line_zero_is_not_filled_from_a_row_that_is_doubted() -> None:
    found = one_inlined([(0, 21, S), (0x30, 0, S), (0x40, 31, S)])
    assert said(found, 0x20)[0] == "CONTRADICTORY"
    assert said(found, 0x30) == ("NO_LINE", [("inner", 0), ("outer", 30)])
    assert said(found.view(as_written=True), 0x30) == ("APPROXIMATE", [("inner", 21), ("outer", 30)])


@pytest.mark.parametrize("kernel", [0x100, 0x80])
def test_past_the_end_of_a_function_nobody_has_the_code_of_a_kernel(kernel: int) -> None:
    """Where no kernel goes on it is padding."""
    found = index(
        Object(
            rows=[(0, 21, S), (0xC0, 0, E)], scopes=[Scope("outer", 0, 0x80, lines=OUTER)], kernels=[("k", 0, kernel)]
        )
    )
    assert said(found, 0x7F) == ("EXACT", [("outer", 21)])
    assert said(found, 0x80) == (("CONTRADICTORY", []) if kernel == 0x100 else ("EXACT", [(None, 21)]))


@pytest.mark.parametrize("kernels", [[("k", 0, 0x100)], []], ids=["in a kernel", "without kernels"])
def test_code_of_a_symbol_of_which_nothing_is_said_has_no_line_behind_a_function(
    kernels: list[tuple[str, int, int]],
) -> None:
    """IGC's ``__intel_memfence_optnone`` lies between a kernel and the next function, and has neither rows nor a DIE."""
    found = index(
        Object(
            rows=[(0, 21, S), (0xC0, 15, S), (0xE0, 0, E)],
            scopes=[Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0xC0, 0xE0, lines=OTHER)],
            kernels=kernels,
            symbols=[("outer", 0, 0x80), ("fence", 0x80, 0x40), ("other", 0xC0, 0x20)],
        )
    )
    assert said_of_address(found, 0x7F) == ("EXACT", [("outer", 21)])
    assert said_of_address(found, 0x80) == said_of_address(found, 0xBF) == ("NO_LINE", [("fence", 0)])
    assert said_of_address(found.view(as_written=True), 0x80) == ("EXACT", [("fence", 21)])
    assert said_of_address(found, 0xC0) == ("EXACT", [("other", 15)])
    assert "64 bytes NO_LINE" in found.summary.objects[0].notes[0]


@pytest.mark.parametrize(
    ("row", "scope"),
    [((0xA0, 22, S), None), ((0xC0, 15, S), Scope("fence", 0xA0, 0xB0)), ((0xC0, 15, S), None)],
    ids=["a row", "a scope", "no name"],
)
def test_a_symbol_of_which_something_is_said_does_not_make_its_code_sure(
    row: tuple[int, int, int], scope: Scope | None
) -> None:
    found = index(
        Object(
            rows=[(0, 21, S), row, (0xE0, 0, E)],
            scopes=[Scope("outer", 0, 0x80, lines=OUTER), *([scope] if scope else [])],
            symbols=[("outer", 0, 0x80), ("fence" if row[0] == 0xA0 or scope else "", 0x80, 0x40)],
        )
    )
    assert said(found, 0x80)[0] == "CONTRADICTORY"


def torn(rows: Sequence[tuple[int, int, int]]) -> Index:
    """outer ends at 0x20, other has the rest, and inner, inlined into outer, lies in it."""
    scopes = [
        Scope("outer", 0, 0x20, lines=OUTER),
        Scope("inner", 0x40, 0x48, parent=0, call_line=30, lines=INNER),
        Scope("other", 0x20, 0x80, lines=OTHER),
    ]
    return index(Object(rows=[*rows, (0x80, 0, E)], scopes=scopes))


def test_where_code_of_another_function_lies_only_rows_that_begin_there_are_believed() -> None:
    found = torn([(0, 21, S), (0x20, 15, S), (0x60, 16, S)])
    assert said(found, 0) == ("EXACT", [("outer", 21)])
    assert said(found, 0x20) == ("CONTRADICTORY", [])
    assert said(found, 0x40) == ("CONTRADICTORY", [("inner", 0), ("outer", 30)])
    assert said(found, 0x48) == ("CONTRADICTORY", [])
    assert said(found, 0x60) == ("INFERRED", [("other", 16)])
    assert said(found.view(as_written=True), 0x20) == ("EXACT", [("other", 15)])
    assert said(found.view(as_written=True), 0x60) == ("EXACT", [(None, 16)])


def folded(*scopes: Scope) -> Index:
    """Identical code that a linker folded."""
    return index(Object(rows=[(0, 15, S), (0x40, 16, S), (0x80, 0, E)], scopes=list(scopes)))


def test_of_functions_that_a_linker_folded_none_is_chosen() -> None:
    found = folded(Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0, 0x80, lines=OTHER))
    assert said(found, 0) == said(found, 0x7F) == ("CONTRADICTORY", [])
    assert said(found.view(as_written=True), 0x40)[0] == "EXACT"
    (note,) = found.summary.objects[0].notes
    assert "functions contradict each other" in note


def test_what_was_inlined_into_folded_functions_is_not_chosen_either() -> None:
    inlined = Scope("inner", 0x40, 0x50, parent=0, call_line=30, lines=INNER)
    found = folded(Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0, 0x80, lines=OTHER), inlined)
    assert said(found, 0x40) == ("CONTRADICTORY", [])


@pytest.mark.parametrize("lines", [OTHER, None])
def test_folded_instances_of_one_declaration_have_its_lines(lines: tuple[int, int] | None) -> None:
    found = folded(Scope("other<int>", 0, 0x80, lines=OTHER), Scope("other<long>", 0, 0x80, lines=lines))
    assert found.view(as_written=True) is found
    (frame,) = answer(found, 0).frames
    assert (frame.function in ("other<int>", "other<long>"), frame.line) == (True, 15)


def test_where_line_tables_say_several_things_the_scopes_hold_and_no_line() -> None:
    scopes = [
        Scope("outer", 0, 0x80, lines=OUTER),
        Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=INNER),
        Scope("other", 0x80, 0x90, lines=OTHER),
    ]
    rows = [(0, 21, S), (0x20, 5, S), (0x40, 31, S), (0x60, 0, S), (0x80, 15, S), (0x90, 0, E)]
    found = index(Object(rows=rows, scopes=scopes, doubted=[(0, 0x80)]))
    assert said(found, 0) == said(found, 0x5C) == ("CONTRADICTORY", [("outer", 0)])
    assert said(found, 0x20) == ("CONTRADICTORY", [("inner", 0), ("outer", 30)])
    assert said(found, 0x60) == ("NO_LINE", [("outer", 0)])
    assert said(found, 0x80) == ("EXACT", [("other", 15)])
    assert said(found.view(as_written=True), 0x20) == ("EXACT", [("inner", 5), ("outer", 30)])


def test_where_line_tables_say_several_things_and_nothing_says_whose_code_it_is_nobody_is_named() -> None:
    found = index(Object(rows=[(0, 21, S), (0x40, 31, S), (0x80, 0, E)], doubted=[(0, 0x40)]))
    assert said(found, 0) == ("CONTRADICTORY", [])
    assert said(found, 0x40) == ("EXACT", [(None, 31)])


def test_whose_code_is_of_several_functions_is_nobodys_also_where_line_tables_say_several_things() -> None:
    scopes = [Scope("outer", 0, 0x80, lines=OUTER), Scope("other", 0, 0x80, lines=OTHER)]
    found = index(Object(rows=[(0, 15, S), (0x80, 0, E)], scopes=scopes, doubted=[(0, 0x80)]))
    assert said(found, 0) == ("CONTRADICTORY", [])


def test_a_note_names_places_and_how_much() -> None:
    found = torn([(0, 21, S), (0x20, 15, S), (0x60, 16, S)])
    (note,) = found.summary.objects[0].notes
    assert "functions contradict each other" in note
    assert ".text+0x20..0x80" in note
    assert "64 bytes CONTRADICTORY, 32 bytes INFERRED" in note
    (note,) = one_inlined([(0, 21, S), (0x40, 31, S)]).summary.objects[0].notes
    assert "line rows reach into scopes" in note
    assert ".text+0x20..0x40" in note
    assert "32 bytes CONTRADICTORY" in note


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("written_range", np.array([1, 1], np.uint8)),
        ("written_range", np.array([200, 201], np.uint8)),
        ("written_reason", np.array([0, 99], np.uint8)),
        ("written_frame", np.array([200, 201], np.uint8)),
    ],
)
def test_what_cannot_be_written_of_ranges_is_refused(name: str, column: np.ndarray) -> None:
    found = torn([(0, 21, S), (0x20, 15, S), (0x60, 16, S)])
    whole = dict(decode(found.buffer))
    two = {each: whole[each][:2] for each in whole if each.startswith("written_")}
    Index.open_checked(encode(whole | two))
    with pytest.raises(DataLoss):
        Index.open_checked(encode(whole | two | {name: column}))


offsets = st.integers(0, 0x80)
line_numbers = st.integers(0, 39)


@st.composite
def modules(draw: st.DrawFn) -> Index:
    scopes = [
        Scope("outer", 0, draw(offsets), lines=OUTER),
        Scope("other", *sorted((draw(offsets), draw(offsets))), lines=OTHER),
    ]
    for _ in range(draw(st.integers(0, 5))):
        low, high = sorted((draw(offsets), draw(offsets)))
        parent = draw(st.integers(0, len(scopes) - 1))
        # Each function has a name of its own: an inferred answer differs from what is written, seen by its frames.
        name, lines = draw(st.sampled_from([("inner", INNER), ("other", OTHER), ("undeclared", None)]))
        scopes.append(Scope(name, low, high, parent=parent, call_line=30, lines=lines))
    rows = [(offset, draw(line_numbers), S) for offset in sorted(draw(st.lists(offsets, min_size=1, max_size=12)))]
    return index(Object(rows=[*rows, (0x80, 0, E)], scopes=scopes))


@given(modules())
def test_an_answer_differs_from_what_is_written_only_with_a_reason(found: Index) -> None:
    for offset in range(0x80):
        mine, written = answer(found, offset), answer(found.view(as_written=True), offset)
        assert written.reason not in (Reason.INFERRED, Reason.CONTRADICTORY)
        if mine.reason is Reason.CONTRADICTORY:
            assert written.reason is Reason.EXACT
            assert not mine.frames or not mine.frames[0].line
        elif mine.reason is Reason.INFERRED:
            assert (mine.frames[0].line, mine.frames[0].file) == (written.frames[0].line, written.frames[0].file)
            assert mine.frames[0].function != written.frames[0].function or mine.frames != written.frames
        elif mine != written:
            assert written.reason is Reason.APPROXIMATE
            assert mine.reason in (Reason.APPROXIMATE, Reason.NO_LINE, Reason.GAP)


def test_a_variable_of_another_function_is_code_of_another_too() -> None:
    """other has all from 0x20 on, and nothing is inlined; a variable of outer lives at 0x40 to 0x48."""
    scopes = [Scope("outer", 0, 0x20, lines=OUTER), Scope("other", 0x20, 0x80, lines=OTHER)]
    rows = [(0, 21, S), (0x20, 15, S), (0x60, 16, S), (0x80, 0, E)]
    assert said(index(Object(rows=rows, scopes=scopes)), 0x20) == ("EXACT", [("other", 15)])
    found = index(Object(rows=rows, scopes=scopes, strays=[(0x40, 0x48)]))
    assert said(found, 0) == ("EXACT", [("outer", 21)])
    for offset in (0x20, 0x40, 0x48, 0x5F):
        assert said(found, offset) == ("CONTRADICTORY", [])
    assert said(found, 0x60) == ("EXACT", [("other", 16)])


def test_what_is_outside_of_all_functions_doubts_none() -> None:
    scopes = [Scope("outer", 0, 0x20, lines=OUTER)]
    found = index(Object(rows=[(0, 21, S), (0x20, 0, E)], scopes=scopes, strays=[(0x40, 0x48)]))
    assert found.view(as_written=True) is found
