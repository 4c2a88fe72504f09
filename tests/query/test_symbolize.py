"""What ``symbolize`` answers to each kind of query, in a module that a test spells out."""

from __future__ import annotations

import numpy as np
import pytest

from symd.errors import ObjectNotFound
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.answers import Answer, Reason
from symd.model.contexts import Origin
from symd.model.debug_info import RowFlag
from symd.query.symbolize import symbolize, symbolize_column, symbolize_origins
from tests.query.small import Object, Row, Scope, index

TEXT = 0x1000
"""The address of the text section of each ``Object``."""
BLUR = Object(
    path="blur",
    kernels=[("blur", 0x00, 0x60)],
    rows=[
        Row(offset=0x00, line=10),
        Row(offset=0x20, line=3),  # in ``weight``, which is called in line 12
        Row(offset=0x30, line=0),
        Row(offset=0x40, line=13),
        Row(offset=0x60, line=13, flags=RowFlag.END_SEQUENCE),
    ],
    scopes=[
        Scope(name="blur", start=0x00, end=0x60),
        Scope(name="weight", start=0x20, end=0x30, parent=0, call_line=12),
    ],
)
SHARPEN = Object(
    path="sharpen",
    kernels=[("sharpen", 0x00, 0x20)],
    rows=[Row(offset=0x00, line=30), Row(offset=0x20, line=30, flags=RowFlag.END_SEQUENCE)],
    scopes=[Scope(name="sharpen", start=0x00, end=0x20)],
)
ONE, BOTH = index(BLUR), index(BLUR, SHARPEN)


def frames(answer: Answer) -> list[tuple[str | None, int, bool]]:
    return [(frame.function, frame.line, frame.inlined) for frame in answer.frames]


@pytest.mark.parametrize(
    "query",
    [
        ByAddress(ObjectAddress(TEXT + 0x24)),
        ByKernel("blur", KernelOffset(0x24)),
        BySection(".text", SectionOffset(0x24)),
        BySection(1, SectionOffset(0x24)),
    ],
)
def test_an_inlined_call_is_answered_before_its_caller_however_the_place_is_named(query: Query) -> None:
    (answer,) = symbolize(ONE, [query])
    assert answer.reason is Reason.EXACT
    assert frames(answer) == [("weight", 3, True), ("blur", 12, False)]
    assert (answer.path, answer.kernel, answer.section, answer.section_offset) == ("blur", "blur", ".text", 0x24)
    assert answer.address == TEXT + 0x24


def test_answers_are_in_the_order_of_queries_of_all_kinds() -> None:
    answers = symbolize(
        ONE,
        [
            ByKernel("blur", KernelOffset(0x40)),
            ByAddress(ObjectAddress(TEXT)),
            ByKernel("blur", KernelOffset(0x00)),
            BySection(".text", SectionOffset(0x44)),
        ],
    )
    assert [answer.frames[0].line for answer in answers] == [13, 10, 10, 13]


def test_a_row_without_a_line_is_answered_by_the_one_before_it_in_the_same_function() -> None:
    (answer,) = symbolize(ONE, [ByAddress(ObjectAddress(TEXT + 0x38))])
    assert (answer.reason, frames(answer)) == (Reason.APPROXIMATE, [("blur", 10, False)])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (ByAddress(ObjectAddress(TEXT - 1)), Reason.OUTSIDE_TEXT),
        (ByAddress(ObjectAddress(TEXT + 0x100)), Reason.OUTSIDE_TEXT),
        (ByKernel("blur", KernelOffset(0x100)), Reason.OUTSIDE_TEXT),
        (BySection(".data", SectionOffset(0)), Reason.OUTSIDE_TEXT),
        (ByKernel("blurr", KernelOffset(0)), Reason.UNKNOWN_KERNEL),
    ],
)
def test_what_names_no_place_has_a_reason_and_no_frames(query: Query, reason: Reason) -> None:
    (answer,) = symbolize(ONE, [query])
    assert (answer.reason, answer.frames, answer.section) == (reason, (), None)


def test_a_name_that_nothing_has_is_answered_with_names_like_it() -> None:
    (answer,) = symbolize(ONE, [ByKernel("blurr", KernelOffset(0))])
    assert [candidate.function for candidate in answer.candidates] == ["blur"]


def test_an_address_in_several_code_objects_is_ambiguous_unless_one_is_named() -> None:
    query = ByAddress(ObjectAddress(TEXT + 0x10))
    (answer,) = symbolize(BOTH, [query])
    assert (answer.reason, answer.frames) == (Reason.AMBIGUOUS, ())
    assert [(each.path, each.section_offset) for each in answer.candidates] == [("blur", 0x10), ("sharpen", 0x10)]
    (answer,) = symbolize(BOTH, [query], path="sharpen")
    assert frames(answer) == [("sharpen", 30, False)]


def test_a_code_object_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ObjectNotFound):
        symbolize(ONE, [ByAddress(ObjectAddress(TEXT))], path="sharpen")


def test_a_column_is_answered_as_its_numbers_are() -> None:
    offsets = np.array([0x24, 0x00, 0x100], np.uint64)
    column = symbolize_column(ONE, offsets, kernel="blur")
    assert list(column) == list(symbolize(ONE, [ByKernel("blur", KernelOffset(offset)) for offset in offsets.tolist()]))
    column = symbolize_column(ONE, offsets + np.uint64(TEXT))
    assert [answer.reason for answer in column] == [Reason.EXACT, Reason.EXACT, Reason.OUTSIDE_TEXT]


def test_each_number_of_a_column_may_count_from_an_origin_of_its_own() -> None:
    origins = [
        Origin(module="", path="blur", kernel="blur"),
        Origin(module="", path="sharpen", kernel="sharpen"),
        Origin(module="", path="nowhere", kernel="blur"),
    ]
    values = np.array([0x24, 0x08, 0x00, 0x40], np.uint64)
    answers = symbolize_origins(BOTH, origins, [0, 1, 2], np.array([0, 1, 2, 0]), values)
    assert [frames(answer) for answer in answers] == [
        [("weight", 3, True), ("blur", 12, False)],
        [("sharpen", 30, False)],
        [],
        [("blur", 13, False)],
    ]
    assert answers[2].reason is Reason.UNKNOWN_KERNEL
