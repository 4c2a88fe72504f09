"""Addresses of one file, symbolized in this process and without a store: as much of the file is decoded as they need."""

from __future__ import annotations

from collections.abc import Sequence

from symd import containers
from symd.cli.garbage import gc_frozen
from symd.cli.input import read_input
from symd.config import Limits
from symd.containers.amd import amdgpu
from symd.errors import SymdError
from symd.index.module import keep_freed_memory
from symd.indexes import FileIndex
from symd.model.addresses import Query
from symd.model.answers import Answers
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary
from symd.query.symbolize import symbolize


class OneFile:
    """Raises ``SymdError`` where ``file`` (as for ``read_input``) cannot be read or opened."""

    def __init__(self, file: str, limits: Limits) -> None:
        data = read_input(file, limits, amdgpu.claims)  # can be large; its reader takes sections alone
        keep_freed_memory()
        try:
            with gc_frozen():
                unpacked = containers.unpack(data, limits)
        except SymdError as error:
            raise error.prefix_where("standard input" if file == "-" else file) from None
        self._index = FileIndex(unpacked.objects, ModuleSummary(Digest(""), len(data), unpacked.format), limits)

    def symbolize(self, queries: Sequence[Query], path: str | None = None) -> Answers:
        """Frames for each query, in order, as ``Symbolizer.symbolize`` gives them."""
        return symbolize(self._index.for_queries(queries), queries, path)
