"""Which functions could be meant by a name that no function has? Those whose names have most pairs of neighbouring characters in
common with it. All names of a module are looked at as numbers, and the few that come near are compared as people write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symd.index import Index
from symd.index.format import Column
from symd.model.answers import Candidate
from symd.model.columns import I64
from symd.query.function_spellings import LONGEST, plain, spellings
from symd.query.query_budget import QueryBudget

MAX_SUGGESTIONS = 5
"""The most names that are suggested for one that does not exist."""
MAX_CHARACTERS_COMPARED = 1_000_000
"""Letters of the names that are looked at, the first of the module."""
MAX_COMPARED = 40
"""The most names of a module whose spellings are compared with one name."""
_LEAST_ALIKE = 0.4
"""Share of pairs of neighbouring characters that two names have in common, below which one is no suggestion for the other."""
_END = "\n"
"""Stands at the beginning and the end of every name."""


class _ComparedNames(NamedTuple):
    """Names of functions, and the numbers of these strings. ``pairs`` are the neighbouring characters of all of them as numbers, those of each from ``first`` on."""

    names: Sequence[str]
    numbers: Sequence[int]
    pairs: Column
    first: I64
    size: I64


def suggestions(
    index: Index, names: Sequence[str], path: str | None, effort: QueryBudget
) -> list[tuple[Candidate, ...]]:
    """For each of ``names``, which do not exist, the functions whose names are most like it, the best first. Raises what ``effort``
    raises."""
    functions = index.functions
    rows = np.flatnonzero(np.isin(functions.section.astype(np.int64) - 1, index.chosen_sections(path)))
    numbers = np.unique(np.concatenate([functions.name[rows], functions.linkage_name[rows]]))
    texts = _texts(index, numbers)
    spelled: dict[int, list[set[str]]] = {}
    found = []
    for name in names:
        ranked = _ranked(texts, plain(name), spelled, effort) if len(name) <= LONGEST else []
        found.append(tuple(_candidates(index, rows, texts, ranked)))
    return found


def _texts(index: Index, numbers: Column) -> _ComparedNames:
    names, kept, characters = [], [], 0
    for number in numbers.tolist():
        text = index.strings[number]
        characters += len(text)
        if characters > MAX_CHARACTERS_COMPARED:
            break
        if text and len(text) <= LONGEST:
            names.append(text)
            kept.append(number)
    pairs = _pairs_of("".join(f"{_END}{name}{_END}" for name in names))
    size = np.array([len(name) + 2 for name in names], np.int64)
    return _ComparedNames(names, kept, np.append(pairs, np.zeros(1, pairs.dtype)), np.cumsum(size) - size, size)


def _pairs_of(text: str) -> Column:
    """Each character with the one after it as one number; characters that are not Latin count as one."""
    characters = np.frombuffer(text.lower().encode("latin-1", "replace"), np.uint8).astype(np.uint16)
    return characters[:-1] << 8 | characters[1:]


def _ranked(texts: _ComparedNames, name: str, spelled: dict[int, list[set[str]]], effort: QueryBudget) -> list[int]:
    """Which of the texts are like a name, the best first. ``spelled`` keeps what was spelled out."""
    wanted = _pairs(name)
    found = []
    for at in _near(texts, name):
        text = texts.names[at]
        if at not in spelled:
            each = spellings(text)
            effort.spend(sum(map(len, each)))
            spelled[at] = [_pairs(other) for other in each]
        alike = max(_alike(wanted, pairs) for pairs in spelled[at])
        if alike >= _LEAST_ALIKE:
            found.append((alike, -len(text), text, at))
    return [at for *_, at in sorted(found, reverse=True)]


def _near(texts: _ComparedNames, name: str) -> Iterator[int]:
    """The numbers of the names that share most of their characters with a name, the nearest first."""
    if not texts.names or not name:
        return
    asked = np.zeros(1 << 16, np.bool_)
    asked[_pairs_of(f"{_END}{name}{_END}")] = True
    common = np.add.reduceat(asked[texts.pairs], texts.first, dtype=np.int64)
    alike = common / (np.count_nonzero(asked) + texts.size - common)
    for number in np.argsort(-alike, kind="stable")[:MAX_COMPARED].tolist():
        if common[number]:
            yield number


def _candidates(index: Index, rows: Column, texts: _ComparedNames, ranked: Sequence[int]) -> Iterator[Candidate]:
    """Where functions with these names begin, each place once."""
    functions = index.functions
    told: set[tuple[int, int]] = set()
    for at in ranked:
        called = (functions.name[rows] == texts.numbers[at]) | (functions.linkage_name[rows] == texts.numbers[at])
        for row in rows[called].tolist():
            place = int(functions.section[row]) - 1, int(functions.offset[row])
            if len(told) == MAX_SUGGESTIONS:
                return
            if place not in told and functions.size[row]:
                told.add(place)
                yield index.candidate(*place)._replace(function=texts.names[at])


def _pairs(name: str) -> set[str]:
    """Neighbouring characters, with marks for the name's beginning and end."""
    text = f"{_END}{name.lower()}{_END}"
    return {text[at : at + 2] for at in range(len(text) - 1)}


def _alike(wanted: set[str], pairs: set[str]) -> float:
    common = len(wanted & pairs)
    return common / (len(wanted) + len(pairs) - common)
