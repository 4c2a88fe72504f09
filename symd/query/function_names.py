"""Where does the function of this name begin? Kernels are meant first, then symbols, then what functions are called in
debug data and in readable C++; each only where nothing before it has the name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from symd.index import Index
from symd.index.format import Column
from symd.index.lookup import Start
from symd.query.effort import Effort
from symd.query.function_spellings import LONGEST, last_word, plain, spellings, stands_in_no_name, words_in

CHARACTERS_A_NAME = 2_000
"""About so many characters are searched for a word in the time that it takes to take one name apart."""
_NAME_BITS = 32
_NAME_MASK = (1 << _NAME_BITS) - 1


def starts(index: Index, name: str, path: str | None, effort: Effort | None = None) -> list[Start]:
    """Where functions of that name begin, in what ``path`` chooses: those of the first kind of name that has it."""
    return starts_of_each(index, (name,), path, effort or Effort())[name]


def starts_of_each(index: Index, names: Iterable[str], path: str | None, effort: Effort) -> dict[str, list[Start]]:
    """The same for several names, in time that grows with the module's names and with these, not with one times the other.
    Raises what ``effort`` raises."""
    found: dict[str, list[Start]] = {name: [] for name in names}
    missing = [name for name in found if len(name) <= LONGEST]
    for lookup in (_kernels, _symbols, _readable, _entry_points):
        for name, places in lookup(index, missing, path, effort):
            found[name] = list(dict.fromkeys(places))
        missing = [name for name in missing if not found[name]]
        if not missing:
            break
    return found


_Found = Iterator[tuple[str, Iterable[Start]]]
"""Names, and where functions of these begin."""


def _kernels(index: Index, names: Sequence[str], path: str | None, _effort: Effort) -> _Found:
    for name in names:
        yield name, index.kernel_starts(name, path)


def _symbols(index: Index, names: Sequence[str], path: str | None, _effort: Effort) -> _Found:
    functions, numbers = index.functions, index.strings.equal_to(names)
    called = index.columns.owner_name[np.where(functions.symbol > 0, functions.symbol, functions.owner)]
    near = np.flatnonzero(np.isin(called, [number for own in numbers.values() for number in own]))
    rows: dict[int, list[int]] = {}
    for row, number in zip(near.tolist(), called[near].tolist(), strict=True):
        rows.setdefault(number, []).append(row)
    for name, own in numbers.items():
        yield name, _placed(index, sorted(row for number in own for row in rows.get(number, ())), path)


def _readable(index: Index, names: Sequence[str], path: str | None, effort: Effort) -> _Found:
    """What is compared are functions with a name that holds the last word in front of arguments and parameters. Functions that are
    called the same are compared once."""
    asked = {name: plain(name) for name in names}
    words = {each: word for each in asked.values() if (word := last_word(each))}
    rows = _near(index, frozenset(words.values()), effort) if words else np.zeros(0, np.int64)
    called, which = np.unique(_called(index)[rows], return_inverse=True)
    alike: dict[str, list[int]] = {}
    compared = _Compared(words, effort)
    for number, names_of in enumerate(called.tolist()):
        for each in compared.meant_by(index.strings[names_of >> _NAME_BITS], index.strings[names_of & _NAME_MASK]):
            alike.setdefault(each, []).append(number)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(called)))
    for name, each in asked.items():
        found = [rows[order[ends[number - 1] if number else 0 : ends[number]]] for number in alike.get(each, ())]
        if found:
            yield name, _placed(index, np.sort(np.concatenate(found)).tolist(), path)


def _entry_points(index: Index, names: Sequence[str], path: str | None, _effort: Effort) -> _Found:
    """Kernels of machine code by the names of the entry points that they were compiled from. Drivers and compilers take that of the
    function behind, where it has another."""
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


class _Compared:
    """Plain names that are asked for, ``words`` has the last word of each, compared with functions."""

    def __init__(self, words: Mapping[str, str], effort: Effort) -> None:
        self._words = words
        self._effort = effort
        self._wanted = frozenset(words.values())
        self._odd = [word for word in self._wanted if stands_in_no_name(word)]

    def meant_by(self, *called: str) -> Collection[str]:
        """Those that mean a function with these names. What is spelled out are names that hold a word which is asked for."""
        texts = [text for text in called if text and len(text) <= LONGEST]
        if not any(self._holds_a_word(text) for text in texts):
            return ()
        spelled = [spellings(text) for text in texts]
        self._effort.spend(sum(len(each) for some in spelled for each in some))
        meant = self._words.keys() & frozenset[str]().union(*spelled)
        return [each for each in meant if any(self._words[each] in text for text in called)]

    def _holds_a_word(self, text: str) -> bool:
        words, characters = words_in(text)
        self._effort.spend(characters)
        return not self._wanted.isdisjoint(words) or any(word in text for word in self._odd)


def _near(index: Index, words: frozenset[str], effort: Effort) -> Column:
    """Rows of the functions with code that have a name which holds one of the words; all of them where to compare them takes no
    longer than to look for that many words."""
    functions, strings = index.functions, index.strings
    placed = functions.section > 0
    if len(words) * strings.text_bytes < np.count_nonzero(placed) * CHARACTERS_A_NAME:
        holding = []
        for word in words:
            effort.check_wanted()
            holding.append(strings.holding(word))
        numbers = np.concatenate(holding)
        placed &= np.isin(functions.name, numbers) | np.isin(functions.linkage_name, numbers)
    return np.flatnonzero(placed)


def _called(index: Index) -> Column:
    """For each function the numbers of its linkage name and its name, as one."""
    functions = index.functions
    return functions.linkage_name.astype(np.int64) << _NAME_BITS | functions.name


def _placed(index: Index, rows: Iterable[int], path: str | None) -> Iterator[Start]:
    functions = index.functions
    for row in rows:
        section = int(functions.section[row]) - 1
        if section >= 0 and index.is_chosen(section, path):
            yield index.start(section, int(functions.offset[row]), int(functions.size[row]))
