"""The index of one opened module in a process that answers a few questions and ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from symd.config import DEFAULT_LIMITS, Limits
from symd.index.builder import build_unpacked
from symd.index.lookup import Index
from symd.index.module import decoded_objects, keep_freed_memory
from symd.model.addresses import Query
from symd.model.code import CodeObject
from symd.model.summaries import ModuleSummary

if TYPE_CHECKING:
    from symd.index.partial import PartialIndex

MAX_PARTIAL_QUERIES = 64
"""Queries about one file that partial indexes may answer, all together; more need most of the file anyway."""


class FileIndex:
    """Partial, then whole."""

    def __init__(self, objects: Sequence[CodeObject], summary: ModuleSummary, limits: Limits) -> None:
        self._objects, self._limits = objects, limits
        self._summary = summary
        self._asked = 0

    @classmethod
    def of(cls, whole: Index) -> FileIndex:
        """One that is there already."""
        found = cls((), whole.summary, DEFAULT_LIMITS)
        found.__dict__["whole"] = whole
        return found

    def for_queries(self, queries: Sequence[Query]) -> Index:
        """An index that answers ``queries``."""
        self._asked += len(queries)
        if "whole" in vars(self) or self._asked > MAX_PARTIAL_QUERIES:
            return self.whole
        return self._partial.index(queries) or self.whole

    @cached_property
    def _partial(self) -> PartialIndex:
        from symd.index.partial import PartialIndex  # noqa: PLC0415 - who asks for many addresses needs all of the index

        return PartialIndex(self._objects, self._summary, units=True, limits=self._limits)

    @cached_property
    def whole(self) -> Index:
        """The index of all of it. The heap that is made for it stays: many answers take as much."""
        self._heap = keep_freed_memory(self._summary.size)
        file, unpacked = build_unpacked(decoded_objects(self._objects, self._limits), self._summary)
        return Index(file, one_table=True, unpacked=unpacked)
