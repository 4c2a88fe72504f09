"""A file has its line sequences in any order: the row that stands for one without a line is the nearest before it by address, with an
index and without one, and the end of a sequence is no row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from symd.config import Limits
from symd.debuginfo.one_address import answer_at
from symd.formats import containers
from symd.index import Index
from symd.index.module import build_index
from symd.model.answers import Reason
from symd.model.frame_text import NeedsIndex
from tests.builders.amdgpu_bundle import text_alone
from tests.builders.dwarf import At, Die, Unit, build_dwarf
from tests.builders.line_program import Row, Shape, build_line_program

BASE, SIZE, STEP = 0x1000, 0x100, 8
LineSequence = Sequence[tuple[int, int]]
"""Offsets and lines of rows; the last one ends it."""


def image(sequences: Sequence[LineSequence]) -> bytes:
    """An AMD code object of one function, with these line sequences in this order."""
    rows = [
        [Row(BASE + at, line=line, end_sequence=number == len(each)) for number, (at, line) in enumerate(each, 1)]
        for each in sequences
    ]
    code = [At("low_pc", "addr", BASE), At("high_pc", "data4", SIZE)]
    function = Die("subprogram", [At("name", "string", "f"), *code])
    root = Die("compile_unit", [At("name", "string", "k.c"), At("stmt_list", "sec_offset", 0), *code], [function])
    debug = build_dwarf([Unit(root, version=4)]).sections
    debug[".debug_line"] = build_line_program(rows, shape=Shape(version=4)).data
    return text_alone(BASE, SIZE, debug)


def expected(sequences: Sequence[LineSequence], at: int) -> tuple[Reason, int] | None:
    """What the rows say of an offset, in one function that has all of them; None where none holds it."""
    rows = sorted(
        (start, stop, line) for each in sequences for (start, line), (stop, _) in pairwise(each) if start <= at
    )
    if not rows or rows[-1][1] <= at:
        return None
    if rows[-1][2]:
        return Reason.EXACT, rows[-1][2]
    return next(((Reason.APPROXIMATE, line) for _, _, line in reversed(rows) if line), (Reason.NO_LINE, 0))


def drawn(dice: random.Random) -> list[LineSequence]:
    """Sequences that do not overlap, some of them with room between them, in any order."""
    edges = [0, *sorted(dice.sample(range(STEP, SIZE, STEP), dice.randint(1, 4))), SIZE]
    found: list[LineSequence] = []
    for start, stop in pairwise(edges):
        if dice.random() < 0.85:
            between = range(start + STEP, stop, STEP)
            starts = [start, *sorted(dice.sample(between, min(dice.randint(0, 3), len(between))))]
            end = stop, dice.choice((0, dice.randint(100, 150)))
            found.append([*((at, dice.choice((0, 0, dice.randint(1, 60)))) for at in starts), end])
    dice.shuffle(found)
    return found


def check(sequences: Sequence[LineSequence]) -> list[Reason]:
    """Compare the answers at every offset; the reasons of those that are answered without an index."""
    data = image(sequences)
    code, index = containers.unpack(data, Limits()).objects[0], Index(build_index(data, Limits()))
    reasons = []
    for at in range(0, SIZE, STEP):
        wanted = expected(sequences, at)
        if wanted is not None:
            known = index._lookup.answer_in(0, at)
            assert (known.reason, known.frames[0].line) == wanted, at
            try:
                reason, frames = answer_at(code, 1, at, Limits())
            except NeedsIndex:
                continue
            assert (reason, frames[0][3]) == wanted, at
            reasons.append(wanted[0])
    return reasons


@pytest.mark.parametrize(
    "sequences",
    [
        [[(0x80, 7), (0xC0, 7)], [(0x20, 0), (0x80, 0)]],
        [[(0, 0), (0x40, 9)], [(0x80, 0), (0x100, 0)]],
        [[(0x80, 0), (0x100, 0)], [(0, 5), (0x80, 5)]],
    ],
    ids=["a sequence at higher addresses first", "the end of a sequence has a line", "the row before comes later"],
)
def test_the_row_before_is_the_one_at_the_lower_address(sequences: list[LineSequence]) -> None:
    assert len(check(sequences)) == sum(expected(sequences, at) is not None for at in range(0, SIZE, STEP))


def test_sequences_in_any_order_are_answered_as_their_rows_say() -> None:
    reasons = [reason for seed in range(100) for reason in check(drawn(random.Random(seed)))]
    assert min(map(reasons.count, (Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE))) > 100


def test_sequences_that_overlap_before_a_row_without_a_line_are_left_to_the_index() -> None:
    code = containers.unpack(image([[(0, 3), (0x40, 3)], [(0x20, 4), (0x60, 4)], [(0x80, 0), (0x100, 0)]]), Limits())
    with pytest.raises(NeedsIndex, match="overlap"):
        answer_at(code.objects[0], 1, 0x90, Limits())
