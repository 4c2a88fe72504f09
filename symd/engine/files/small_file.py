"""A file that is held in memory whole, and answered from as much of its index as the questions need."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symd.config import Limits
from symd.engine.files.debug_files import with_debug_file, with_dwo_files
from symd.engine.files.gc_control import gc_paused
from symd.engine.files.input import called, read_input
from symd.engine.files.kernel_packs import with_kernel_packs
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.containers.amd import amdgpu
from symd.index.lookup import Index
from symd.index.module import keep_freed_memory
from symd.index.partial import FileIndex
from symd.model.addresses import ByKernel, Query
from symd.model.answers import Answer
from symd.model.columns import U64
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary
from symd.query.symbolize import QueryBudget, name_search, symbolize, symbolize_column

Queries = Sequence[Query] | U64
"""Queries, or a column of object addresses."""


def symbolize_file_index(
    index: FileIndex, questions: Queries, path: str | None, *, as_written: bool
) -> Sequence[Answer]:
    """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them; ``Answers`` where there are
    several."""
    if not isinstance(questions, Sequence):
        return symbolize_column(
            index.whole(path).view(as_written=as_written), questions, path=path, budget=QueryBudget()
        )
    budget = QueryBudget()
    meant = _by_symbols(index, questions, path, budget)
    return _answers(index.for_queries(meant, path).view(as_written=as_written), meant, path, budget)


def search_partial_index(index: FileIndex, query: Query, path: str | None, *, as_written: bool) -> Answer | None:
    """The answer to one question, where less than the whole index has it; None for every other."""
    budget = QueryBudget()
    meant = _by_symbols(index, [query], path, budget)
    found = index.before_whole(meant, path)
    return None if found is None else _answers(found.view(as_written=as_written), meant, path, budget)[0]


def _answers(index: Index, meant: Sequence[Query], path: str | None, budget: QueryBudget) -> Sequence[Answer]:
    plain = index.answer(meant[0], path) if len(meant) == 1 else None
    return symbolize(index, meant, path, budget) if plain is None else [plain]


def _by_symbols(index: FileIndex, questions: Sequence[Query], path: str | None, budget: QueryBudget) -> Sequence[Query]:
    """The questions, by the symbol of a function where they call it otherwise and mean that one: what has the symbol is
    then all that is decoded."""
    names = {query.kernel for query in questions if isinstance(query, ByKernel)}
    symbols = index.symbols(path) if names else set()
    if names <= symbols:
        return questions
    found = name_search(budget).symbols_meant(names - symbols, symbols)
    plain = {name: each[0] for name, each in found.items() if len(each) == 1}
    return [
        ByKernel(plain[query.kernel], query.offset) if isinstance(query, ByKernel) and query.kernel in plain else query
        for query in questions
    ]


FindIndex = Callable[[bytes], Index | None]
"""Finds an index that was made of a module's bytes before; None where there is none."""


class SmallFile:
    """Answers questions about one file that is held in memory whole. ``data`` are its bytes. Raises ``SymdError``
    where ``file`` (as for ``whole_file``, or its bytes) cannot be read or opened."""

    def __init__(self, file: str | bytes, limits: Limits, find_index: FindIndex | None = None) -> None:
        self.data = data = whole_file(file, limits) if isinstance(file, str) else file
        if find_index is not None:
            stored = find_index(data)
            if stored is not None:
                self._index = FileIndex.of(stored)
                return
        self._heap = keep_freed_memory(len(data))
        try:
            with gc_paused():
                unpacked = containers.unpack(data, limits)
        except SymdError as error:
            raise error.prefix_where(called(file)) from None
        self._index = FileIndex(
            unpacked.objects, ModuleSummary(Digest(""), len(data), unpacked.format, notes=unpacked.notes), limits
        )

    def symbolize(self, questions: Queries, path: str | None = None, *, as_written: bool = False) -> Sequence[Answer]:
        """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them."""
        return symbolize_file_index(self._index, questions, path, as_written=as_written)

    def answer_from_partial_index(
        self, query: Query, path: str | None = None, *, as_written: bool = False
    ) -> Answer | None:
        """The answer to one question, where less than the whole index has it; None where whoever asks on needs that."""
        return search_partial_index(self._index, query, path, as_written=as_written)

    def spirv_with(self, kernel: str) -> str:
        return self._index.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        return self._index.unread(path)

    def described(self) -> Sequence[ObjectSummary]:
        return self._index.described()


def whole_file(file: str, limits: Limits) -> bytes:
    """The bytes of a file (as for ``read_input``) joined with what lies apart from it; a code object of AMD's is
    mapped. Raises what reading and joining them raises."""
    data = read_input(file, limits, amdgpu.claims)  # can be large; its reader takes sections alone
    if not amdgpu.claims(data):
        data = with_kernel_packs(data, file, limits)
    return with_dwo_files(with_debug_file(data, file, limits), file, limits)
