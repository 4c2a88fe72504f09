"""The places that an ambiguous answer could mean, for the answers of one batch. Most batches ask for one place many times, and
what could be meant by it is found once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from symd.index import Index
from symd.model.answers import Candidate

MAX_CANDIDATES = 64
"""The most candidates that one ambiguous answer names."""
MAX_EXPLAINED = 10_000
"""The most ambiguous answers of a batch for which candidates are named."""
MAX_NAMED = 100_000
"""The most candidates that the ambiguous answers of a batch name together."""

Places = Iterable[tuple[int, int]]
"""Numbers of text sections, and offsets in them."""


class NamedCandidates:
    """The candidates of the ambiguous answers of a batch. ``by_query`` maps the numbers of queries to their
    candidates; equal ones are one tuple."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._explained = self._named = 0
        self.by_query: dict[int, tuple[Candidate, ...]] = {}

    @property
    def full(self) -> bool:
        """Whether no further ambiguous answer gets candidates."""
        return self._explained >= MAX_EXPLAINED or self._named >= MAX_NAMED

    def explain(self, queries: Iterable[tuple[int, int]], places: Callable[[int], Places]) -> None:
        """Name the candidates of ambiguous queries, given as (number, value); ``places`` has those that hold a value, ``MAX_CANDIDATES``
        at most."""
        known: dict[int, tuple[Candidate, ...]] = {}
        for number, value in queries:
            if self.full:
                return
            if value not in known:
                known[value] = tuple(self._index.candidate(*place) for place in places(value))
            self.by_query[number] = known[value]
            self._explained += 1
            self._named += len(known[value])
