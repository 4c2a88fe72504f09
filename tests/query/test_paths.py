"""Source paths: spellings, suffixes and rules."""

from __future__ import annotations

import pytest

from symd.errors import BadQuery
from symd.model.cancellation import cancelled_by
from symd.model.sources import PathRule, parse_rule
from symd.query.source_files import matching, normal, remapped

PATHS = ["/src/a/vadd.cl", "/src/b/vadd.cl", "/src/b/./x/../reduce.cl", "kernels/blur.cl", "C:\\work\\Tone.cl"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("vadd.cl", ["/src/a/vadd.cl", "/src/b/vadd.cl"]),
        ("a/vadd.cl", ["/src/a/vadd.cl"]),
        ("/src/a/vadd.cl", ["/src/a/vadd.cl"]),
        ("./a/vadd.cl", ["/src/a/vadd.cl"]),
        ("../../a/vadd.cl", ["/src/a/vadd.cl"]),
        ("a//vadd.cl", ["/src/a/vadd.cl"]),
        ("add.cl", []),
        ("/a/vadd.cl", []),
        ("src/vadd.cl", []),
        ("VADD.cl", []),
        ("b/reduce.cl", ["/src/b/reduce.cl"]),
        ("blur.cl", ["kernels/blur.cl"]),
        ("/kernels/blur.cl", []),
        ("work/Tone.cl", ["C:/work/Tone.cl"]),
        ("C:\\work\\Tone.cl", ["C:/work/Tone.cl"]),
    ],
)
def test_a_file_is_found_by_whole_components_at_its_end(wanted: str, found: list[str]) -> None:
    assert sorted(matching(PATHS, wanted)) == found


def test_the_exact_path_goes_before_longer_ones() -> None:
    assert list(matching(["vadd.cl", "/src/vadd.cl"], "vadd.cl")) == ["vadd.cl"]


def test_spellings_of_one_file_are_one_file() -> None:
    paths = ["/src/./a.cl", "/src/a.cl", "/src/x/../a.cl"]
    assert matching(paths, "a.cl") == {"/src/a.cl": paths}


RULES = (PathRule("/src/b", "/home/me/b"), PathRule("/src", "/mnt"), PathRule("", "/relative"))


@pytest.mark.parametrize(
    ("path", "here"),
    [
        ("/src/b/vadd.cl", "/home/me/b/vadd.cl"),
        ("/src/bc/vadd.cl", "/mnt/bc/vadd.cl"),
        ("/src", "/mnt"),
        ("/other/vadd.cl", "/other/vadd.cl"),
        ("kernels/blur.cl", "/relative/kernels/blur.cl"),
        ("/srcs/vadd.cl", "/srcs/vadd.cl"),
    ],
)
def test_the_first_rule_that_fits_counts(path: str, here: str) -> None:
    assert remapped(path, RULES) == here


def test_a_file_is_found_under_both_its_names_and_given_under_the_new_one() -> None:
    for wanted in ("/src/b/vadd.cl", "/home/me/b/vadd.cl", "me/b/vadd.cl", "src/b/vadd.cl"):
        assert matching(PATHS, wanted, RULES) == {"/home/me/b/vadd.cl": ["/src/b/vadd.cl"]}


def test_rules_are_written_from_equals_to() -> None:
    assert parse_rule("/a=/b=c") == PathRule("/a", "/b=c")
    for text in ("", "=", "/a"):
        with pytest.raises(BadQuery):
            parse_rule(text)


def test_the_empty_path_stays_empty() -> None:
    assert normal("") == ""
    assert matching(PATHS, "") == {}


def test_what_a_rule_says_is_worked_out_once_for_all_paths(monkeypatch):
    """A rule's folders have as many characters as a path may have, and a module has very many files."""
    seen = []

    def counted(path):
        seen.append(path)
        return normal(path)

    monkeypatch.setattr("symd.query.source_files.normal", counted)
    rules = [PathRule(f"/elsewhere/{number}", "/x") for number in range(10)]
    assert list(matching([f"/src/{number}.c" for number in range(100)], "7.c", rules)) == ["/src/7.c"]
    assert sum(path.startswith("/elsewhere") for path in seen) == len(rules)


def test_nobody_looks_through_files_for_one_who_has_left() -> None:
    def leave() -> None:
        raise Left

    seen = []
    with pytest.raises(Left), cancelled_by(leave):
        matching((seen.append(number) or f"/src/{number}.cl" for number in range(10_000)), "1.cl")
    assert len(seen) == 1


class Left(Exception):
    pass
