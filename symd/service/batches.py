"""A batch of addresses answered: shared by the unary call and the stream."""

from __future__ import annotations

from symd.errors import InvalidInput, LimitExceeded
from symd.service.parts import Parts
from symd.v1.symbol_service_pb2 import ANSWER_FORM_COLUMNS, ANSWER_FORM_ROWS, SymbolizeRequest, SymbolizeResponse
from symd.wire.answers import to_answer, to_columns
from symd.wire.names import module_digest
from symd.wire.queries import column_length, from_column, from_queries


def answer(parts: Parts, request: SymbolizeRequest) -> SymbolizeResponse:
    """The answers in the form that was asked for. Raises ``LimitExceeded`` before it looks at too large a batch."""
    digest = module_digest(request.name)
    path = request.object if request.HasField("object") else None
    if not request.HasField("column"):
        _check_size(len(request.queries), parts.config.limits.batch)
        answers = parts.engine.symbolize(digest, from_queries(request.queries), path)
        if request.form == ANSWER_FORM_COLUMNS:
            return SymbolizeResponse(columns=to_columns(answers))
        return SymbolizeResponse(answers=map(to_answer, answers))
    if request.queries:
        raise InvalidInput("a batch has both queries and a column", hint="send one of them")
    _check_size(column_length(request.column), parts.config.limits.batch)
    values, kernel, section = from_column(request.column)
    answers = parts.engine.symbolize_column(digest, values, kernel=kernel, section=section, path=path)
    if request.form == ANSWER_FORM_ROWS:
        return SymbolizeResponse(answers=map(to_answer, answers))
    return SymbolizeResponse(columns=to_columns(answers, values))


def _check_size(count: int, most: int) -> None:
    if count > most:
        raise LimitExceeded(
            f"the batch has {count} addresses, at most {most} are taken",
            hint="send several batches",
            metadata={"limit": "batch", "value": str(most)},
        )
