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
    assert "('*' shows all names)" in run("names", SHADE, "shad*x").err
    asked = run("names", SHADE, "qqqqqq")
    assert f"('*' shows all names, and symd variables {SHADE} PLACE the variables at a place)" in asked.err


def test_a_pattern_without_quotes_is_told_of_quotes(run: Run, tmp_path: Path) -> None:
    outcome = run("names", SHADE, "blur.cl", "blur.co")
    assert outcome.code == 2
    assert "in quotes, such as 'vadd*', so that the shell leaves it alone: blur.cl blur.co" in outcome.err


def test_without_a_pattern_all_names_are_shown(run: Run) -> None:
    module = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    assert run("names", module).out == run("names", module, "*").out != ""


def test_functions_that_contain_a_word_are_shown_where_none_has_that_name(run: Run) -> None:
    """march, shade and clear are the functions of shade.cl with code, and blend is inlined."""
    part = run("functions", SHADE, "ea")
    assert (part.code, [line.split()[1] for line in part.out.splitlines()]) == (0, ["clear"])
    assert part.err == "symd: nothing is named 'ea', but these names contain it\n"
    whole = run("functions", SHADE, "shade")
    assert ([line.split()[:2] for line in whole.out.splitlines()], whole.err) == ([["kernel", "shade"]], "")
    assert {line.split()[1] for line in run("functions", SHADE).out.splitlines()} == {
        "shade",
        "clear",
        "march",
        "blend",
    }
    assert run("names", SHADE, "ea").code == run("functions", SHADE, "zz").code == 1


@pytest.mark.parametrize("verb", ["sources", "source-files"])
def test_the_source_files_of_a_module_are_listed(run: Run, verb: str) -> None:
    assert run(verb, SHADE).out == "file      /src/shade.cl\n"
    assert run(verb, SHADE, "shade.").out == "file      /src/shade.cl\n"
