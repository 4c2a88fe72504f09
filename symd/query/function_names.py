"""Where the function of a name begins: kernels are meant first, then symbols, then the names of functions in debug data
and in readable C++; each only where nothing before it has the name.

For a name that no function has, functions are suggested whose names have most pairs of neighboring characters in common
with it: all names of a module are compared as numbers, and the few that come near as people write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from symd.index import Index
from symd.index.format import Column
from symd.index.lookup import Start
from symd.model.answers import Candidate
from symd.model.cancellation import check_cancelled
from symd.model.columns import I64
from symd.query.function_spellings import (
    MAX_NAME_LENGTH,
    Key,
    Spelled,
    compact,
    meaning,
    spellings,
    taken_apart,
    ways_to_read,
    words_in,
)
from symd.query.symbolize import NameSearchBudget

CHARACTERS_A_NAME = 2_000
"""About so many characters are searched for a word in the time that it takes to take one name apart."""
_MAX_HELD_AGAINST = 64
"""A function's name is searched for the words of so many names that are asked for, before it is taken apart."""
_NAME_BITS = 32
_NAME_MASK = (1 << _NAME_BITS) - 1


class NameSearch:
    """What names mean that no kernel and no symbol has as they stand. ``budget`` is that of the question."""

    def __init__(self, budget: NameSearchBudget) -> None:
        self._budget = budget

    def starts_of_each(self, index: Index, names: Iterable[str], path: str | None) -> dict[str, list[Start]]:
        """Where functions of each of ``names`` begin, in what ``path`` chooses. Raises what the budget raises."""
        return starts_of_each(index, names, path, self._budget)

    def suggestions(self, index: Index, names: Sequence[str], path: str | None) -> list[tuple[Candidate, ...]]:
        """For each of ``names``, which do not exist, the functions whose names are most like it, the best first. Raises
        what the budget raises."""
        return suggestions(index, names, path, self._budget)

    def symbols_meant(self, asked: Iterable[str], symbols: Iterable[str]) -> dict[str, list[str]]:
        """The symbols that each name means best, where no symbol has that very name. Raises what the budget raises."""
        return symbols_meant(asked, symbols, self._budget)


def starts(index: Index, name: str, path: str | None, budget: NameSearchBudget | None = None) -> list[Start]:
    """Where functions of that name begin, in what ``path`` chooses: those of the first kind of name that has it."""
    return starts_of_each(index, (name,), path, budget or NameSearchBudget())[name]


def starts_of_each(
    index: Index, names: Iterable[str], path: str | None, budget: NameSearchBudget
) -> dict[str, list[Start]]:
    """Where functions of each of ``names`` begin, in what ``path`` chooses: those of the first kind of name that has
    it. The time grows with the module's names and with ``names``, not with one times the other. Raises what
    ``budget`` raises."""
    found: dict[str, list[Start]] = {name: [] for name in names}
    missing = [name for name in found if len(name) <= MAX_NAME_LENGTH]
    for lookup in (_kernels, _symbols, _readable_symbols, _readable, _small_letters, _entry_points):
        for name, places in lookup(index, missing, path, budget):
            found[name] = list(dict.fromkeys(places))
        missing = [name for name in missing if not found[name]]
        if not missing:
            break
    return found


_Found = Iterator[tuple[str, Iterable[Start]]]
"""Names, and where functions of these begin."""


def _kernels(index: Index, names: Sequence[str], path: str | None, _effort: NameSearchBudget) -> _Found:
    for name in names:
        yield name, index.kernel_starts(name, path)


def _symbols(index: Index, names: Sequence[str], path: str | None, _effort: NameSearchBudget) -> _Found:
    numbers, called = index.strings.equal_to(names), _symbol_names(index)
    near = np.flatnonzero(np.isin(called, [number for own in numbers.values() for number in own]))
    rows: dict[int, list[int]] = {}
    for row, number in zip(near.tolist(), called[near].tolist(), strict=True):
        rows.setdefault(number, []).append(row)
    for name, own in numbers.items():
        yield name, _placed(index, sorted(row for number in own for row in rows.get(number, ())), path)


def _symbol_names(index: Index) -> Column:
    """For each function the number of its symbol's name."""
    functions = index.functions
    return index.columns.owner_name[np.where(functions.symbol > 0, functions.symbol, functions.owner)]


