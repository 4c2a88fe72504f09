"""Questions about one opened file, answered from as much of its index as they need."""

from __future__ import annotations

from collections.abc import Sequence

from symd.config import Limits
from symd.index.file_index import FileIndex
from symd.index.lookup import Index
from symd.model.addresses import ByKernel, Query
from symd.model.answers import Answer
from symd.model.columns import U64
from symd.query.effort import Effort
from symd.query.symbolize import symbolize, symbolize_column

Queries = Sequence[Query] | U64
"""Queries, or a column of object addresses."""


def file_answers(
    index: FileIndex, questions: Queries, path: str | None, limits: Limits, *, as_written: bool
) -> Sequence[Answer]:
    """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them; ``Answers`` where there are several."""
    if not isinstance(questions, Sequence):
        return symbolize_column(
            index.whole(path).read(as_written=as_written), questions, path=path, effort=Effort(limits)
        )
    effort = Effort(limits)
    meant = _by_symbols(index, questions, path, effort)
    return _answers(index.for_queries(meant, path).read(as_written=as_written), meant, path, effort)


def first_answer(
    index: FileIndex, query: Query, path: str | None, limits: Limits, *, as_written: bool
) -> Answer | None:
    """The answer to one question, where less than the whole index has it; None for every other."""
    effort = Effort(limits)
    meant = _by_symbols(index, [query], path, effort)
    found = index.before_whole(meant, path)
    return None if found is None else _answers(found.read(as_written=as_written), meant, path, effort)[0]


def _answers(index: Index, meant: Sequence[Query], path: str | None, effort: Effort) -> Sequence[Answer]:
    plain = index.answer(meant[0], path) if len(meant) == 1 else None
    return symbolize(index, meant, path, effort) if plain is None else [plain]


def _by_symbols(index: FileIndex, questions: Sequence[Query], path: str | None, effort: Effort) -> Sequence[Query]:
    """The questions, by the symbol of a function where they call it otherwise and mean that one: what has the symbol is then all that is
    decoded."""
    names = {query.kernel for query in questions if isinstance(query, ByKernel)}
    symbols = index.symbols(path) if names else set()
    if names <= symbols:
        return questions
    from symd.query.function_names import symbols_meant  # noqa: PLC0415 - most people name kernels

    found = symbols_meant(names - symbols, symbols, effort)
    plain = {name: each[0] for name, each in found.items() if len(each) == 1}
    return [
        ByKernel(plain[query.kernel], query.offset) if isinstance(query, ByKernel) and query.kernel in plain else query
        for query in questions
    ]
