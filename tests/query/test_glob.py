"""Patterns with wildcards: what ``fnmatch`` says, whichever way they are matched."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase

import pytest

from symd.query.names import FEW_PARTS, _Bits, glob_matcher

PATTERNS = [
    "",
    "*",
    "**",
    "?",
    "a*b",
    "[ab]*",
    "[!a]b",
    "[]a]*",
    "[!]a]",
    "[a",
    "[!",
    "[",
    "*[a-",
    "a[b-a]c",
    "[a-c-]?",
    "*a?*b",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_bits_say_what_fnmatch_says(pattern: str) -> None:
    bits = _Bits(pattern)
    for name in ["", "a", "b", "ab", "[a", "[", "]", "[!", "-?", "ba\n", "abab", "a-", "é]b", "aab"]:
        assert bits(name) == fnmatchcase(name, pattern), name


def test_bits_say_what_fnmatch_says_of_any_pattern() -> None:
    some = random.Random(7)
    for _ in range(3000):
        pattern = "".join(some.choices("ab*?[]!-", k=some.randrange(9)))
        name = "".join(some.choices("ab[]-", k=some.randrange(7)))
        assert _Bits(pattern)(name) == fnmatchcase(name, pattern), (pattern, name)


def test_a_long_pattern_is_matched_by_bits() -> None:
    """A regular expression takes a step for each character of the name and each set of the pattern: 2,000,000 for this one."""
    assert isinstance(glob_matcher("*" + "[a-b]" * 198 + "c*"), _Bits)
    assert not isinstance(glob_matcher("[a-b]" * FEW_PARTS), _Bits)


def test_a_letter_is_held_against_the_sets_of_a_pattern_once() -> None:
    bits = _Bits("*" + "[a-b]" * 198 + "c*")
    assert not bits("a" * 9_985)
    assert bits("ab" * 200 + "c" + "d" * 9_000)
    assert sorted(bits._fitting) == ["a", "b", "c", "d"]