def _readable_symbols(index: Index, names: Sequence[str], path: str | None, budget: NameSearchBudget) -> _Found:
    """What kernels and symbols may be called."""
    columns, called = index.columns, _symbol_names(index)
    asked = _asked(names)
    placed = np.flatnonzero(index.functions.section > 0)
    every = np.unique(np.concatenate([called[placed], columns.kernel_name]))
    every = every[np.isin(every, _holding(index, asked, len(every)))]
    for name, numbers in _meant(asked, ((number, (index.strings[number],)) for number in every.tolist()), budget):
        kernels = [start for number in numbers for start in index.kernel_starts(index.strings[number], path)]
        rows = placed[np.isin(called[placed], numbers)].tolist()
        yield name, [*kernels, *_placed(index, rows, path)]


def _readable(index: Index, names: Sequence[str], path: str | None, budget: NameSearchBudget) -> _Found:
    """What functions may be called in debug data. Those that are called the same are compared once."""
    functions, strings, asked = index.functions, index.strings, _asked(names)
    rows = np.flatnonzero(functions.section > 0)
    near = _holding(index, asked, len(rows))
    rows = rows[np.isin(functions.name[rows], near) | np.isin(functions.linkage_name[rows], near)]
    pairs = functions.linkage_name[rows].astype(np.int64) << _NAME_BITS | functions.name[rows]
    called, which = np.unique(pairs, return_inverse=True)
    texts = ((strings[names_of >> _NAME_BITS], strings[names_of & _NAME_MASK]) for names_of in called.tolist())
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(called)))
    for name, numbers in _meant(asked, enumerate(texts), budget):
        found = [rows[order[ends[number - 1] if number else 0 : ends[number]]] for number in numbers]
        yield name, _placed(index, np.sort(np.concatenate(found)).tolist(), path)


def _asked(names: Iterable[str]) -> dict[str, Spelled]:
    return {name: spelled for name in names if name and (spelled := taken_apart(name)).path[-1].name}


def _entry_points(index: Index, names: Sequence[str], path: str | None, _effort: NameSearchBudget) -> _Found:
    """Kernels of machine code by the names of the entry points that they were compiled from. Drivers and compilers take
    that of the function behind, where it has another."""
    columns, functions = index.columns, index.functions
    is_input = columns.object_compiler_input[columns.section_object]
    if path in [index.objects[number] for number in np.flatnonzero(columns.object_compiler_input).tolist()]:
        return
    for name in names if is_input.any() else ():
        called: set[str] = set()
        for entry in index.kernels_named(name):
            if is_input[entry.section]:
                rows = np.flatnonzero((functions.section == entry.section + 1) & (functions.offset == entry.offset))
                called.update(index.strings[number] for number in functions.name[rows].tolist())
        yield name, [start for other in sorted(called - {name}) for start in index.kernel_starts(other, path)]


def _holding(index: Index, asked: Mapping[str, Spelled], count: int) -> Column:
    """The numbers of the strings that hold a word of a name that is asked for; of all of them where to compare
    ``count`` names takes no longer than to look for that many words."""
    words, strings = {each.anchor for each in asked.values()}, index.strings
    if len(words) * strings.text_bytes >= count * CHARACTERS_A_NAME:
        return np.arange(len(strings)) if words else np.zeros(0, np.int64)
    holding = [np.zeros(0, np.int64)]
    for word in words:
        check_cancelled()
        holding.append(strings.holding(word))
    return np.concatenate(holding)


_Number = TypeVar("_Number")


def _meant(
    asked: Mapping[str, Spelled], functions: Iterable[tuple[_Number, Sequence[str]]], budget: NameSearchBudget
) -> Iterator[tuple[str, list[_Number]]]:
    """The functions, given with all their names, that each of the names asked for means best."""
    compared = Compared(asked, budget.spend)
    alike: dict[str, dict[int, list[_Number]]] = {}
    for function, texts in functions:
        for name, how in compared.meant_by(*texts).items():
            alike.setdefault(name, {}).setdefault(how, []).append(function)
    for name, by_meaning in alike.items():
        yield name, by_meaning[max(by_meaning)]


def symbols_meant(asked: Iterable[str], symbols: Iterable[str], budget: NameSearchBudget) -> dict[str, list[str]]:
    """The symbols that each name means best, as ``starts_of_each`` finds them where no symbol has that very name."""
    return dict(_meant(_asked(asked), ((each, (each,)) for each in symbols), budget))


