"""Addresses of one file, symbolized in this process and without a store: as much of the file is decoded as they need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from symd import containers
from symd.cli.garbage import gc_frozen
from symd.cli.input import read_input
from symd.config import Limits
from symd.containers.amd import code_object
from symd.errors import SymdError
from symd.index import Index, build
from symd.index.module import decoded, keep_freed_memory
from symd.index.partial import PartialIndex
from symd.model.addresses import Query
from symd.model.answers import Answers
from symd.model.summaries import ModuleSummary
from symd.query.symbolize import symbolize

FEW = 64
"""Queries that may be answered from an excerpt; more need most of the file anyway."""


class OneFile:
    """Raises ``SymdError`` where ``file`` (as for ``read_input``) cannot be read or opened."""

    def __init__(self, file: str, limits: Limits) -> None:
        data = read_input(file, limits, code_object.claims)  # can be large; its reader takes sections alone
        keep_freed_memory()
        try:
            with gc_frozen():
                unpacked = containers.unpack(data, limits)
        except SymdError as error:
            raise error.prefix_where("standard input" if file == "-" else file) from None
        self._objects = unpacked.objects
        self._summary = ModuleSummary("", len(data), unpacked.format)

    def symbolize(self, queries: Sequence[Query], path: str | None = None) -> Answers:
        """Frames for each query, in order, as ``Symbolizer.symbolize`` gives them."""
        return symbolize(self._index(queries), queries, path)

    def _index(self, queries: Sequence[Query]) -> Index:
        some = None if "_whole" in vars(self) or len(queries) > FEW else self._excerpt.index(queries)
        return some or self._whole

    @cached_property
    def _excerpt(self) -> PartialIndex:
        return PartialIndex(self._objects, self._summary, parts=True)

    @cached_property
    def _whole(self) -> Index:
        return Index(build([decoded(code) for code in self._objects], self._summary))
