"""Answers one after the other are what each is alone, whatever pieces they are made in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from symd.model import answer_rows
from symd.model.answers import Answers, Candidate, Frame, Locations, TextSection
from symd.model.identities import ObjectPath
from symd.model.reasons import KNOWN

LOCATIONS = 200
STRINGS = ["", *(f"text {number}" for number in range(20))]


def generated(count: int, seed: int, sections: int = 3, distinct: int = LOCATIONS) -> Answers:
    """Answers to a table of locations up to some ten deep, some of reasons alone, some that name no place."""
    chance = np.random.default_rng(seed)

    def texts() -> np.ndarray:
        return chance.integers(0, len(STRINGS), LOCATIONS).astype(np.uint32) * (chance.random(LOCATIONS) < 0.8)

    parent = (np.arange(LOCATIONS) * chance.random(LOCATIONS)).astype(np.uint32)
    table = Locations(
        reason=chance.integers(1, len(KNOWN) + 1, LOCATIONS).astype(np.uint8),
        kernel=texts().astype(np.uint32),
        function=texts().astype(np.uint32),
        linkage_name=texts().astype(np.uint32),
        file=texts().astype(np.uint32),
        line=chance.integers(0, 1 << 32, LOCATIONS).astype(np.uint32),
        column=chance.integers(0, 99, LOCATIONS).astype(np.uint32),
        inlined=chance.integers(0, 2, LOCATIONS).astype(np.uint8),
        parent=parent,
        strings=STRINGS,
    )
    places = [
        TextSection(ObjectPath(f"/{number}"), f".text{number}", number, number << 62) for number in range(sections)
    ]
    number = chance.integers(0, sections + 1, count).astype(np.uint32)
    candidate = Candidate(ObjectPath("/0"), None, 1, chance.integers(9).item(), "kernel")
    return Answers(
        chance.integers(0, distinct, count).astype(np.uint32),
        number,
        chance.integers(0, 1 << 63, count, dtype=np.uint64),
        table,
        places,
        dict.fromkeys(np.flatnonzero(number == 0).tolist()[:5], (candidate,)),
    )


@pytest.fixture(autouse=True, params=[0, 5, LOCATIONS], ids=["none kept", "few kept", "all kept"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEPT_LOCATIONS", "KEPT_TAILS", "KEPT_TEXTS"):
        monkeypatch.setattr(answer_rows, name, request.param)


@pytest.fixture(autouse=True, params=[(3, 7), (64, 256), (answer_rows.ANSWERS_IN_CACHE, answer_rows.ANSWERS_AT_ONCE)])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = request.param
    monkeypatch.setattr(answer_rows, "ANSWERS_IN_CACHE", few)
    monkeypatch.setattr(answer_rows, "ANSWERS_AT_ONCE", many)


@pytest.mark.parametrize("distinct", [1, 5, LOCATIONS])
@pytest.mark.parametrize("sections", [0, 1, 4])
def test_one_after_the_other(sections: int, distinct: int) -> None:
    answers = generated(500, sections, sections, distinct)
    assert list(answers) == [answers[number] for number in range(len(answers))]


@pytest.mark.parametrize(
    "part", [slice(3, 400), slice(None, None, -1), slice(400, 10, -7), slice(9, 9), slice(-5, None)]
)
def test_some_of_them(part: slice) -> None:
    answers = generated(500, 9)
    assert answers[part] == [answers[number] for number in range(len(answers))[part]]


def test_types_are_those_of_one_alone() -> None:
    answers = generated(500, 4)
    for mine, alone in zip(answers, (answers[number] for number in range(500)), strict=True):
        assert [type(each) for each in mine] == [type(each) for each in alone]
        assert [type(each) for frame in mine.frames for each in frame] == [
            type(each) for frame in alone.frames for each in frame
        ]


def test_answers_of_few_locations_share_their_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_rows, "ANSWERS_IN_CACHE", 500)
    answers = generated(500, 5, distinct=5)
    assert len({id(each.frames) for each in list(answers) if each.frames}) <= 5


def test_frames_of_many_locations_are_forgotten_with_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they stayed for a while, Python's collector would look at them again and again."""
    monkeypatch.setattr(answer_rows, "KEPT_LOCATIONS", 0)
    monkeypatch.setattr(answer_rows, "ANSWERS_IN_CACHE", LOCATIONS)
    answers = generated(LOCATIONS, 6)
    answers.location[:] = np.arange(LOCATIONS)
    answers.locations.parent[:] = 0
    with _only_new_objects():
        alive = [_frames_alive() for number, _ in enumerate(answers) if number % 90 == 0]
    assert max(alive) <= 3


@contextmanager
def _only_new_objects() -> Iterator[None]:
    """Python's collector names no object that was there before: the other tests of this process have left millions."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _frames_alive() -> int:
    return sum(isinstance(each, Frame) for each in gc.get_objects())


def test_none() -> None:
    assert list(generated(0, 1)) == []


def test_a_reason_that_this_version_does_not_know() -> None:
    answers = generated(10, 2)
    answers.locations.reason[:] = 200
    with pytest.raises(ValueError, match="200"):
        list(answers)