class SymbolsByWord:
    """Symbols, and which of them names mean that are asked for one after the other."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self._symbols = [each for each in symbols if each and len(each) <= MAX_NAME_LENGTH]
        self._holding: dict[str, list[str]] = {}
        self._ways: dict[tuple[str, bool], tuple[Spelled, ...]] = {}

    def meant_by(self, name: str) -> list[str]:
        """The symbols that a name means best."""
        wanted = taken_apart(name) if name and len(name) <= MAX_NAME_LENGTH else None
        if wanted is None or not wanted.path[-1].name:
            return []
        found: dict[int, list[str]] = {}
        for symbol in self._with(wanted.anchor):
            if all(word in symbol for word in wanted.needs):
                ways = self._read(symbol, symbolic=wanted.symbolic)
                how = max((meaning(wanted, each) for each in ways if wanted.key in each.keys), default=0)
                found.setdefault(how, []).append(symbol)
        best = max(found, default=0)
        return found[best] if best else []

    def _with(self, word: str) -> list[str]:
        if word not in self._holding:
            self._holding[word] = [each for each in self._symbols if word in each]
        return self._holding[word]

    def _read(self, symbol: str, *, symbolic: bool) -> tuple[Spelled, ...]:
        key = symbol, symbolic
        if key not in self._ways:
            self._ways[key] = tuple(ways_to_read(symbol, symbolic=symbolic))
        return self._ways[key]


def _small_letters(index: Index, names: Sequence[str], path: str | None, budget: NameSearchBudget) -> _Found:
    """Names in capital letters, as Fortran's sources may have them: its compilers write small ones."""
    small = {in_small_letters(name): name for name in names}
    small.pop("", None)
    for lookup in (_readable_symbols, _readable) if small else ():
        for name, places in lookup(index, list(small), path, budget):
            if found := list(places):
                yield small.pop(name), found


def in_small_letters(name: str) -> str:
    """A name that is all capital letters in small ones; "" for others."""
    return name.lower() if name.isupper() else ""


class Compared:
    """Names that are asked for, compared with functions. ``spend`` is told how many characters are read for that."""

    def __init__(self, asked: Mapping[str, Spelled], spend: Callable[[int], None]) -> None:
        self._spend = spend
        self._symbolic = any(each.symbolic for each in asked.values())
        self._by_key: dict[Key, list[tuple[str, Spelled]]] = {}
        self._by_anchor: dict[str, list[frozenset[str]]] = {}
        for name, each in asked.items():
            self._by_key.setdefault(each.key, []).append((name, each))
            self._by_anchor.setdefault(each.anchor, []).append(each.needs)

    def meant_by(self, *called: str) -> dict[str, int]:
        """The names that mean a function which is called by these names, each with how well it does. Only texts that
        hold the words which are asked for are taken apart."""
        meant: dict[str, int] = {}
        for text in called:
            for function in self._ways(text) if self._may_be_meant(text) else ():
                for name, wanted in (each for key in function.keys for each in self._by_key.get(key, ())):
                    if (how := meaning(wanted, function)) > meant.get(name, 0):
                        meant[name] = how
        return meant

    def _ways(self, text: str) -> Iterator[Spelled]:
        for way in ways_to_read(text, symbolic=self._symbolic):
            self._spend(len(way.text))
            yield way

    def _may_be_meant(self, text: str) -> bool:
        if not 0 < len(text) <= MAX_NAME_LENGTH or not self._holds_an_anchor(text):
            return False
        words, characters = words_in(text)
        self._spend(characters)
        held = self._by_anchor.keys() if words is None else (words | {""}) & self._by_anchor.keys()
        anchors = [self._by_anchor[word] for word in held]
        asked = sum(map(len, anchors))
        return asked > _MAX_HELD_AGAINST or any(
            all(word in text for word in needs) for each in anchors for needs in each
        )

    def _holds_an_anchor(self, text: str) -> bool:
        anchors = self._by_anchor
        return len(anchors) > _MAX_HELD_AGAINST or any(word in text for word in anchors)


def _placed(index: Index, rows: Iterable[int], path: str | None) -> Iterator[Start]:
    functions = index.functions
    for row in rows:
        section = int(functions.section[row]) - 1
        if section >= 0 and index.is_chosen(section, path):
            yield index.start(section, int(functions.offset[row]), int(functions.size[row]))


