"""Modules of many code objects that are answered for in part while their indexes are made."""

from __future__ import annotations

from typing import NamedTuple

from symd.index import Index
from symd.model.addresses import Query
from symd.model.summaries import ModuleSummary

_MOST_OUTLINES = 4


class Outlined(NamedTuple):
    """A module whose whole index is not made yet: its summary, and the last index that was made for some queries."""

    summary: ModuleSummary
    queries: frozenset[Query] = frozenset()
    some: Index | None = None


class Outlines:
    """The last few of them, by digest."""

    def __init__(self) -> None:
        self._kept: dict[str, Outlined] = {}

    def get(self, digest: str) -> Outlined | None:
        return self._kept.get(digest)

    def keep(self, digest: str, outlined: Outlined) -> None:
        while len(self._kept) >= _MOST_OUTLINES and digest not in self._kept:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[digest] = outlined

    def forget(self, digest: str) -> None:
        self._kept.pop(digest, None)
