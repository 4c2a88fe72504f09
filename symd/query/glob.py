"""Names held against a pattern with wildcards (``*``, ``?``, ``[abc]``, ``[a-c]``, ``[!abc]``), in time that grows with the name alone.

A short pattern is a regular expression. A long one costs a regular expression for each character of a name as many steps as it has characters
to try; it is matched by bits instead: one for each part, set where the parts before it fit what was read so far (Baeza-Yates and
Gonnet, "A new approach to text searching", 1992; a ``*`` keeps its bit)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any

FEW_PARTS = 64
"""A pattern of so many parts is a regular expression: a step of its matcher is quick."""
_KEPT_CHARACTERS = 4096
"""For so many different characters it is kept which parts fit them."""


def glob_matcher(pattern: str) -> Callable[[str], Any]:
    """A test of whole names."""
    return re.compile(translate(pattern)).match if sum(1 for _ in _parts(pattern)) <= FEW_PARTS else _Bits(pattern)


def _parts(pattern: str) -> Iterator[str]:
    """Characters, wildcards and bracketed sets, as ``fnmatch`` tells them apart: a bracket that nothing closes is a character."""
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[":
            first = at + 1 + pattern.startswith("!", at + 1)
            end = pattern.find("]", first + pattern.startswith("]", first)) + 1 or end
        yield pattern[at:end]
        at = end


class _Bits:
    """Bit ``n`` of a number stands for the first ``n`` parts, stars not counted."""

    def __init__(self, pattern: str) -> None:
        self._stars = self._any = 0
        self._characters: dict[str, int] = {}
        sets: dict[str, int] = {}
        bit = 1
        for part in _parts(pattern):
            if part == "*":
                self._stars |= bit
                continue
            bit <<= 1
            if part == "?":
                self._any |= bit
            else:
                kind = self._characters if len(part) == 1 else sets
                kind[part] = kind.get(part, 0) | bit
        self._whole = bit
        self._sets = [(re.compile(translate(part)).match, bits) for part, bits in sets.items()]
        self._fitting: dict[str, int] = {}

    def __call__(self, name: str) -> bool:
        known, stars, reached = self._fitting, self._stars, 1
        for character in name:
            fitting = known.get(character)
            if fitting is None:
                fitting = self._fits(character)
            reached = (reached << 1 & fitting) | (reached & stars)
            if not reached:
                return False
        return bool(reached & self._whole)

    def _fits(self, character: str) -> int:
        """The bits of the parts that ``character`` fits."""
        bits = self._any | self._characters.get(character, 0)
        for matches, of_set in self._sets:
            if matches(character):
                bits |= of_set
        if len(self._fitting) < _KEPT_CHARACTERS:
            self._fitting[character] = bits
        return bits
