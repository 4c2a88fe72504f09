"""Answers that came as rows are the same answers as columns."""

from __future__ import annotations

import copy
from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.answers import Answer, Answers, Reason
from symd.rpc.wire.queries import RowAnswers, as_columns
from tests.server.fakes import AMBIGUOUS, DIGEST, GOOD, FakeEngine

ADDRESSES = st.one_of(st.integers(0, 0x400), st.just(AMBIGUOUS), st.integers(0, 2**64 - 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(ADDRESSES, max_size=9))
def test_each_answer_is_what_it_was(addresses):
    engine = FakeEngine()
    engine.add(GOOD)
    before = engine.symbolize_column(DIGEST, np.array(addresses, np.uint64))
    rows, after = RowAnswers(list(before)), as_columns(list(before))
    assert list(rows) == list(after) == list(before)
    assert list(Answers(**{field.name: getattr(rows, field.name) for field in fields(Answers)})) == list(before)
    assert list(copy.copy(rows)) == list(before)
    assert (after.location.dtype, after.text_section.dtype, after.offset.dtype) == (np.uint32, np.uint32, np.uint64)
    for name in ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent"):
        assert getattr(after.locations, name).dtype == getattr(before.locations, name).dtype


def test_an_answer_at_the_first_byte_of_a_module_without_sections_is_kept():
    answer = Answer(Reason.NO_LINE, "", None, None, 0, SectionOffset(0), ObjectAddress(0))
    assert list(as_columns([answer])) == [answer]
