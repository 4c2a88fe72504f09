"""What a batch gathers of several modules is bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from symd.engine.contexts import device
from symd.engine.contexts.device import AnswerTableBuilder
from symd.errors import LimitExceeded
from symd.index.format import Strings
from symd.model.answers import Answers, Locations
from tests.builders.index_file import encode_strings
from tests.server.fakes import LOCATIONS, PLACES


def answers(locations: Locations, *numbers: int) -> Answers:
    count = len(numbers)
    return Answers(
        np.array(numbers, np.uint32), np.ones(count, np.uint32), np.zeros(count, np.uint64), locations, PLACES, {}
    )


@pytest.mark.parametrize("read", [False, True])
def test_texts_of_several_modules_are_counted_together(monkeypatch: pytest.MonkeyPatch, read: bool) -> None:
    """A module of 200 KB may have 150 names of a megabyte."""
    monkeypatch.setattr(device, "MAX_TEXTS", 5_000)
    texts = ["", *(f"{number}" * 1000 for number in range(1, 7))]
    table = replace(LOCATIONS, strings=texts if read else Strings(*encode_strings(texts)))
    batch = AnswerTableBuilder(4)
    batch.add(np.array([0]), answers(table, 1))  # two texts: its function, which is its kernel, and its file
    batch.add(np.array([1, 2]), answers(table, 1, 1))
    with pytest.raises(LimitExceeded) as caught:
        batch.add(np.array([3]), answers(table, 1))
    assert caught.value.metadata["limit"] == "answer_texts"


@pytest.mark.parametrize("read", [False, True])
def test_texts_are_counted_in_bytes_read_or_not(monkeypatch: pytest.MonkeyPatch, read: bool) -> None:
    texts = ["", *(chr(0x400 + number) * 500 for number in range(6))]  # of two bytes each
    table = replace(LOCATIONS, strings=texts if read else Strings(*encode_strings(texts)))
    monkeypatch.setattr(device, "MAX_TEXTS", 2_000)
    AnswerTableBuilder(1).add(np.array([0]), answers(table, 1))
    monkeypatch.setattr(device, "MAX_TEXTS", 1_999)
    with pytest.raises(LimitExceeded, match="more than 1999 bytes of names and paths"):
        AnswerTableBuilder(1).add(np.array([0]), answers(table, 1))


def test_texts_that_have_no_room_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MAX_TEXTS", 1_000)
    monkeypatch.setattr(device, "subset", lambda *_: pytest.fail("read"))
    long = replace(LOCATIONS, strings=Strings(*encode_strings(["", *(f"{number}" * 1000 for number in range(1, 7))])))
    with pytest.raises(LimitExceeded):
        AnswerTableBuilder(1).add(np.array([0]), answers(long, 1))
