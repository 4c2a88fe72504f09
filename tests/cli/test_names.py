"""``symd names`` where a name is misspelt, or the shell took the pattern for file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.mark.parametrize(("asked", "meant"), [("shad", "shade"), ("marc", "march")])
def test_a_misspelt_name_is_told_with_those_like_it(run: Run, asked: str, meant: str) -> None:
    outcome = run("names", SHADE, asked)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"nothing is named {asked!r} (did you mean {meant}" in outcome.err


def test_a_name_like_no_other_and_a_pattern_have_no_such_hint(run: Run) -> None:
    for asked in ("qqqqqq", "shad*x"):
        assert "('*' shows all names)" in run("names", SHADE, asked).err


def test_a_pattern_without_quotes_is_told_of_quotes(run: Run, tmp_path: Path) -> None:
    outcome = run("names", SHADE, "blur.cl", "blur.co")
    assert outcome.code == 2
    assert "in quotes, such as 'vadd*', so that the shell leaves it alone: blur.cl blur.co" in outcome.err


def test_without_a_pattern_all_names_are_shown(run: Run) -> None:
    module = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    assert run("names", module).out == run("names", module, "*").out != ""
