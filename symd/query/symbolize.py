"""The frames at addresses: queries are resolved to (text section, offset), then all are one search and one gather;
every query has its own reason.

The places that an ambiguous answer could mean are found once, also if a batch asks for one place many times. The search
for names of functions is bounded (``NameSearchBudget``): readable names are worked out one by one, and a module may
have a million of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from symd.errors import LimitExceeded, ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.index.lookup import Start, parts_of
from symd.model.addresses import ByAddress, ByKernel, BySection, Query, SectionOffset, wrong_query
from symd.model.answers import Answer, Answers, Candidate, Reason, TextSection
from symd.model.cancellation import check_cancelled
from symd.model.columns import U64, in_groups

if TYPE_CHECKING:
    from symd.model.contexts import Origin
    from symd.query.function_names import NameSearch

NAME_SEARCH_LETTERS = 50_000_000
"""Letters of functions' names that one request may have spelled as people write them, where it asks for names that no
kernel and no symbol has."""


class NameSearchBudget:
    """What one request may spend on the names of functions."""

    def __init__(self) -> None:
        self._left = NAME_SEARCH_LETTERS

    def spend(self, characters: int) -> None:
        """Count characters of names that were spelled out. Raises ``LimitExceeded``."""
        check_cancelled()
        self._left -= characters
        if self._left < 0:
            raise LimitExceeded(
                f"to find the functions by the names asked for, more than {NAME_SEARCH_LETTERS} characters of names would have to be spelled out",
                hint="ask by linkage names, or in one code object",
                metadata={"limit": "name_search_letters", "value": str(NAME_SEARCH_LETTERS)},
            )


MAX_CANDIDATES = 64
"""The most candidates that one ambiguous answer names."""
MAX_EXPLAINED = 10_000
"""The most ambiguous answers of a batch for which candidates are named."""
MAX_NAMED = 100_000
"""The most candidates that the answers of a batch name together; those beyond are ambiguous without any."""


class CandidateBudget:
    """How many ambiguous answers of a batch have candidates so far, and how many candidates those have together."""

    def __init__(self) -> None:
        self._explained = self._named = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further ambiguous answer gets candidates."""
        return self._explained >= MAX_EXPLAINED or self._named >= MAX_NAMED

    def count(self, candidates: int) -> None:
        """Count one more answer that has so many."""
        self._explained += 1
        self._named += candidates


Places = Iterable[tuple[int, int]]
"""Numbers of text sections, and offsets in them."""