MAX_SUGGESTIONS = 5
"""The most names that are suggested for one that does not exist."""
MAX_CHARACTERS_COMPARED = 1_000_000
"""Letters of the names that are looked at, the first of the module."""
MAX_COMPARED = 40
"""The most names of a module whose spellings are compared with one name."""
_MIN_SIMILARITY = 0.4
"""Share of pairs of neighboring characters that two names have in common, below which one is no suggestion for the
other."""
_END = "\n"
"""Stands at the beginning and the end of every name."""


class _ComparedNames(NamedTuple):
    """Names of functions, and the numbers of these strings. ``pairs`` are the neighboring characters of all of them as
    numbers, those of each from ``first`` on."""

    names: Sequence[str]
    numbers: Sequence[int]
    pairs: Column
    first: I64
    size: I64


def suggestions(
    index: Index, names: Sequence[str], path: str | None, budget: NameSearchBudget
) -> list[tuple[Candidate, ...]]:
    """For each of ``names``, which do not exist, the functions whose names are most like it, the best first. Raises
    what ``budget`` raises."""
    functions = index.functions
    rows = np.flatnonzero(np.isin(functions.section.astype(np.int64) - 1, index.chosen_sections(path)))
    numbers = np.unique(np.concatenate([functions.name[rows], functions.linkage_name[rows]]))
    texts = _texts(index, numbers)
    spelled: dict[int, list[set[str]]] = {}
    found = []
    for name in names:
        ranked = _ranked(texts, compact(name), spelled, budget) if len(name) <= MAX_NAME_LENGTH else []
        found.append(tuple(_candidates(index, rows, texts, ranked)))
    return found


def _texts(index: Index, numbers: Column) -> _ComparedNames:
    names, kept, characters = [], [], 0
    for number in numbers.tolist():
        text = index.strings[number]
        characters += len(text)
        if characters > MAX_CHARACTERS_COMPARED:
            break
        if text and len(text) <= MAX_NAME_LENGTH:
            names.append(text)
            kept.append(number)
    pairs = _pairs_of("".join(f"{_END}{name}{_END}" for name in names))
    size = np.array([len(name) + 2 for name in names], np.int64)
    return _ComparedNames(names, kept, np.append(pairs, np.zeros(1, pairs.dtype)), np.cumsum(size) - size, size)


def _pairs_of(text: str) -> Column:
    """Each character with the one after it as one number; characters that are not Latin count as one."""
    characters = np.frombuffer(text.lower().encode("latin-1", "replace"), np.uint8).astype(np.uint16)
    return characters[:-1] << 8 | characters[1:]


def _ranked(
    texts: _ComparedNames, name: str, spelled: dict[int, list[set[str]]], budget: NameSearchBudget
) -> list[int]:
    """Which of the texts are like a name, or have its letters in another order, the best first. ``spelled`` keeps what
    was spelled out."""
    wanted, letters = _pairs(name), sorted(name.lower())
    found = []
    for at in _near(texts, name):
        text = texts.names[at]
        if at not in spelled:
            each = spellings(text)
            budget.spend(sum(map(len, each)))
            spelled[at] = [_pairs(other) for other in each]
        alike = max(_alike(wanted, pairs) for pairs in spelled[at])
        if alike >= _MIN_SIMILARITY or sorted(text.lower()) == letters:
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
    seen: set[tuple[int, int]] = set()
    for at in ranked:
        called = (functions.name[rows] == texts.numbers[at]) | (functions.linkage_name[rows] == texts.numbers[at])
        for row in rows[called].tolist():
            place = int(functions.section[row]) - 1, int(functions.offset[row])
            if len(seen) == MAX_SUGGESTIONS:
                return
            if place not in seen and functions.size[row]:
                seen.add(place)
                yield index.candidate(*place)._replace(function=texts.names[at])


def _pairs(name: str) -> set[str]:
    """Neighboring characters, whichever comes first, with marks for the name's beginning and end: two letters that were
    changed round are still neighbors."""
    text = f"{_END}{name.lower()}{_END}"
    return {"".join(sorted(text[at : at + 2])) for at in range(len(text) - 1)}


def _alike(wanted: set[str], pairs: set[str]) -> float:
    common = len(wanted & pairs)
    return common / (len(wanted) + len(pairs) - common)
