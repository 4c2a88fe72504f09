"""The places of the answers to a batch, as few as possible: what all answers of one origin, or of one text section,
have in common travels once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers
from symd.model.arguments import ColumnQuestion
from symd.model.columns import I64, U32

COMPARED_AT_ONCE = 1 << 15
"""Answers that are compared at a time, so that what is made on the way stays in the processor's cache."""
ANSWERS_A_LOCATION = 8
"""Answers to one location from which on its place may travel with it, and not with each of them."""
DENSE = 1 << 22
"""The most numbers of places that are told apart without sorting; more are not tried."""


class Key(Enum):
    """What answers that lie in one place have in common."""

    OWN = auto()
    ORIGIN = auto()
    LOCATION = auto()


class Placement(NamedTuple):
    """Places by number, from 1 on: the number of each one's ``text_section`` among the answers' (0: none) and of its
    ``module``, and the ``base`` that a value minus its section offset is there; None where the two have not one
    difference. ``number`` has the number of the place of each key, and ``key`` says what is one: each answer's own in
    ``of_answer``, its origin, or its location."""

    number: U32
    key: Key
    of_answer: U32 | None
    text_section: Sequence[int]
    module: Sequence[int]
    base: Sequence[int] | None


def placed(answers: Answers, question: ColumnQuestion | None, module: U32 | None, queries: int) -> Placement:
    """The places of answers to ``question``, where that was a column; ``module`` has the number of each one's, where
    there are several. They answer so many ``queries``: those that are the same have one answer."""
    if question is not None and len(answers):
        origins = len(question.origins) or 1
        for numbers, count, key in _groupings(answers, question, module, origins, queries):
            found = _in_groups(answers, question, module, numbers, count)
            if found is not None:
                return Placement(found[0], key, numbers if key is Key.OWN else None, *found[1:])
    return _without_bases(answers, question, module)


def _groupings(
    answers: Answers, question: ColumnQuestion, module: U32 | None, origins: int, queries: int
) -> Iterator[tuple[U32 | None, int, Key]]:
    """Ways to number the answers, so that all of one number may lie in one place: by origin (None: all have one), by
    what they lie in, by both, and by location, where there are many more answers than locations."""
    yield question.origin, origins, Key.ORIGIN
    lies = _lying_in(answers, module)
    count = int(lies.max()) + 1
    if count <= DENSE:
        yield lies, count, Key.OWN
    if question.origin is not None and count * origins <= DENSE:
        yield lies * origins + question.origin, count * origins, Key.OWN
    count = len(answers.locations)
    if count <= DENSE and queries > ANSWERS_A_LOCATION * count:
        yield answers.location, count, Key.LOCATION


def _lying_in(answers: Answers, module: U32 | None) -> U32:
    """A number for the text section that each answer lies in, or where it lies in none for its module."""
    lies = answers.text_section
    if module is None or lies.all():
        return lies
    return np.where(lies, lies, np.uint32(len(answers.text_sections) + 1) + module)


def _some_of_each(key: U32, count: int) -> I64:
    """For each number below ``count`` an answer that has it as its ``key``; -1 where none has."""
    some: I64 = np.full(count, -1, np.int64)
    for part in _parts(len(key)):
        some[key[part]] = np.arange(part.start, part.stop)
    return some


def _parts(count: int) -> Iterator[slice]:
    starts = range(0, count, COMPARED_AT_ONCE)
    return (slice(start, min(start + COMPARED_AT_ONCE, count)) for start in starts)


def _numbered(used: NDArray[np.bool_]) -> U32:
    """Numbers from 1 on for those that are used."""
    return np.where(used, np.cumsum(used), 0).astype(np.uint32)


def _in_groups(
    answers: Answers, question: ColumnQuestion, module: U32 | None, key: U32 | None, count: int
) -> tuple[U32, Sequence[int], Sequence[int], Sequence[int]] | None:
    """The number of each key's place, and the sections, modules and bases of the places, where all answers of one key
    lie in one place. Of each key some answer is taken, and all are compared with it."""
    some: I64 = np.zeros(count, np.int64) if key is None else _some_of_each(key, count)
    used = some >= 0
    section = answers.text_section[some]
    base = np.where(section, question.values[some] - answers.offset[some], np.uint64(0))
    modules = np.zeros(count, np.uint32) if module is None else module[some]
    one_section, one_module = len(set(section[used].tolist())) == 1, module is None or module.strides == (0,)
    for part in _parts(len(answers)):
        number = 0 if key is None else key[part].astype(np.intp)
        lies = answers.text_section[part]
        same = question.values[part] - answers.offset[part] == base[number]
        if not lies.all():
            same |= lies == 0
        same &= lies == (section[number] if not one_section else section[used][0])
        if module is not None and not one_module:
            same &= module[part] == modules[number]
        if not same.all():
            return None
    places: dict[tuple[int, int, int], int] = {}
    triples = zip(section[used].tolist(), modules[used].tolist(), base[used].tolist(), strict=True)
    numbers = np.ones(count, np.uint32)  # what no answer has may lie in the first
    numbers[used] = [places.setdefault(each, len(places) + 1) for each in triples]
    sections, of_modules, bases = zip(*places, strict=True)
    return numbers, sections, of_modules, bases


def _without_bases(answers: Answers, question: ColumnQuestion | None, module: U32 | None) -> Placement:
    lies = _lying_in(answers, module)
    if not len(lies):
        return Placement(np.empty(0, np.uint32), Key.OWN, lies, (), (), None)
    some = _some_of_each(lies, int(lies.max()) + 1)
    numbers = _numbered(some >= 0)
    some = some[some >= 0]
    modules = [0] * len(some) if module is None else module[some].tolist()
    section = answers.text_section[some].tolist()
    if len(some) > 1:
        return Placement(numbers, Key.OWN, lies, section, modules, None)
    origins = 1 if question is None or question.origin is None else len(question.origins)
    return Placement(np.ones(origins, np.uint32), Key.ORIGIN, None, section, modules, None)