class NamedCandidates:
    """The candidates of the ambiguous answers of a batch. ``by_query`` maps the numbers of queries to their
    candidates; equal ones are one tuple."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.budget = CandidateBudget()
        self.by_query: dict[int, tuple[Candidate, ...]] = {}

    def explain(self, queries: Iterable[tuple[int, int]], places: Callable[[int], Places]) -> None:
        """Name the candidates of ambiguous queries, given as (number, value); ``places`` has those that hold a value,
        ``MAX_CANDIDATES`` at most."""
        known: dict[int, tuple[Candidate, ...]] = {}
        for number, value in queries:
            if self.budget.is_spent:
                return
            if value not in known:
                known[value] = tuple(self._index.candidate(*place) for place in places(value))
            self.by_query[number] = known[value]
            self.budget.count(len(known[value]))


MAX_SUGGESTED = 16
"""For so many unknown names of a batch, and for so many queries of each, names like it are looked for. Likewise for
unknown sections."""


def symbolize(
    index: Index, queries: Sequence[Query], path: str | None = None, budget: NameSearchBudget | None = None
) -> Answers:
    """Answers in the order of ``queries``. Raises ObjectNotFound when there is no code object at ``path``, and what
    ``budget`` raises, which bounds the search for names that no kernel has."""
    _check_object(index, path)
    batch = _Batch(index, len(queries), budget)
    groups = _by_base(queries, path)
    batch.look_up((base.kernel for base in groups), path)

    for base, numbers in groups.items():
        values = np.array([_value(queries[number]) for number in numbers], np.uint64)
        batch.resolve(base, np.array(numbers, np.int64), values)
    return batch.answers()


def symbolize_one(
    index: Index, query: Query, path: str | None = None, budget: NameSearchBudget | None = None
) -> Answer:
    """The answer to one query, as ``symbolize``; without making columns where it means one byte of text."""
    return index.answer(query, path) or symbolize(index, (query,), path, budget)[0]


def symbolize_column(
    index: Index,
    values: U64,
    *,
    kernel: str | None = None,
    section: str | int | None = None,
    path: str | None = None,
    budget: NameSearchBudget | None = None,
) -> Answers:
    """Answers to a column of kernel offsets, of section offsets, or of object addresses when neither is given.
    Raises ObjectNotFound when there is no code object at ``path``, and what ``budget`` raises."""
    _check_object(index, path)
    batch = _Batch(index, len(values), budget)
    batch.resolve(_CountedFrom(path, kernel, section), slice(None), values)
    return batch.answers()


def symbolize_origins(
    index: Index,
    origins: Sequence[Origin],
    used: Sequence[int],
    origin: Column,
    values: U64,
    budget: NameSearchBudget | None = None,
) -> Answers:
    """Answers to a column of values that count from several ``origins`` in this module: kernels, sections, or code
    objects; ``origin`` has the number of each value's, and ``used`` all that are there. Where there is no code object
    of that path the reason is UNKNOWN_KERNEL."""
    batch = _Batch(index, len(values), budget)
    kernels: dict[str | None, list[str | None]] = {}
    for number in used:
        kernels.setdefault(origins[number].path, []).append(origins[number].kernel)
    for path, names in kernels.items():
        if path is None or index.has_object(path):
            batch.look_up(names, path)

    starts = _SingleStarts(len(origins))
    for number in used:
        starts.put(number, batch.starts_of(_base_of(origins[number])))

    if len(used) == 1:
        batch.count_from(_base_of(origins[used[0]]), slice(None), values)
        return batch.answers()

    batch.count_from_each(starts, origin, values)
    if not starts.one[used].all():
        others = np.flatnonzero(~starts.one[origin])
        for number, where in in_groups(origin[others]):
            batch.count_from(_base_of(origins[number]), others[where], values[others[where]])
    return batch.answers()


class _SingleStarts:
    """Columns over the numbers of origins. ``one`` marks the origins that begin at exactly one place; the other columns
    say where these begin."""

    def __init__(self, count: int) -> None:
        self.one = np.zeros(count, np.bool_)
        self.section = np.zeros(count, np.int32)  # number of the text section
        self.offset = np.zeros(count, np.uint64)  # bytes into that section
        self.bytes_left = np.zeros(count, np.uint64)  # bytes of the section from there on

    def put(self, number: int, starts: Sequence[Start]) -> None:
        if len(starts) == 1:
            self.one[number] = True
            self.section[number], self.offset[number], self.bytes_left[number] = starts[0]


class _CountedFrom(NamedTuple):
    """What values count from: a kernel or function, or else a text section by name or number, or else address 0 of the
    code object at ``path``."""

    path: str | None
    kernel: str | None = None
    section: str | int | None = None


_QueryNumbers = Column | slice
"""Which queries of a batch; the whole slice is all of them."""


def _base_of(origin: Origin) -> _CountedFrom:
    return _CountedFrom(origin.path, origin.kernel, origin.section)


def _by_base(queries: Sequence[Query], path: str | None) -> dict[_CountedFrom, list[int]]:
    groups: dict[tuple[str | None, str | int | None], list[int]] = {}  # plain tuples: they take a third of the time
    for number, query in enumerate(queries):
        groups.setdefault(_kernel_and_section(query), []).append(number)
    return {_CountedFrom(path, kernel, section): numbers for (kernel, section), numbers in groups.items()}


def _kernel_and_section(query: Query) -> tuple[str | None, str | int | None]:
    if isinstance(query, ByKernel):
        return query.kernel, None
    if isinstance(query, ByAddress):
        return None, None
    if isinstance(query, BySection):
        return None, query.section
    raise wrong_query(query)


def _value(query: Query) -> int:
    return query.address if isinstance(query, ByAddress) else query.offset


def _check_object(index: Index, path: str | None) -> None:
    if path is not None and not index.has_object(path):
        raise ObjectNotFound.at(path, index.objects)


def name_search(budget: NameSearchBudget) -> NameSearch:
    """What finds the functions of names that no kernel and no symbol has as they stand."""
    from symd.query.function_names import NameSearch  # noqa: PLC0415 - 8 of the 170 ms of a question that names a kernel

    return NameSearch(budget)


class _Batch:
    """Columns of a batch while its queries are resolved."""

    def __init__(self, index: Index, size: int, budget: NameSearchBudget | None) -> None:
        self.index = index
        self._budget = budget or NameSearchBudget()
        self._starts: dict[str | None, dict[str, list[Start]]] = {}
        self._sections: dict[str | None, dict[str | int | None, list[Start]]] = {}
        self.section = np.zeros(size, np.int32)
        self.offset = np.zeros(size, np.uint64)
        self.reason = np.zeros(size, np.uint8)
        self.candidates = NamedCandidates(index)
        self._suggested = 0
        self._unknown: dict[str | None, dict[str, list[int]]] = {}

    def look_up(self, names: Iterable[str | None], path: str | None) -> None:
        """Find where the functions of these names begin. Names that are looked up together cost one walk over the names
        of the module; each of the others costs one of its own when it is resolved."""
        wanted = [name for name in names if name is not None]
        found = {name: self.index.kernel_starts(name, path) for name in wanted}
        missing = [name for name in found if not found[name]]
        if missing:
            found |= name_search(self._budget).starts_of_each(self.index, missing, path)
        self._starts.setdefault(path, {}).update(found)

    def _function_starts(self, path: str | None, name: str) -> list[Start]:
        if name not in self._starts.get(path, ()):
            self.look_up((name,), path)
        return self._starts[path][name]

    def resolve(self, base: _CountedFrom, numbers: _QueryNumbers, values: U64) -> None:
        """Find the text section and the offset of each of ``values``, or the reason why there is none."""
        if base.kernel is not None:
            self._in_function(base.path, base.kernel, numbers, values)
        elif base.section is not None:
            self._in_section(base.path, base.section, numbers, values)
        else:
            self._at_address(base.path, numbers, values)

    def starts_of(self, base: _CountedFrom) -> Sequence[Start]:
        """Where a kernel or section begins; nowhere if neither is given, or if the code object is not there."""
        if base.path is not None and not self.index.has_object(base.path):
            return ()
        if base.kernel is not None:
            return self._function_starts(base.path, base.kernel)
        return () if base.section is None else self._section_starts(base.path).get(base.section, ())

    def count_from_each(self, starts: _SingleStarts, origin: Column, values: U64) -> None:
        """Resolve values that count from origins which have one beginning; what others get is to be resolved again."""
        for part in parts_of(len(values)):
            numbers, value = origin[part].astype(np.intp), values[part]  # else each look-up makes them so
            self.section[part] = starts.section[numbers]
            self.offset[part] = value + starts.offset[numbers]
            outside = value >= starts.bytes_left[numbers]
            if outside.any():
                self.reason[part][outside] = Reason.OUTSIDE_TEXT

    def count_from(self, base: _CountedFrom, numbers: _QueryNumbers, values: U64) -> None:
        """Resolve values of one origin, whatever ``count_from_each`` made of them."""
        if base.path is not None and not self.index.has_object(base.path):
            self.reason[numbers] = Reason.UNKNOWN_KERNEL
            return
        self.reason[numbers] = 0
        self.resolve(base, numbers, values)

    def _at_address(self, path: str | None, numbers: _QueryNumbers, values: U64) -> None:
        for part in parts_of(len(values)):
            self._part_at_address(path, part if isinstance(numbers, slice) else numbers[part], values[part])

    def _part_at_address(self, path: str | None, numbers: _QueryNumbers, values: U64) -> None:
        count, text, offset = self.index.address_map(path).resolve(values)
        self.section[numbers] = text
        self.offset[numbers] = offset
        is_single = count == 1
        if is_single.all():
            return
        self.reason[numbers] = np.where(is_single, 0, np.where(count, Reason.AMBIGUOUS, Reason.OUTSIDE_TEXT))
        if (count > 1).any():
            self._name_candidates(numbers, values, np.flatnonzero(count > 1), self._sections_holding(path))

    def _sections_holding(self, path: str | None) -> Callable[[int], Places]:
        """What gives, for an address, the (text section, offset) of every one that holds it."""
        columns = self.index.columns
        sections = self.index.chosen_sections(path)
        start = columns.section_address.astype(np.uint64)[sections]
        size = columns.section_size.astype(np.uint64)[sections]

        def places(address: int) -> Places:
            held = np.flatnonzero((start <= np.uint64(address)) & (np.uint64(address) - start < size))[:MAX_CANDIDATES]
            return [(int(sections[at]), address - int(start[at])) for at in held.tolist()]

        return places

    def _name_candidates(
        self, numbers: _QueryNumbers, values: U64, slots: Column, places: Callable[[int], Places]
    ) -> None:
        """Name the candidates of those queries whose slots are given."""
        if not self.candidates.budget.is_spent:
            few = slots[:MAX_EXPLAINED].tolist()
            self.candidates.explain(((_number(numbers, slot), int(values[slot])) for slot in few), places)

    def _in_function(self, path: str | None, name: str, numbers: _QueryNumbers, values: U64) -> None:
        starts = self._function_starts(path, name)
        if not starts and sum(map(len, self._unknown.values())) < MAX_SUGGESTED:
            first = [_number(numbers, slot) for slot in range(min(len(values), MAX_SUGGESTED))]
            self._unknown.setdefault(path, {}).setdefault(name, []).extend(first)
        self._resolve_from_starts(starts, numbers, values, Reason.UNKNOWN_KERNEL)

    def _suggest(self) -> None:
        """Name functions like those that do not exist: all at once, because what takes long is to read the names that
        there are."""
        for path, asked in self._unknown.items():
            found = name_search(self._budget).suggestions(self.index, list(asked), path)
            for numbers, suggested in zip(asked.values(), found, strict=True):
                self.candidates.by_query.update(dict.fromkeys(numbers if suggested else (), suggested))

    def _in_section(self, path: str | None, section: str | int, numbers: _QueryNumbers, values: U64) -> None:
        starts = self._section_starts(path).get(section, [])
        if not starts and self._suggested < MAX_SUGGESTED:
            self._suggested += 1
            chosen = self.index.chosen_sections(path)[:MAX_CANDIDATES].tolist()
            there = tuple(_first_byte(self.index.sections[text]) for text in chosen)
            for slot in range(min(len(values), MAX_SUGGESTED)) if there else ():
                self.candidates.by_query[_number(numbers, slot)] = there
        self._resolve_from_starts(starts, numbers, values, Reason.OUTSIDE_TEXT)

    def _section_starts(self, path: str | None) -> dict[str | int | None, list[Start]]:
        """Where sections begin, by name and by number: found once for a path, however many sections a batch asks
        for."""
        found = self._sections.get(path)
        if found is None:
            found = self._sections[path] = {}
            for text in self.index.chosen_sections(path).tolist():
                of_text = self.index.sections[text]
                first = Start(text, 0, self.index.section_size(text))
                found.setdefault(of_text.section, []).append(first)
                found.setdefault(of_text.section_index, []).append(first)
        return found

    def _resolve_from_starts(
        self, starts: Sequence[Start], numbers: _QueryNumbers, values: U64, missing: Reason
    ) -> None:
        if not starts:
            self.reason[numbers] = missing
            return
        if len(starts) > 1:
            self._resolve_ambiguous_starts(starts, numbers, values)
            return
        text, at, bytes_left = starts[0]
        self.section[numbers] = text
        self.offset[numbers] = values + np.uint64(at)
        in_text = values < np.uint64(bytes_left)
        if not in_text.all():
            self.reason[numbers] = np.where(in_text, 0, Reason.OUTSIDE_TEXT)

    def _resolve_ambiguous_starts(self, starts: Sequence[Start], numbers: _QueryNumbers, values: U64) -> None:
        """Offsets from each of several starts. One that is beyond the text of every start has no candidates: it is
        outside, not ambiguous."""
        bytes_left = np.array([start.bytes_left for start in starts], np.uint64)
        in_text = values < bytes_left.max()
        self.reason[numbers] = np.where(in_text, Reason.AMBIGUOUS, Reason.OUTSIDE_TEXT)
        self._name_candidates(numbers, values, np.flatnonzero(in_text), self._starts_reaching(starts, bytes_left))

    def _starts_reaching(self, starts: Sequence[Start], bytes_left: U64) -> Callable[[int], Places]:
        """What gives, for an offset from each of ``starts``, the (text section, offset) of every one that is inside its
        text, of which so many bytes follow it."""

        def places(value: int) -> Places:
            inside = np.flatnonzero(bytes_left > np.uint64(value))[:MAX_CANDIDATES].tolist()
            return [(starts[number].section, starts[number].offset + value) for number in inside]

        return places

    def answers(self) -> Answers:
        """One search and one gather for all that have a place; the reason's own location for the rest."""
        self._suggest()
        location, locations = self.index.locate_batch(self.section, self.offset, self.reason)
        text = self.section.view(np.uint32)
        text += np.uint32(1)
        if self.reason.any():
            nowhere = self.reason != 0
            text[nowhere] = self.offset[nowhere] = 0
        return Answers(location, text, self.offset, locations, self.index.sections, self.candidates.by_query)


def _first_byte(text: TextSection) -> Candidate:
    return Candidate(text.path, text.section, text.section_index, SectionOffset(0), None)


def _number(numbers: _QueryNumbers, slot: int) -> int:
    return slot + (numbers.start or 0) if isinstance(numbers, slice) else int(numbers[slot])
