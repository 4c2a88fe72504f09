"""Questions about one opened file, answered from as much of its index as they need."""

from __future__ import annotations

from collections.abc import Sequence

from symd.config import Limits
from symd.index.file_index import FileIndex
from symd.model.addresses import Query
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
    found = index.for_queries(questions, path).read(as_written=as_written)
    plain = found.answer(questions[0], path) if len(questions) == 1 else None
    return symbolize(found, questions, path, Effort(limits)) if plain is None else [plain]
