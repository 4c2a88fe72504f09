"""Answers about random programs are true by the text of the programs, for each compiler that is here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.agreement.generated import AMD, INTEL, NVIDIA, STEP, Command, Program, compilers, judged
from tests.agreement.literals import moves
from tests.tools import UNDER_CI

FOUND = [pytest.param(vendor, command, id=told) for vendor, told, command in compilers()]
SEEDS = range(3)


@pytest.mark.parametrize(("vendor", "command"), FOUND)
def test_answers_are_true_by_the_text_that_was_compiled(vendor: str, command: Command, tmp_path: Path) -> None:
    for seed in SEEDS:
        tally = judged(vendor, command, seed, tmp_path)
        assert not +tally.wrong
        assert not +tally.wrong_calls
        assert tally.counts["judged"] > 20
        assert tally.counts["calls"] > 20


@pytest.mark.parametrize(("vendor", "command"), [each for each in FOUND if each.id == "ocloc, dg2"])
def test_what_a_compiler_writes_wrongly_is_seen(vendor: str, command: Command, tmp_path: Path) -> None:
    """Generation 1 of Intel's compiler contradicts itself, which LLVM repeats."""
    tallies = [judged(vendor, command, seed, tmp_path, as_written=True) for seed in range(6)]
    assert any(+tally.wrong for tally in tallies)


@pytest.mark.parametrize(
    ("vendor", "command"), [each for each in FOUND if each.id in ("clang 22, gfx900", "ocloc, dg2")]
)
def test_lines_of_moved_literals_cannot_be_judged(
    vendor: str, command: Command, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """docs/contradictions.md says how many have a line in which the literal does not stand."""
    told = request.node.callspec.id
    found = Counter(move for seed in range(2) for move in moves(vendor, told, command, seed, tmp_path))
    assert found["line"] > 10
    assert found["another"] > 2


def test_programs_follow_from_their_seed() -> None:
    for vendor in STEP:
        assert Program(vendor, 7).text == Program(vendor, 7).text != Program(vendor, 8).text


@pytest.mark.skipif(not UNDER_CI, reason="elsewhere compilers may be missing")
def test_two_vendors_have_compilers_at_least() -> None:
    vendors = {vendor for vendor, *_ in compilers()}
    assert {AMD, INTEL} <= vendors <= {AMD, INTEL, NVIDIA}
