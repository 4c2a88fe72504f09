"""Candidates of a batch: found once for equal queries, named for the first ambiguous ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from symd.index import Index
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answers, Reason
from symd.model.contexts import Origin
from symd.query import symbolize
from symd.query.symbolize import (
    MAX_CANDIDATES,
    MAX_EXPLAINED,
    symbolize_column,
    symbolize_origins,
)
from tests.query.asked import symbolize_one
from tests.query.small import Object, index

SEVERAL = index(*(Object(f"o{number}") for number in range(MAX_CANDIDATES + 6)))
ASKED: dict[str, dict[str, Any]] = {"address": {}, "function": {"kernel": "k"}, "section": {"section": ".text"}}


def values(count: int, kind: str) -> Any:
    return np.full(count, 0x1010 if kind == "address" else 0x10, np.uint64)


@pytest.mark.parametrize("kind", ASKED)
def test_equal_ambiguous_queries_share_candidates_and_the_first_have_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    candidate = Index.candidate

    def counted(self: Index, section: int, offset: int) -> Any:
        nonlocal made
        made += 1
        return candidate(self, section, offset)

    monkeypatch.setattr(Index, "candidate", counted)
    monkeypatch.setattr(symbolize, "MAX_NAMED", 1_000_000)
    found = symbolize_column(SEVERAL, values(60_000, kind), **ASKED[kind])
    assert made == MAX_CANDIDATES
    assert sorted(found.candidates) == list(range(MAX_EXPLAINED))
    assert len(set(map(id, found.candidates.values()))) == 1
    assert [each.path for each in found[0].candidates] == [f"o{number}" for number in range(MAX_CANDIDATES)]
    assert {each.section_offset for each in found[0].candidates} == {0x10}
    assert found[59_999].reason is Reason.AMBIGUOUS


@pytest.mark.parametrize("kind", ASKED)
def test_candidates_of_a_batch_are_bounded_together(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolize, "MAX_NAMED", 3 * MAX_CANDIDATES)
    assert sorted(symbolize_column(SEVERAL, values(9, kind), **ASKED[kind]).candidates) == [0, 1, 2]


def test_parts_of_a_batch_have_the_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolize, "MAX_EXPLAINED", 3)
    origin = np.repeat(np.arange(3), 2)
    assert sorted(symbolize_origins(SEVERAL, [Origin()] * 3, range(3), origin, values(6, "address")).candidates) == [
        0,
        1,
        2,
    ]


TWO = index(Object("a", kernels=[("k", 0xF0, 0x10)]), Object("b", kernels=[("k", 0x20, 0x10)]))


def test_candidates_are_those_that_hold_the_offset() -> None:
    found: Answers = symbolize_column(TWO, np.array([0x8, 0x10, 0xDF], np.uint64), kernel="k")
    places = [[(each.path, each.section_offset) for each in answer.candidates] for answer in found]
    assert places == [[("a", 0xF8), ("b", 0x28)], [("b", 0x30)], [("b", 0xFF)]]
    assert {answer.reason for answer in found} == {Reason.AMBIGUOUS}


def test_an_offset_beyond_every_candidate_is_outside_and_takes_no_other_querys_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(symbolize, "MAX_EXPLAINED", 2)
    offsets = np.array([0xE0, 1 << 63, 0x8, 0xE0, 0x10], np.uint64)
    columns = symbolize_column(TWO, offsets, kernel="k")
    origins = [Origin(path="elsewhere"), Origin(kernel="k")]
    parts = symbolize_origins(TWO, origins, [1], np.ones(5, np.uint32), offsets)
    singly = [symbolize_one(TWO, ByKernel("k", KernelOffset(offset))) for offset in offsets.tolist()]
    outside, several = Reason.OUTSIDE_TEXT, Reason.AMBIGUOUS
    assert [answer.reason for answer in singly] == [outside, outside, several, outside, several]
    assert list(columns) == list(parts) == singly
    assert sorted(columns.candidates) == [2, 4]


def test_an_offset_beyond_every_section_of_the_name_is_outside() -> None:
    found = symbolize_column(SEVERAL, np.array([0xFF, 0x100], np.uint64), section=".text")
    assert [answer.reason for answer in found] == [Reason.AMBIGUOUS, Reason.OUTSIDE_TEXT]
    assert sorted(found.candidates) == [0]
